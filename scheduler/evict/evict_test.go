package evict

import (
	"context"
	"encoding/json"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/quota"
)

// ender is a handle by which pods are evicted.
type ender struct {
	fwk.Handle
	client   kubernetes.Interface
	recorder *events.FakeRecorder
	waiting  map[types.UID]fwk.WaitingPod
	asked    func(types.UID) // if not nil, before a pod is evicted
}

func (h *ender) ClientSet() kubernetes.Interface            { return h.client }
func (h *ender) EventRecorder() events.EventRecorderLogger  { return h.recorder }
func (h *ender) GetPodInPreBind(types.UID) fwk.PodInPreBind { return nil }
func (h *ender) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	if h.asked != nil {
		h.asked(uid)
	}
	return h.waiting[uid]
}

// waitingPod is a pod at Permit.
type waitingPod struct {
	fwk.WaitingPod
	stopped bool
}

func (w *waitingPod) Preempt(string, string) bool {
	w.stopped = true
	return true
}

// podOf is a pod by its name.
func podOf(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID("uid-" + name), Generation: 3}, Spec: v1.PodSpec{SchedulerName: "default-scheduler"}}
}

// evicting is an ender whose API refuses to delete the pods of refused.
func evicting(refused map[string]error) (*ender, func() []string) {
	c := &fake.Clientset{}
	c.AddReactor("*", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if d, ok := a.(k8stesting.DeleteAction); ok {
			return true, nil, refused[d.GetName()]
		}
		if g, ok := a.(k8stesting.GetAction); ok && g.GetName() != "replaced" {
			return true, podOf(g.GetName()), nil
		}
		return true, &v1.Pod{}, nil
	})
	h := &ender{client: c, recorder: events.NewFakeRecorder(20)}
	return h, func() []string {
		var out []string
		for _, a := range c.Actions() {
			switch a := a.(type) {
			case k8stesting.PatchAction:
				var p v1.Pod
				if err := json.Unmarshal(a.GetPatch(), &p); err != nil {
					return []string{err.Error()}
				}
				out = append(out, "patch "+a.GetSubresource()+" "+a.GetName()+" "+string(p.UID)+" "+string(p.Status.Conditions[0].Type)+" "+p.Status.Conditions[0].Reason+": "+p.Status.Conditions[0].Message)
			case k8stesting.DeleteAction:
				out = append(out, "delete "+a.GetName()+" "+string(*a.GetDeleteOptions().Preconditions.UID))
			}
		}
		return out
	}
}

