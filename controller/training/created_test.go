package training

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/api/kubeflow"
)

// lateCache is a cache that does not have some pods and Services yet.
type lateCache struct {
	client.Reader

	lacks func(child string) bool // written as "pod worker-0"
}

// List implements client.Reader.
func (l *lateCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := l.Reader.List(ctx, list, opts...)
	switch is := list.(type) {
	case *corev1.PodList:
		is.Items = slices.DeleteFunc(is.Items, func(p corev1.Pod) bool { return l.lacks("pod " + strings.TrimPrefix(p.Name, "mnist-")) })
	case *corev1.ServiceList:
		is.Items = slices.DeleteFunc(is.Items, func(s corev1.Service) bool { return l.lacks("service " + strings.TrimPrefix(s.Name, "mnist-")) })
	}
	return err
}

// late returns a cluster with a new job and a cache that lacks children.
func late(t *testing.T, lacks func(child string) bool) (*testCluster, *lateCache) {
	t.Helper()
	c := newCluster(t, tfJob(onFailure, func(o *kubeflow.TFJob) { o.Spec.RunPolicy.CleanPodPolicy = new("All") }))
	l := &lateCache{c.client, lacks}
	c.r.children = l
	return c, l
}

// pass reconciles the job once.
func (c *testCluster) pass() reconcile.Result {
	c.t.Helper()
	out, err := c.r.Reconcile(c.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ml", Name: "mnist"}})
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// vanish deletes a child as someone else does, and returns it as it was.
func (c *testCluster) vanish(o client.Object, name string) client.Object {
	c.t.Helper()
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist-" + name}, o); err != nil {
		c.t.Fatal(err)
	}
	uid := o.GetUID()
	if err := c.client.Delete(c.t.Context(), o, client.Preconditions{UID: &uid}); err != nil {
		c.t.Fatal(err)
	}
	return o
}

func every(string) bool { return true }
func none(string) bool  { return false }

// all are the children of the job.
const all = allPods + ", " + allServices

func TestWhatWasCreatedIsAwaited(t *testing.T) {
	t.Run("each child is created by one request, however long the cache takes", func(t *testing.T) {
		c, l := late(t, every)
		c.pass()
		for _, lacks := range []func(string) bool{
			every,
			func(child string) bool { return child != "service worker-1" },
			func(child string) bool { return strings.HasPrefix(child, "pod") },
			func(child string) bool { return child == "pod worker-0" },
		} {
			l.lacks = lacks
			if again := c.pass().RequeueAfter; again != awaitCreated {
				t.Errorf("a pass that does not see all that was created is made again after %v if nothing happens, want %v", again, awaitCreated)
			}
		}
		l.lacks = none
		if again := c.pass().RequeueAfter; again != 0 {
			t.Errorf("a pass that sees all is made again after %v", again)
		}
		if len(c.posts) != 6 || c.children() != all {
			t.Errorf("requests to create %q led to %s", c.posts, c.children())
		}
		if m := c.r.memories["job"]; m.awaited != nil {
			t.Errorf("still remembered: %v", m.awaited)
		}
	})
	t.Run("an event about a child is enough, as the cache has it or had it", func(t *testing.T) {
		c, l := late(t, func(child string) bool { return child == "pod worker-1" || child == "service worker-1" })
		c.pass()
		for _, o := range []client.Object{c.vanish(&corev1.Pod{}, "worker-1"), c.vanish(&corev1.Service{}, "worker-1")} {
			if c.pass(); len(c.posts) != 6 {
				t.Fatalf("before the events: requests to create %q", c.posts)
			}
			c.r.ofChild(t.Context(), o)
		}
		l.lacks = none
		if c.pass(); c.children() != all {
			t.Errorf("what was deleted before the cache had it is not created again: there are %s", c.children())
		}
	})
	t.Run("the last Service that comes leads to a pass, and no other", func(t *testing.T) {
		c, _ := late(t, func(child string) bool { return strings.HasPrefix(child, "service") })
		c.pass()
		c.pass()
		q := &requests{}
		for i, name := range []string{"chief-0", "worker-1", "worker-0"} {
			o := &corev1.Service{}
			if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist-" + name}, o); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				c.r.ofServices().Create(t.Context(), event.CreateEvent{Object: o}, q)
			}
			if want := i / 2; q.n != want {
				t.Errorf("after %s %d passes are requested, want %d", name, q.n, want)
			}
		}
	})
	t.Run("a child of which nothing is heard is created again within a bound", func(t *testing.T) {
		c, l := late(t, every)
		c.pass()
		c.vanish(&corev1.Pod{}, "worker-1")
		l.lacks = none
		c.now = c.now.Add(awaitCreated - time.Millisecond)
		if c.pass(); len(c.posts) != 6 {
			t.Errorf("before its time: requests to create %q", c.posts)
		}
		c.now = c.now.Add(time.Millisecond)
		if c.pass(); len(c.posts) != 7 || c.children() != all {
			t.Errorf("requests to create %q led to %s", c.posts, c.children())
		}
	})
	t.Run("past the bound the API server says what is there", func(t *testing.T) {
		c, _ := late(t, every)
		c.pass()
		c.now = c.now.Add(awaitCreated)
		if again := c.pass().RequeueAfter; len(c.posts) != 12 || again != 0 || c.children() != all {
			t.Errorf("requests to create %q led to %s, and to a pass after %v", c.posts, c.children(), again)
		}
	})
	t.Run("a controller that starts again knows nothing, and the API server says what is there", func(t *testing.T) {
		c, l := late(t, every)
		c.pass()
		c.start(kinds[0])
		c.r.children = l
		if c.pass(); len(c.posts) != 12 || c.children() != all {
			t.Errorf("requests to create %q led to %s", c.posts, c.children())
		}
	})
}

