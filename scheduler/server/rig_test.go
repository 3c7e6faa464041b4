package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"

	"berth.dev/berth/core/quota"
	schedulerquota "berth.dev/berth/scheduler/quota"
)

// cluster is an API server in memory, with kubelets, for one scheduler: pods are
// bound, run, are deleted and end. Every request, answer and watch event takes a
// time of its own, by chance, so that each seed is another order of events. It must
// be used inside a synctest bubble.
type cluster struct {
	t testing.TB

	mu      sync.Mutex // not held while time passes
	chance  *rand.Rand
	version int
	objects map[string]map[string]runtime.Object // by resource and name
	log     map[string][]watch.Event             // by resource, from the first
	feeds   map[string][]*feed
	evicted []string
	given   int                    // pods that were bound
	patches int                    // of pods
	last    map[string]*v1.Pod     // those who were, as they were then
	graces  bool                   // pods end after their grace period, and not after some chance
	reserve time.Duration          // after how long there are reservations; 0: none
	slow    time.Duration          // the most that a request, an answer or an event takes
	room    int                    // how many events a watch may be behind
	rejects func(pod string) error // what an admission policy says of a binding
	queues  []quota.Spec
	counts  func(*schedulerquota.Quota)                 // has pods counted; nil: by queues
	quota   *schedulerquota.Quota                       // of the scheduler that runs
	inside  queue.SchedulingQueue                       // of it: kube-scheduler's own queue
	pending queue.SchedulingQueue                       // of it: also the pods outside of that
	fails   func(verb string) (err error, arrives bool) // of a request: what is answered, and whether it is done
}

func newCluster(t testing.TB, seed uint64) *cluster {
	return &cluster{
		t: t, chance: rand.New(rand.NewPCG(seed, 1)), slow: 30 * time.Millisecond, room: 10_000,
		objects: map[string]map[string]runtime.Object{"pods": {}, "nodes": {}, "poddisruptionbudgets": {}}, last: map[string]*v1.Pod{}, feeds: map[string][]*feed{}, log: map[string][]watch.Event{},
		fails: reliable, rejects: func(string) error { return nil },
	}
}

// feed is one watch. It hands on each event some time after the one before.
type feed struct {
	c      *cluster
	events chan watch.Event
	out    chan watch.Event
	stop   func()
	done   <-chan struct{}
}

func (f *feed) ResultChan() <-chan watch.Event { return f.out }
func (f *feed) Stop()                          { f.stop() }

// tell queues an event.
func (f *feed) tell(e watch.Event) {
	f.events <- watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()}
}

func (f *feed) run() {
	defer close(f.out)
	for {
		select {
		case e := <-f.events:
			f.c.pause()
			select {
			case f.out <- e:
			case <-f.done:
				return
			}
		case <-f.done:
			return
		}
	}
}

// network says what becomes of requests from now on.
func (c *cluster) network(fails func(verb string) (err error, arrives bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails = fails
}

// reliable is a network that loses nothing.
func reliable(string) (error, bool) { return nil, true }

// delay is how long the next thing takes.
func (c *cluster) delay() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.chance.Int64N(int64(c.slow)))
}

func (c *cluster) pause() { time.Sleep(c.delay()) }

// write changes one object, or with nil removes it, and tells the watches.
func (c *cluster) write(resource, name string, change func(runtime.Object) runtime.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeLocked(resource, name, change)
}

func (c *cluster) writeLocked(resource, name string, change func(runtime.Object) runtime.Object) {
	had := c.objects[resource][name]
	var now runtime.Object
	if had != nil {
		now = change(had.DeepCopyObject())
	} else {
		now = change(nil)
	}
	c.version++
	e := watch.Event{Type: watch.Modified, Object: now}
	switch {
	case now == nil && had == nil:
		return
	case now == nil:
		e = watch.Event{Type: watch.Deleted, Object: had.DeepCopyObject()}
		delete(c.objects[resource], name)
	case had == nil:
		e.Type = watch.Added
	}
	e.Object.(metav1.Object).SetResourceVersion(strconv.Itoa(c.version))
	if now != nil {
		c.objects[resource][name] = now
	}
	c.log[resource] = append(c.log[resource], e)
	for _, f := range c.feeds[resource] {
		f.tell(e)
	}
}

// pod changes a pod that is there.
func (c *cluster) pod(name string, change func(*v1.Pod) *v1.Pod) {
	c.write("pods", name, func(o runtime.Object) runtime.Object {
		if o == nil {
			return nil
		}
		if p := change(o.(*v1.Pod)); p != nil {
			return p
		}
		return nil
	})
}

