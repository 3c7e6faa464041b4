package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	kubedevices "berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/devices"
	"berth.dev/berth/scheduler/gpuonly"
	"berth.dev/berth/scheduler/server/outside"
	"berth.dev/berth/test/soak"
)

// bubbles prepares a test whose schedulers live in synctest bubbles: what the
// process has once must not be made in one, or keep a time of one.
func bubbles(t *testing.T) {
	t.Helper()
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR2) // kube-scheduler listens for it, to print its caches
	signal.Stop(c)
	logs, handlers := klog.CaptureState(), utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil // upstream's wait between two errors, by the time of the last
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	t.Cleanup(func() {
		utilruntime.ErrorHandlers = handlers
		logs.Restore()
	})
}

// mute is a recorder that keeps nothing.
type mute struct{ events.EventRecorderLogger }

func (mute) Eventf(_, _ apiruntime.Object, _, _, _, _ string, _ ...any) {}
func (m mute) WithLogger(klog.Logger) events.EventRecorderLogger        { return m }

// schedule runs kube-scheduler with Berth's plugins, as Setup configures it, on a
// cluster until the test's context ends. What fits nowhere is never tried again
// for its age alone: an event has to bring it back.
func schedule(ctx context.Context, t testing.TB, c *cluster) (stopped func()) {
	t.Helper()
	cfg, err := decode([]byte(Configuration(Settings{Names: []string{"default-scheduler"}, ReserveAfter: &c.reserve})))
	if err != nil {
		t.Fatal(err)
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.NominatedNodeNameForExpectation): false}); err != nil {
		t.Fatal(err)
	}
	client := c.client(ctx)
	factory := scheduler.NewInformerFactory(client, 0)
	plugins := runtime.Registry{gpuonly.Name: gpuonly.New}
	made, shared := devices.WithCluster(podInfo)
	maps.Copy(plugins, made)
	c.mu.Lock()
	c.quota = shared.Quota
	c.mu.Unlock()
	if c.counts != nil {
		c.counts(shared.Quota)
	} else {
		shared.Quota.SetQueues(c.queues, c.reader())
	}
	s, err := scheduler.New(ctx, client, factory, nil, func(string) events.EventRecorderLogger { return mute{} },
		scheduler.WithComponentConfigVersion(cfg.APIVersion), scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(plugins), scheduler.WithPodMaxInUnschedulablePodsDuration(1000*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.inside = s.SchedulingQueue
	c.pending = outside.Use(s, factory.Core().V1().Pods().Lister(), shared.State)
	c.mu.Unlock()
	handle := s.FailureHandler
	s.FailureHandler = func(ctx context.Context, f framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		handle(ctx, f, pod, status, nominating, start)
		shared.Waits.Failed(pod.Pod)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := s.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	return func() {
		<-done
		factory.Shutdown()
		time.Sleep(5 * time.Second) // the scheduler's metrics look once a second whether it has ended
	}
}

// t4s is a node with so many Tesla T4.
func t4s(t testing.TB, name string, n int) *v1.Node {
	t.Helper()
	p, ok := gpu.Find("Tesla T4")
	if !ok {
		t.Fatal("no Tesla T4")
	}
	var inventory []kubedevices.InventoryGPU
	for _, g := range gpu.New(name, p, n) {
		inventory = append(inventory, kubedevices.InventoryGPU{Index: g.Index, UUID: g.UUID, Product: g.Product, MemoryBytes: g.MemoryBytes, Healthy: true})
	}
	raw, err := json.Marshal(inventory)
	if err != nil {
		t.Fatal(err)
	}
	offers := v1.ResourceList{
		"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi"), "pods": resource.MustParse("110"),
		api.ResourceGPU: *resource.NewQuantity(int64(n), resource.DecimalSI), api.ResourceGPUMemory: *resource.NewQuantity(int64(15*n), resource.DecimalSI),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{v1.LabelHostname: name}, Annotations: map[string]string{api.AnnotationInventory: string(raw)}},
		Status:     v1.NodeStatus{Allocatable: offers, Capacity: offers},
	}
}