func TestPassesThatDoNotAwait(t *testing.T) {
	missing := func(child string) bool { return child == "pod worker-1" }
	t.Run("a suspended job gives up the pods that are seen, and the others as they come", func(t *testing.T) {
		c, l := late(t, missing)
		c.pass()
		c.suspend(true)
		c.pass()
		if got := c.children(); got != "pod worker-1" {
			t.Errorf("suspended it has %s", got)
		}
		l.lacks = none
		c.settle()
		if got := c.children(); got != "" {
			t.Errorf("when the cache has all it has %s", got)
		}
		c.suspend(false)
		c.settle()
		if got := c.children(); got != all {
			t.Errorf("resumed it has %s", got)
		}
	})
	t.Run("a job that has ended gives up its pods", func(t *testing.T) {
		c, l := late(t, none)
		c.settle()
		c.set("worker-1 Failed 1")
		c.pass()
		l.lacks = missing
		c.pass()
		if got := c.children(); got != all {
			t.Fatalf("a worker that failed is created again: %s", got)
		}
		o := &kubeflow.TFJob{}
		if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist"}, o); err != nil {
			t.Fatal(err)
		}
		o.Status.Conditions[0].Type = "Failed"
		if err := c.client.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		c.pass()
		if got := c.children(); strings.Contains(got, "chief") {
			t.Errorf("when it has ended it has %s", got)
		}
	})
	t.Run("a job of which a pod is refused goes on when the cache has the others", func(t *testing.T) {
		c, l := late(t, every)
		c.refuse = "Pod"
		c.pass()
		c.refuse = ""
		if c.pass(); len(c.posts) != 3 {
			t.Errorf("before the cache has the Services: requests to create %q", c.posts)
		}
		l.lacks = none
		if c.settle(); len(c.posts) != 6 || c.children() != all {
			t.Errorf("requests to create %q led to %s", c.posts, c.children())
		}
	})
	t.Run("nothing is kept of a job that is gone", func(t *testing.T) {
		c, _ := late(t, every)
		c.pass()
		c.vanishJob()
		c.pass()
		if len(c.r.memories) > 0 {
			t.Errorf("kept: %v", c.r.memories)
		}
	})
}

// requests counts the passes that are requested.
type requests struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	n int
}

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *requests) AddAfter(reconcile.Request, time.Duration) { q.n++ }

// vanishJob deletes the job as its owner does.
func (c *testCluster) vanishJob() {
	c.t.Helper()
	o := c.r.kind.object()
	o.SetNamespace("ml")
	o.SetName("mnist")
	if err := c.client.Delete(c.t.Context(), o, client.Preconditions{UID: new(types.UID("job"))}); err != nil {
		c.t.Fatal(err)
	}
}
