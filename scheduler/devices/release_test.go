package devices_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"berth.dev/berth/api"
)

// controlled is a scheduler, and a controller that creates the pods of gang "g" again when
// they have ended.
type controlled struct {
	*making
	kind   string // of the controller
	within string // of the gang; "" is anywhere
	made   int
}

// newControlled makes a gang of n pods, of a controller of a kind, on nodes.
func newControlled(t *testing.T, kind string, n int, nodes ...int) *controlled {
	t.Helper()
	c := &controlled{making: newMaking(t, nodes...), kind: kind}
	for i := range n {
		c.create(i, n)
	}
	return c
}

// create creates pod i of the n that the gang needs.
func (c *controlled) create(i, n int) {
	p := gangOf("g", n, n, "gpu=1")[i]
	if c.made++; c.within != "" {
		p.Annotations[api.AnnotationTopology] = c.within
	}
	p.Name = fmt.Sprintf("g-%d-%d", i, c.made)
	p.UID = types.UID(p.Name)
	p.Labels = map[string]string{"app": "g"}
	p.CreationTimestamp = metav1.NewTime(time.Now())
	p.OwnerReferences = []metav1.OwnerReference{{Kind: c.kind, Name: "train", UID: "owner", Controller: new(true)}}
	c.add(p)
}

// staying is a pod of the gang on the first node.
func (c *controlled) staying() string {
	for _, at := range c.bound("g") {
		if name, ok := strings.CutSuffix(at, "@n0"); ok {
			return name
		}
	}
	c.t.Fatal("none is on n0")
	return ""
}

// lives lets time pass, in which pods that are evicted end after a second and are created again.
func (c *controlled) lives(d time.Duration) {
	end := time.Now().Add(d)
	for time.Now().Before(end) {
		c.rests(time.Second)
		for _, name := range slices.Clone(c.evicted) {
			if p := c.pods[types.UID(name)]; p != nil {
				i, n := 0, 0
				if _, err := fmt.Sscanf(name, "g-%d", &i); err != nil {
					c.t.Fatal(err)
				}
				if _, err := fmt.Sscan(p.Annotations["berth.dev/gang-min-count"], &n); err != nil {
					c.t.Fatal(err)
				}
				c.remove(name)
				c.create(i, n)
			}
		}
	}
}

// forbid has the API server reject bindings of pods with a prefix, except in dry runs, while
// on says so.
func (c *controlled) forbid(prefix string, on func() bool) {
	c.unbind = func(pod *v1.Pod) error {
		if strings.HasPrefix(pod.Name, prefix) && on() {
			return answers["a webhook forbids it"](pod)
		}
		return nil
	}
}

// TestAGangThatWasBoundInPartIsReleasedAndFollowsWhenItMay has the API server reject one
// member after it has accepted the dry run. Ten seconds later nothing of the gang holds a
// GPU, no pod is evicted twice, and when the rejection ends the gang runs within 2 s.
func TestAGangThatWasBoundInPartIsReleasedAndFollowsWhenItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forbids := true
		c := newControlled(t, "ReplicaSet", 4, 4)
		c.forbid("g-2-", func() bool { return forbids })
		c.run()
		if n := len(c.bound("g")); n != 3 {
			t.Fatalf("%d are bound, want three", n)
		}
		c.lives(10 * time.Second)
		if got := c.bound("g"); len(got) > 0 || len(c.evicted) != 3 {
			t.Fatalf("bound 10 s later: %v, evicted %v; %v", got, c.evicted, c.out)
		}
		c.lives(3 * time.Minute)
		if got := c.bound("g"); len(got) > 0 || len(c.evicted) != 3 {
			t.Errorf("bound while the rejection lasts: %v, evicted %v", got, c.evicted)
		}
		said := fmt.Sprint(c.out)
		if !strings.Contains(said, "the API server rejects its pod g-2-") {
			t.Errorf("they say %s", said)
		}
		forbids = false
		c.lives(2 * time.Second)
		if got := c.bound("g"); len(got) != 4 {
			t.Errorf("bound 2 s after the rejection: %v; %v", got, c.out)
		}
	})
}

