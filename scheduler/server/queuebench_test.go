package server

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/queues"
	schedulerquota "berth.dev/berth/scheduler/quota"
)

// BenchmarkQueues is the CPU of the scheduler, and of an API server in memory that costs all cases the
// same, for each pod that gets a node: without queues and with a thousand of them, alone and beside
// pods that wait for a node or for quota. An API server in another process would add some hundred
// microseconds to each. Run it with -benchtime 2000x or so, and compare medians of several processes that
// run one case each, in turn: the first pods of a process cost more.
func BenchmarkQueues(b *testing.B) {
	quietly()
	for _, waiting := range []int{0, 2500} {
		for _, with := range []bool{false, true} {
			name := "no queues"
			if with {
				name = "queues"
			}
			b.Run(fmt.Sprintf("%s, %d wait", name, waiting), func(b *testing.B) {
				if b.N == 1 {
					return // the framework tries this first
				}
				l := newLab(b, b.N/8+2)
				defer func() { l.stop() }()
				if with {
					l.useQueues(b.N/teams+1, 0)
				}
				l.wait(b, waiting, with)
				b.ReportMetric(l.bind(b, b.N), "cpu-µs/op")
			})
		}
	}
}

// bind has so many pods get a node, and returns the CPU of each in microseconds.
func (l *lab) bind(b *testing.B, pods int) float64 {
	began := used(b)
	for i := range pods {
		l.put("pods", inQueue(gpuPod(fmt.Sprintf("load-%d", i), 100, 1), "busy", i))
		if i%500 == 499 || i == pods-1 {
			l.await(b, func() bool { return l.count(&l.given) > i })
		}
	}
	return float64((used(b) - began).Microseconds()) / float64(pods)
}

// BenchmarkBeside is the CPU of each pod that gets a node beside 2,500 that wait for room, without queues, and how many times that
// of each beside none: medians of labs in turn. Run it with -benchtime 1x.
func BenchmarkBeside(b *testing.B) {
	quietly()
	const rounds, pods = 3, 1000
	cost := map[int][]float64{}
	ballast := make([]byte, 256<<20) // or garbage would be collected more often beside none
	defer runtime.KeepAlive(ballast)
	for round := range rounds + 1 {
		for _, waiting := range []int{0, 2500} {
			l := newLab(b, pods/8+2)
			l.wait(b, waiting, false)
			if took := l.bind(b, pods); round > 0 { // the first pods of a process cost more
				cost[waiting] = append(cost[waiting], took)
			}
			l.stop()
		}
	}
	median := func(waiting int) float64 {
		slices.Sort(cost[waiting])
		return cost[waiting][rounds/2]
	}
	b.ReportMetric(median(2500), "cpu-us/pod")
	b.ReportMetric(median(2500)/median(0), "times")
}

// BenchmarkRestart is the CPU, and the time, in which a scheduler that starts has tried each of 5,000 pods
// that wait for quota, and the first of them has the GPU that has come free since the last one ended. Run
// it with -benchtime 1x.
func BenchmarkRestart(b *testing.B) {
	quietly()
	const waiting = 5000
	l := newLab(b, 2)
	l.useQueues(1, 1)
	l.put("pods", inQueue(gpuPod("runs", 100, 1), "full", 0))
	l.await(b, func() bool { return l.count(&l.given) == 1 })
	for i := range waiting {
		l.put("pods", inQueue(gpuPod(fmt.Sprintf("wait-%04d", i), 100, 1), "full", i))
	}
	l.await(b, func() bool { return l.outside() == waiting })
	l.stop()
	l.end("runs", "uid-runs")
	began, at := used(b), time.Now()
	l.start()
	l.await(b, func() bool { return l.count(&l.given) == 2 && l.outside() == waiting-1 })
	b.ReportMetric((used(b) - began).Seconds(), "cpu-s/op")
	b.ReportMetric(time.Since(at).Seconds(), "s/op")
	l.stop()
	for _, p := range list[*v1.Pod](l.cluster, "pods") {
		if (p.Spec.NodeName != "") != (p.Name == "wait-0000") {
			b.Errorf("pod %s is on node %q: the first in line is to have one", p.Name, p.Spec.NodeName)
		}
	}
}