// gpuPod is a pod of a priority that asks for whole GPUs.
func gpuPod(name string, priority int32, gpus int64) *v1.Pod {
	limits := v1.ResourceList{api.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "d", UID: types.UID("uid-" + name), CreationTimestamp: metav1.Time{Time: time.Now()}},
		Spec: v1.PodSpec{
			SchedulerName: "default-scheduler", Priority: &priority,
			Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Limits: limits, Requests: limits}}},
		},
	}
}

// keptOut reports whether a pod says that GPUs are kept for another that waits, whose priority is
// not below it.
func (c *cluster) keptOut(p *v1.Pod) bool {
	_, name, ok := strings.Cut(said(p), "GPUs are being kept for d/")
	name, _, _ = strings.Cut(name, ",")
	return ok && slices.ContainsFunc(list[*v1.Pod](c, "pods"), func(o *v1.Pod) bool {
		return o.Name == name && o.Spec.NodeName == "" && *o.Spec.Priority >= *p.Spec.Priority
	})
}

// inversions names the pods that wait although a node has room for them, or would
// have if pods of lower priority were gone. It knows whole GPUs and what is asked of
// them by pods that may use every node, and nothing of Berth's own decisions.
func (c *cluster) inversions() []string {
	var out []string
	guarded := map[string]bool{}
	for _, b := range list[*policyv1.PodDisruptionBudget](c, "poddisruptionbudgets") {
		guarded[b.Spec.Selector.MatchLabels["app"]] = b.Status.DisruptionsAllowed == 0
	}
	pods := list[*v1.Pod](c, "pods")
	for _, p := range pods {
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || c.reserve > 0 && c.keptOut(p) {
			continue
		}
		for _, n := range list[*v1.Node](c, "nodes") {
			if n.Spec.Unschedulable {
				continue
			}
			room := n.Status.Allocatable[api.ResourceGPU]
			have, below := room.Value(), []string{}
			for _, o := range pods {
				switch {
				case o.Spec.NodeName != n.Name:
				case *o.Spec.Priority < *p.Spec.Priority && !guarded[o.Labels["app"]]:
					below = append(below, o.Name)
				default:
					have -= request.Of(o)[api.ResourceGPU]
				}
			}
			if have >= request.Of(p)[api.ResourceGPU] {
				out = append(out, fmt.Sprintf("%s of priority %d waits, with %v below it on %s: %s", p.Name, *p.Spec.Priority, below, n.Name, said(p)))
				break
			}
		}
	}
	return out
}

// said is what a pod's condition says of why it waits.
func said(p *v1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return c.Message
		}
	}
	return "nothing is said"
}

// live runs a test of a cluster in a bubble of its own, for each of many seeds. It
// ends with the cluster at rest, and nobody behind somebody of lower priority.
func live(t *testing.T, seeds int, test func(l *lab)) {
	bubbles(t)
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lab{cluster: newCluster(t, seed), draw: rand.New(rand.NewPCG(seed, 2))}
				defer func() { l.stop() }()
				test(l)
				l.network(reliable)
				rests(t, 4*time.Minute)
				if waits := l.inversions(); len(waits) > 0 {
					t.Errorf("at rest:\n%s", strings.Join(waits, "\n"))
				}
			})
		})
	}
}

// lab is a cluster, its scheduler, and the test's own chance.
type lab struct {
	*cluster
	draw *rand.Rand
	stop func()
}

// start starts a scheduler.
func (l *lab) start() {
	ctx, cancel := context.WithCancel(l.t.Context())
	stopped := schedule(ctx, l.t, l.cluster)
	l.stop = func() {
		cancel()
		stopped()
	}
}

// moment lets up to d pass.
func (l *lab) moment(d time.Duration) { time.Sleep(time.Duration(l.draw.Int64N(int64(d)))) }