func TestEvict(t *testing.T) {
	const words = " DisruptionTarget PreemptionByScheduler: default-scheduler: preempting to accommodate a higher priority pod, d/high of priority 0"
	webhook := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "kept", nil)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "low", nil)
	for _, tt := range []struct {
		name    string
		pods    []string
		refused map[string]error
		waiting bool
		reclaim *quota.Reclaim
		owner   string
		loses   string
		did     []string
		events  []string
		failed  bool
		kept    []string
		going   []string
	}{
		{
			name: "a victim is told why, and deleted if it is still the same pod", pods: []string{"low"},
			did:    []string{"patch status low uid-low" + words, "delete low uid-low"},
			events: []string{"Normal Preempted Preempted by pod uid-high on node n1, for pod d/high of priority 0"}, going: []string{"low"},
		},
		{
			name: "a victim that returns quota learns the queues, not the priorities or the pod that it goes for, and so does its controller", pods: []string{"low"},
			reclaim: &quota.Reclaim{From: "vision", By: "speech"}, owner: "train",
			did: []string{
				"patch status low uid-low DisruptionTarget QuotaReclaimed: default-scheduler: evicted to return quota: " +
					"queue speech takes back nominal quota that queue vision has borrowed; priorities do not count between queues",
				"delete low uid-low",
			},
			events: []string{
				"Normal QuotaReclaimed Evicted from node n1 to return quota: queue speech takes back nominal quota that queue vision has borrowed; priorities do not count between queues",
				"Normal QuotaReclaimed its pod low was evicted from node n1 to return quota: queue speech takes back nominal quota that queue vision has borrowed; priorities do not count between queues",
			}, going: []string{"low"},
		},
		{
			name: "events of a victim and of its controller say what its eviction loses", pods: []string{"low"}, owner: "train", loses: "it loses 3.2 GPU-hours of work, as it does not say that it saves any",
			did: []string{"patch status low uid-low" + words, "delete low uid-low"},
			events: []string{
				"Normal Preempted Preempted by pod uid-high on node n1, for pod d/high of priority 0; it loses 3.2 GPU-hours of work, as it does not say that it saves any",
				"Normal Preempted its pod low was preempted on node n1, for pod d/high of priority 0; it loses 3.2 GPU-hours of work, as it does not say that it saves any",
			}, going: []string{"low"},
		},
		{
			name: "a victim that is gone is no failure", pods: []string{"low"},
			refused: map[string]error{"low": apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "low")},
			did:     []string{"patch status low uid-low" + words, "delete low uid-low"},
		},
		{
			name: "a victim that another pod of its name has replaced does not count as a failure", pods: []string{"replaced"},
			refused: map[string]error{"replaced": conflict},
			did:     []string{"patch status replaced uid-replaced" + words, "delete replaced uid-replaced"},
		},
		{
			name: "a victim that others write at the same time, again and again, is a failure", pods: []string{"low"},
			refused: map[string]error{"low": conflict}, failed: true,
			did: []string{"patch status low uid-low" + words, "delete low uid-low"},
		},
		{
			name: "a victim that the API server keeps is left alone for a while", pods: []string{"kept"},
			refused: map[string]error{"kept": webhook}, failed: true, kept: []string{"kept"},
			did: []string{"patch status kept uid-kept" + words, "delete kept uid-kept"},
		},
		{
			name: "a failure of the API server keeps nobody", pods: []string{"low"},
			refused: map[string]error{"low": apierrors.NewInternalError(context.DeadlineExceeded)}, failed: true,
			did: []string{"patch status low uid-low" + words, "delete low uid-low"},
		},
		{
			name: "a victim that is not bound yet is stopped in the scheduler", pods: []string{"low"}, waiting: true,
			events: []string{"Normal Preempted Preempted by pod uid-high on node n1 (in kube-scheduler memory), for pod d/high of priority 0"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, did := evicting(tt.refused)
			e, failed := NewEvictor(), false
			var victims []*Victim
			for _, name := range tt.pods {
				victims = append(victims, &Victim{Pod: podOf(name), Node: "n1", Reclaim: tt.reclaim, Loses: tt.loses})
				if tt.owner != "" {
					victims[0].Pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: tt.owner, Controller: new(true)}}
				}
				if tt.waiting {
					h.waiting = map[types.UID]fwk.WaitingPod{types.UID("uid-" + name): &waitingPod{}}
				}
			}
			var stay []*v1.Pod
			e.Stays = func(pods []*v1.Pod) { stay = pods }
			e.Evict(t.Context(), h, Cause{Pod: podOf("high")}, victims, func(error) { failed = true })
			e.Work.Wait()
			close(h.recorder.Events)
			var said []string
			for s := range h.recorder.Events {
				said = append(said, s)
			}
			if diff := cmp.Diff(tt.did, did()); diff != "" {
				t.Errorf("requests: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(tt.events, said); diff != "" {
				t.Errorf("events: -want +got\n%s", diff)
			}
			if failed != tt.failed {
				t.Errorf("failed %v, want %v", failed, tt.failed)
			}
			if tt.failed != (len(stay) == 1) {
				t.Errorf("%d victims stay after a failure: %v", len(stay), failed)
			}
			for _, name := range tt.pods {
				uid := types.UID("uid-" + name)
				going, kept := e.Known(time.Now())
				if got, want := kept[uid] != "", slices.Contains(tt.kept, name); got != want {
					t.Errorf("kept %v, want %v", got, want)
				}
				if got, want := going[uid] != "", slices.Contains(tt.going, name); got != want {
					t.Errorf("going %v, want %v", got, want)
				}
				if _, kept := e.Known(time.Now().Add(2 * keptFor)); kept[uid] != "" {
					t.Errorf("kept for ever")
				}
			}
		})
	}
}