// list gives copies of all objects of a resource, by name.
func list[T runtime.Object](c *cluster, resource string) []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []T
	for _, name := range slices.Sorted(maps.Keys(c.objects[resource])) {
		out = append(out, c.objects[resource][name].DeepCopyObject().(T))
	}
	return out
}

// put makes objects, or replaces those of the same name.
func (c *cluster) put(resource string, objects ...runtime.Object) {
	for _, o := range objects {
		c.write(resource, o.(metav1.Object).GetName(), func(runtime.Object) runtime.Object { return o.DeepCopyObject() })
	}
}

// end takes a pod away, as its kubelet does in the end.
func (c *cluster) end(name string, uid types.UID) {
	c.pod(name, func(p *v1.Pod) *v1.Pod {
		if p.UID != uid {
			return p
		}
		return nil
	})
}

// delete deletes a pod: one that runs ends after its grace period.
func (c *cluster) delete(name string, uid types.UID) error {
	bound, found, grace := false, false, time.Duration(0)
	c.pod(name, func(p *v1.Pod) *v1.Pod {
		if uid == "" {
			uid = p.UID
		}
		if found = p.UID == uid; !found {
			return p
		}
		if bound = p.Spec.NodeName != ""; !bound {
			return nil
		}
		if p.DeletionTimestamp == nil {
			c.evicted = append(c.evicted, name)
			if c.last[name] = p.DeepCopy(); p.Spec.TerminationGracePeriodSeconds != nil {
				grace = time.Duration(*p.Spec.TerminationGracePeriodSeconds) * time.Second
			}
			p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		return p
	})
	if !found {
		return apierrors.NewNotFound(v1.Resource("pods"), name)
	}
	if bound {
		after := c.delay() * (1 + c.delay()%40)
		if c.graces {
			after = c.delay() + grace
		}
		time.AfterFunc(after, func() { c.end(name, uid) })
	}
	return nil
}

// bind does what the API server does with a Binding, and the kubelet after it.
func (c *cluster) bind(b *v1.Binding) error {
	err := apierrors.NewNotFound(v1.Resource("pods"), b.Name)
	c.pod(b.Name, func(p *v1.Pod) *v1.Pod {
		if p.UID != b.UID || p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
			err = apierrors.NewConflict(v1.Resource("pods"), b.Name, fmt.Errorf("it is not what it was"))
			return p
		}
		err = nil
		c.given++
		p.Spec.NodeName = b.Target.Name
		if p.Annotations = maps.Clone(p.Annotations); p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		maps.Copy(p.Annotations, b.Annotations)
		p.Status.Conditions = append(slices.DeleteFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled }),
			v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue})
		return p
	})
	if err != nil {
		return err
	}
	time.AfterFunc(c.delay(), func() {
		c.pod(b.Name, func(p *v1.Pod) *v1.Pod {
			if p.UID == b.UID && p.Status.StartTime == nil {
				p.Status.Phase, p.Status.StartTime = v1.PodRunning, &metav1.Time{Time: time.Now()}
			}
			return p
		})
	})
	return nil
}

// patch patches the status of a pod.
func (c *cluster) patch(name string, data []byte) (*v1.Pod, error) {
	var out *v1.Pod
	var err error = apierrors.NewNotFound(v1.Resource("pods"), name)
	c.pod(name, func(p *v1.Pod) *v1.Pod {
		c.patches++
		var was, merged []byte
		if was, err = json.Marshal(p); err != nil {
			return p
		}
		if merged, err = strategicpatch.StrategicMergePatch(was, data, v1.Pod{}); err != nil {
			return p
		}
		now := &v1.Pod{}
		if err = json.Unmarshal(merged, now); err != nil {
			return p
		}
		if now.UID != p.UID {
			err = apierrors.NewConflict(v1.Resource("pods"), name, fmt.Errorf("the UID is %s", p.UID))
			return p
		}
		p.Status = now.Status
		out = p.DeepCopy()
		return p
	})
	return out, err
}