// TestNobodyWaitsBehindLowerPriority fills a node with pods of low priority, and has
// others come at once of which some are urgent.
func TestNobodyWaitsBehindLowerPriority(t *testing.T) {
	live(t, soak.Pick(8, 40), func(l *lab) {
		l.put("nodes", t4s(l.t, "n0", 8))
		l.start()
		for i := range 4 {
			l.put("pods", gpuPod(fmt.Sprint("low-", i), 100, 2))
		}
		rests(l.t, time.Minute)
		for _, i := range l.draw.Perm(11) {
			name, priority := fmt.Sprint("new-", i), int32(100)
			if i < 5 {
				name, priority = fmt.Sprint("high-", i), 1000
			}
			l.put("pods", gpuPod(name, priority, 1))
			l.moment(20 * time.Millisecond)
		}
	})
}

// soon is less than the time after which a search that found nothing is forgotten, so
// that only what changes in the cluster can have the search repeated.
const soon = 10 * time.Second

// TestNobodyWaitsForWhatIsNoLongerInTheWay has a pod without GPUs keep an urgent one
// off the node by what only other plugins know, until it ends.
func TestNobodyWaitsForWhatIsNoLongerInTheWay(t *testing.T) {
	live(t, soak.Pick(4, 10), func(l *lab) {
		l.put("nodes", t4s(l.t, "n0", 2))
		l.start()
		keeper := gpuPod("keeper", 2000, 1)
		keeper.Spec.Containers[0].Resources = v1.ResourceRequirements{}
		keeper.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "urgent"}}, TopologyKey: v1.LabelHostname,
		}}}}
		l.put("pods", keeper, gpuPod("low-0", 100, 1), gpuPod("low-1", 100, 1))
		rests(l.t, time.Minute)
		urgent := gpuPod("urgent", 1000, 1)
		urgent.Labels = map[string]string{"app": "urgent"}
		l.put("pods", urgent)
		rests(l.t, soon)
		if len(l.evicted) > 0 || len(l.inversions()) != 1 {
			l.t.Fatalf("evicted %v, waiting %v: want nobody, and the urgent pod", l.evicted, l.inversions())
		}
		if err := l.delete("keeper", keeper.UID); err != nil {
			l.t.Fatal(err)
		}
	})
}

// TestNobodyWaitsForABudgetThatAllowsMore has pods under a disruption budget that
// allows nothing, and urgent ones that every plugin is asked about on every node.
func TestNobodyWaitsForABudgetThatAllowsMore(t *testing.T) {
	live(t, soak.Pick(4, 10), func(l *lab) {
		l.put("nodes", t4s(l.t, "n0", 4))
		l.budget("a", 0)
		l.start()
		for i := range 4 {
			p := gpuPod(fmt.Sprint("low-", i), 100, 1)
			p.Labels = map[string]string{"app": "a"}
			l.put("pods", p)
		}
		rests(l.t, time.Minute)
		for i := range 3 {
			l.put("pods", hostPort(gpuPod(fmt.Sprint("urgent-", i), 1000, 1), i))
		}
		rests(l.t, soon)
		if len(l.evicted) > 0 {
			l.t.Fatalf("evicted %v under a budget of 0", l.evicted)
		}
		l.budget("a", 100)
	})
}

// TestNobodyWaitsForWhomTheAPIServerKept has the API server refuse evictions for a
// while.
func TestNobodyWaitsForWhomTheAPIServerKept(t *testing.T) {
	live(t, soak.Pick(4, 10), func(l *lab) {
		l.put("nodes", t4s(l.t, "n0", 2))
		l.start()
		l.put("pods", gpuPod("low-0", 100, 1), gpuPod("low-1", 100, 1))
		rests(l.t, time.Minute)
		l.network(func(verb string) (error, bool) {
			if verb == "delete" {
				return apierrors.NewForbidden(v1.Resource("pods"), "", errors.New("a webhook says no")), false
			}
			return nil, true
		})
		l.put("pods", gpuPod("urgent", 1000, 1))
		rests(l.t, 10*time.Second)
	})
}