// BenchmarkRest is the CPU at rest of a scheduler on 500 nodes, in percent of a core: alone, and beside gangs
// that wait for quota. Run it with -benchtime 1x.
func BenchmarkRest(b *testing.B) {
	quietly()
	for _, gangs := range []int{0, 2500} {
		b.Run(fmt.Sprintf("%d gangs of 2 wait", gangs), func(b *testing.B) {
			l := newLab(b, 500)
			defer func() { l.stop() }()
			l.useQueues(1, 0)
			for i := range 2 * gangs {
				p := inQueue(gpuPod(fmt.Sprintf("wait-%d", i), 100, 1), "full", i/2)
				p.Annotations = map[string]string{api.AnnotationGang: fmt.Sprint("g", i/2), api.AnnotationGangMinCount: "2"}
				l.put("pods", p)
			}
			l.await(b, func() bool { return l.outside() == 2*gangs })
			time.Sleep(2 * time.Second)
			began, at := used(b), time.Now()
			time.Sleep(20 * time.Second)
			b.ReportMetric(100*(used(b)-began).Seconds()/time.Since(at).Seconds(), "%core")
		})
	}
}

// quietly has schedulers log nothing.
func quietly() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
}

// newLab is a cluster whose API server answers at once, on nodes of 8 GPUs, with a scheduler.
func newLab(b *testing.B, nodes int) *lab {
	l := &lab{cluster: newCluster(b, 1)}
	l.slow, l.room = 1, 1_000_000
	for i := range nodes {
		l.put("nodes", t4s(b, fmt.Sprintf("n%d", i), 8))
	}
	l.start()
	return l
}

// teams are half of the queues: those whose pods get nodes, and as many whose pods wait.
const teams = 500

// inQueue has a pod enter one of the queues of a tree.
func inQueue(p *v1.Pod, tree string, i int) *v1.Pod {
	p.Labels = map[string]string{api.LabelQueue: fmt.Sprintf("%s-%d", tree, i%teams)}
	return p
}

// wait creates pods that wait, for quota or for more GPUs than a node has.
func (l *lab) wait(b *testing.B, n int, queues bool) {
	for i := range n {
		l.put("pods", inQueue(gpuPod(fmt.Sprintf("wait-%d", i), 100, 9), "full", i))
	}
	l.await(b, func() bool {
		pods, _ := l.pending.PendingPods()
		return l.count(&l.patches) >= n && len(pods) == n && (!queues || l.outside() == n)
	})
}

// outside is how many pods are outside of kube-scheduler's queue, while nothing is tried.
func (l *lab) outside() int {
	inside, _ := l.inside.PendingPods()
	all, _ := l.pending.PendingPods()
	if len(inside) > 0 || len(l.inside.InFlightPods()) > 0 {
		return -1
	}
	return len(all)
}

// used is the CPU of this process so far.
func used(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// await looks until something is so.
func (l *lab) await(b *testing.B, is func() bool) {
	for end := time.Now().Add(4 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatal("not so after 4 minutes")
		}
	}
}

// count reads what the API server has counted.
func (l *lab) count(of *int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *of
}

// useQueues has pods counted as the scheduler reads them from Queues, in two trees: busy, of whose queues each
// has so many GPUs, and full, that has so many together.
func (l *lab) useQueues(each, full int) {
	var objects []*v1alpha1.Queue
	add := func(name, parent string, gpus int) {
		objects = append(objects, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{
			Parent: parent, Namespaces: &v1alpha1.QueueNamespaces{LabeledPods: []string{"*"}},
			Quotas: []v1alpha1.QueueQuota{{GPUs: v1alpha1.GPUsAll, Nominal: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}},
		}})
	}
	add("busy", "", each*teams)
	add("full", "", full)
	for i := range teams {
		add(fmt.Sprintf("busy-%d", i), "busy", each)
		add(fmt.Sprintf("full-%d", i), "full", 0)
	}
	offers, members := &queues.Offers{}, queues.NewMembers(objects)
	for _, n := range list[*v1.Node](l.cluster, "nodes") {
		offers.Set(n)
	}
	offers.Count(objects)
	specs, _ := queues.Specs(objects, offers.Products()...)
	reader := queues.Reader{
		Queue: func(p *v1.Pod) string { return members.QueueOf(p, nil) }, User: func(*v1.Pod) string { return "" },
		Held: func(p *v1.Pod, node string) []quota.Piece {
			there := *p
			there.Spec.NodeName = node
			return offers.Held(&there)
		},
		Asked: func(p *v1.Pod, allowed sharing.Ways) (quota.Pod, []quota.Kind) {
			return queues.Asked(p, offers, allowed)
		},
		Kind: offers.KindOf,
	}
	l.counts = func(q *schedulerquota.Quota) { q.SetQueues(specs, reader) }
	l.counts(l.quota)
}