func TestAfterOneRefusalTheOthersStay(t *testing.T) {
	pods := []string{"kept"}
	for range 40 {
		pods = append(pods, "v"+strings.Repeat("x", len(pods)))
	}
	h, did := evicting(map[string]error{"kept": apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "kept", nil)})
	e := NewEvictor()
	h.asked = func(uid types.UID) {
		for uid != "uid-kept" { // the others come after it
			if _, kept := e.Known(time.Now()); kept["uid-kept"] != "" {
				return
			}
			goruntime.Gosched()
		}
	}
	var victims []*Victim
	for _, name := range pods {
		victims = append(victims, &Victim{Pod: podOf(name), Node: "n1"})
	}
	failed := 0
	go func() {
		for range h.recorder.Events { // the recorder blocks when nobody reads
		}
	}()
	e.Evict(t.Context(), h, Cause{Pod: podOf("high")}, victims, func(error) { failed++ })
	e.Work.Wait()
	if n := len(did()); failed != 1 || n > 2*evictors {
		t.Errorf("failed %d times, %d requests: nobody should go on after a refusal", failed, n)
	}
}

func TestBudgets(t *testing.T) {
	budget := func(name, app string, allowed int32, disrupted ...string) *policyv1.PodDisruptionBudget {
		b := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID(name), ResourceVersion: "7"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, DisruptedPods: map[string]metav1.Time{}},
		}
		for _, name := range disrupted {
			b.Status.DisruptedPods[name] = metav1.Time{}
		}
		return b
	}
	elsewhere := budget("a", "x", 0)
	elsewhere.Namespace = "other"
	all := budget("z", "", 5)
	all.Spec.Selector = &metav1.LabelSelector{}
	none := budget("y", "", 5)
	none.Spec.Selector = nil
	berths := budget("berths", "x", 0) // which Berth writes by default
	berths.Labels, berths.OwnerReferences = map[string]string{api.LabelManagedBy: "berth"}, []metav1.OwnerReference{{Kind: "InferenceService", Controller: new(true)}}
	f := informers.NewSharedInformerFactory(fake.NewClientset(budget("b", "x", 2, "counted"), elsewhere, all, none, berths), 0)
	b, err := WatchBudgets(f, func() {})
	if err != nil {
		t.Fatal(err)
	}
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	e := NewEvictor()
	one := podOf("one")
	one.Labels = map[string]string{"app": "x"}
	for step, want := range []struct {
		allowed []int // of b, y, z of namespace d, then a of other
		of      []int
	}{
		{[]int{2, 5, 5, 0}, []int{0, 2}},
		{[]int{1, 5, 4, 0}, []int{0, 2}}, // one is going, and the budgets do not know it yet
	} {
		allowed, err := b.Read(e)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.allowed, allowed); diff != "" {
			t.Errorf("step %d: allowed: -want +got\n%s", step, diff)
		}
		if diff := cmp.Diff(want.of, b.Of(one)); diff != "" {
			t.Errorf("step %d: budgets of the pod: -want +got\n%s", step, diff)
		}
		counted := podOf("counted")
		counted.Labels = one.Labels
		if diff := cmp.Diff([]int{2}, b.Of(counted)); diff != "" {
			t.Errorf("budgets of a pod that one has counted: -want +got\n%s", diff)
		}
		e.going[one.UID] = &Victim{Pod: one, Budgets: b.Versions(b.Of(one))}
	}
}