// TestNobodyWaitsForAnEvictionThatFails has two urgent pods wait for the end of the same pod, which is evicted
// for one of them. That one is deleted before its request to evict is lost.
func TestNobodyWaitsForAnEvictionThatFails(t *testing.T) {
	live(t, soak.Pick(8, 40), func(l *lab) {
		l.put("nodes", t4s(l.t, "n0", 2))
		l.start()
		l.put("pods", gpuPod("low", 100, 2))
		rests(l.t, time.Minute)
		l.network(func(verb string) (error, bool) {
			if verb != "delete" {
				return nil, true
			}
			time.Sleep(20 * time.Second)
			return errors.New("connection reset by peer"), false
		})
		l.put("pods", gpuPod("urgent-0", 1000, 1))
		time.Sleep(5 * time.Second)
		l.put("pods", gpuPod("urgent-1", 1000, 1))
		time.Sleep(5 * time.Second)
		if err := l.delete("urgent-0", "uid-urgent-0"); err != nil {
			l.t.Fatal(err)
		}
		l.network(reliable)
	})
}

// TestNobodyWaitsBehindLowerPriorityAfterAStorm lets pods come and go, nodes close and
// open, disruption budgets change, requests and answers get lost, and the scheduler
// start anew.
func TestNobodyWaitsBehindLowerPriorityAfterAStorm(t *testing.T) {
	afterAStorm(t, 0)
}

// TestNobodyWaitsBehindLowerPriorityExceptForReservations is the same with reservations: only pods for
// whose GPUs one of at least their priority waits may be kept out.
func TestNobodyWaitsBehindLowerPriorityExceptForReservations(t *testing.T) {
	afterAStorm(t, 10*time.Second)
}

func afterAStorm(t *testing.T, reserve time.Duration) {
	live(t, soak.Pick(8, 40), func(l *lab) {
		l.reserve = reserve
		for i := range 3 {
			n := t4s(l.t, fmt.Sprint("n", i), 1+l.draw.IntN(8))
			if l.draw.IntN(4) == 0 {
				n.Annotations = nil // its GPUs are counted, not chosen
			}
			l.put("nodes", n)
		}
		l.start()
		l.network(l.unreliable)
		for step := range 60 {
			l.step(step)
			l.moment(400 * time.Millisecond)
		}
	})
}

// unreliable is a network that loses a request now and then, or its answer, and an
// API server that now and then refuses.
func (l *lab) unreliable(verb string) (err error, arrives bool) {
	l.mu.Lock()
	dice := l.chance.IntN(40)
	l.mu.Unlock()
	switch {
	case dice == 0:
		return errors.New("connection reset by peer"), false
	case dice == 1:
		return errors.New("connection reset by peer"), true
	case dice == 2 && verb != "get":
		return apierrors.NewForbidden(v1.Resource("pods"), "", errors.New("a webhook says no")), false
	}
	return nil, true
}

// step changes something.
func (l *lab) step(step int) {
	pods, nodes := list[*v1.Pod](l.cluster, "pods"), list[*v1.Node](l.cluster, "nodes")
	switch dice := l.draw.IntN(20); {
	case dice < 11 || len(pods) == 0:
		p := gpuPod(fmt.Sprint("p", step), int32(100*l.draw.IntN(3)), int64(1+l.draw.IntN(4)))
		p.Labels = map[string]string{"app": string("abc"[l.draw.IntN(3)])}
		if l.draw.IntN(3) == 0 { // every plugin is asked about it, on every node
			hostPort(p, step)
		}
		l.put("pods", p)
	case dice < 14:
		p := pods[l.draw.IntN(len(pods))]
		if err := l.delete(p.Name, p.UID); err != nil {
			l.t.Error(err)
		}
	case dice < 16:
		n := nodes[l.draw.IntN(len(nodes))]
		n.Spec.Unschedulable = !n.Spec.Unschedulable
		l.put("nodes", n)
	case dice < 19:
		l.budget(string("ab"[l.draw.IntN(2)]), int32(100*l.draw.IntN(2)))
	default:
		l.stop()
		l.start()
	}
}

// budget makes a disruption budget for the pods of an app, or changes it.
func (l *lab) budget(app string, allowed int32) {
	l.put("poddisruptionbudgets", &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: "d", UID: types.UID(app)},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	})
}

// hostPort has a pod ask for a port of its node: every plugin is asked about it, on
// every node.
func hostPort(p *v1.Pod, n int) *v1.Pod {
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: int32(1000 + n), ContainerPort: 1, Protocol: v1.ProtocolTCP}}
	return p
}