// TestAReleasedGangStartsElsewhere has all members stay on one node, where one is rejected,
// and room for all on another.
func TestAReleasedGangStartsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newControlled(t, "ReplicaSet", 0, 4, 4)
		c.within = "node"
		for i := range 4 {
			c.create(i, 4)
		}
		bad := ""
		c.answer = func(b *v1.Binding) error {
			if bad == "" {
				bad = b.Target.Name
			}
			if b.Target.Name == bad && strings.HasPrefix(b.Name, "g-2-") {
				return answers["a webhook forbids it"](c.pods[b.UID])
			}
			return nil
		}
		c.run()
		c.lives(15 * time.Second)
		got := c.bound("g")
		if len(got) != 4 || len(c.evicted) != 3 || slices.ContainsFunc(got, func(at string) bool { return strings.HasSuffix(at, "@"+bad) }) {
			t.Errorf("bound %v, evicted %v; want four, not on %s; %v", got, c.evicted, bad, c.out)
		}
	})
}

// TestAGangThatLosesAMemberIsReleasedAfterItsGrace: the node of one member goes, and there is
// no other for it.
func TestAGangThatLosesAMemberIsReleasedAfterItsGrace(t *testing.T) {
	for _, tt := range []struct {
		name, kind string
		change     func(c *controlled)
		job        *batchv1.Job
		released   bool
		says       string
	}{
		{name: "if a controller creates its pods again", kind: "ReplicaSet", released: true},
		{
			name: "not if a pod has no controller", kind: "ReplicaSet",
			change: func(c *controlled) {
				c.update(types.UID(c.staying()), func(p *v1.Pod) { p.OwnerReferences = nil })
			},
			says: "others of the gang run, and the gang is not released, because no controller would create its pod g-",
		},
		{
			name: "not if a disruption budget keeps one", kind: "ReplicaSet", change: func(c *controlled) { c.protect("b", "g", 2) },
			says: "others of the gang run, and the gang is not released, because a disruption budget keeps its pod g-",
		},
		{
			name: "not if one has completed", kind: "ReplicaSet",
			change: func(c *controlled) {
				p := c.pods[types.UID(c.staying())].DeepCopy()
				p.Name, p.UID, p.Status.Phase = "g-old", "g-old", v1.PodSucceeded
				c.handler.OnAdd(p, false)
			},
			says: "others of the gang run, and the gang is not released, because its pod g-old has completed",
		},
		{name: "if its Job goes on", kind: "Job", job: &batchv1.Job{}, released: true},
		{
			name: "not if its Job would fail", kind: "Job", job: &batchv1.Job{Spec: batchv1.JobSpec{BackoffLimit: new(int32(2))}},
			says: "others of the gang run, and the gang is not released, because Job train would fail: each of the 3 evictions counts for its backoffLimit of 2, and 0 are counted already; " +
				"add a rule to its podFailurePolicy that ignores the condition DisruptionTarget",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newControlled(t, tt.kind, 4, 3, 1)
				c.client.(*fake.Clientset).PrependReactor("get", "jobs", func(k8stesting.Action) (bool, runtime.Object, error) {
					job := tt.job.DeepCopy()
					job.Name, job.UID = "train", "owner"
					return true, job, nil
				})
				c.run()
				if n := len(c.bound("g")); n != 4 {
					t.Fatalf("%d are bound", n)
				}
				if tt.change != nil {
					tt.change(c)
				}
				var lost string
				for _, at := range c.bound("g") {
					if name, node, _ := strings.Cut(at, "@"); node == "n1" {
						lost = name
					}
				}
				c.nodes = c.nodes[:1]
				c.remove(lost)
				i := 0
				if _, err := fmt.Sscanf(lost, "g-%d", &i); err != nil {
					t.Fatal(err)
				}
				c.create(i, 4)
				c.lives(50 * time.Second)
				if len(c.evicted) > 0 {
					t.Errorf("evicted within its grace: %v", c.evicted)
				}
				c.lives(40 * time.Second)
				if got := len(c.bound("g")); tt.released != (got == 0) || tt.released != (len(c.evicted) == 3) {
					t.Errorf("bound: %d, evicted %v, want released: %v; %v", got, c.evicted, tt.released, c.out)
				}
				if said := fmt.Sprint(c.out); !strings.Contains(said, tt.says) {
					t.Errorf("they say %s\nwant %s", said, tt.says)
				}
			})
		})
	}
}