// client is a client of the cluster: it reads pods, nodes and disruption budgets,
// and of everything else there is none.
func (c *cluster) client(ctx context.Context) kubernetes.Interface {
	f := &fake.Clientset{}
	f.AddReactor("list", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		version := strconv.Itoa(c.version)
		c.mu.Unlock()
		meta := metav1.ListMeta{ResourceVersion: version}
		switch a.GetResource().Resource {
		case "pods":
			l := &v1.PodList{ListMeta: meta}
			for _, p := range list[*v1.Pod](c, "pods") {
				l.Items = append(l.Items, *p)
			}
			return true, l, nil
		case "nodes":
			l := &v1.NodeList{ListMeta: meta}
			for _, n := range list[*v1.Node](c, "nodes") {
				l.Items = append(l.Items, *n)
			}
			return true, l, nil
		case "poddisruptionbudgets":
			l := &policyv1.PodDisruptionBudgetList{ListMeta: meta}
			for _, b := range list[*policyv1.PodDisruptionBudget](c, "poddisruptionbudgets") {
				l.Items = append(l.Items, *b)
			}
			return true, l, nil
		}
		return false, nil, nil
	})
	f.AddWatchReactor("*", func(a k8stesting.Action) (bool, watch.Interface, error) {
		w := &feed{c: c, events: make(chan watch.Event, c.room), out: make(chan watch.Event)}
		on, stop := context.WithCancel(ctx)
		w.done, w.stop = on.Done(), stop
		resource, from := a.GetResource().Resource, 0
		if r, ok := a.(k8stesting.WatchAction); ok {
			from, _ = strconv.Atoi(r.GetWatchRestrictions().ResourceVersion)
		}
		c.mu.Lock()
		for _, e := range c.log[resource] { // since the list that it follows
			if v, err := strconv.Atoi(e.Object.(metav1.Object).GetResourceVersion()); err == nil && v > from {
				w.tell(e)
			}
		}
		c.feeds[resource] = append(c.feeds[resource], w)
		c.mu.Unlock()
		go w.run()
		return true, w, nil
	})
	return &slowClient{Interface: f, c: c}
}

// slowClient writes pods, and takes its time.
type (
	slowClient struct {
		kubernetes.Interface
		c *cluster
	}
	slowCore struct {
		corev1client.CoreV1Interface
		c *cluster
	}
	slowPods struct {
		corev1client.PodInterface
		c *cluster
	}
)

// IsWatchListSemanticsUnSupported says to informers that they list before they watch.
func (s *slowClient) IsWatchListSemanticsUnSupported() bool { return true }

func (s *slowClient) CoreV1() corev1client.CoreV1Interface {
	return &slowCore{s.Interface.CoreV1(), s.c}
}

func (s *slowCore) Pods(ns string) corev1client.PodInterface {
	return &slowPods{s.CoreV1Interface.Pods(ns), s.c}
}

// request is one request to the API server, with its way there and back.
func (s *slowPods) request(verb string, do func() error) error {
	s.c.pause()
	s.c.mu.Lock()
	fails := s.c.fails
	s.c.mu.Unlock()
	lost, arrives := fails(verb)
	var err error
	if arrives {
		err = do()
	}
	s.c.pause()
	return cmp.Or(lost, err)
}

func (s *slowPods) Bind(_ context.Context, b *v1.Binding, o metav1.CreateOptions) error {
	s.c.mu.Lock()
	says := s.c.rejects(b.Name)
	s.c.mu.Unlock()
	switch {
	case says != nil:
		return s.request("reject", func() error { return says })
	case len(o.DryRun) > 0:
		return s.request("try", func() error { return nil })
	}
	return s.request("bind", func() error { return s.c.bind(b) })
}

func (s *slowPods) Delete(_ context.Context, name string, o metav1.DeleteOptions) error {
	var uid types.UID
	if o.Preconditions != nil && o.Preconditions.UID != nil {
		uid = *o.Preconditions.UID
	}
	return s.request("delete", func() error { return s.c.delete(name, uid) })
}

func (s *slowPods) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (out *v1.Pod, err error) {
	err = s.request("patch", func() (err error) {
		out, err = s.c.patch(name, data)
		return err
	})
	return out, err
}

func (s *slowPods) Get(_ context.Context, name string, _ metav1.GetOptions) (out *v1.Pod, err error) {
	err = s.request("get", func() error {
		s.c.pod(name, func(p *v1.Pod) *v1.Pod {
			out = p.DeepCopy()
			return p
		})
		if out == nil {
			return apierrors.NewNotFound(v1.Resource("pods"), name)
		}
		return nil
	})
	return out, err
}

// rests lets virtual time pass until nothing happens any more.
func rests(t testing.TB, d time.Duration) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
}
