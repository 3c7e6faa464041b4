package explain_test

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/request"
)

// rows: NB-39 NB-66

// within has a pod's kubelet end it so long after it began, 30 seconds of grace aside.
func within(d time.Duration) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64((d - 30*time.Second) / time.Second)) }
}

// only are the times of owners of a kind.
func only(all map[request.Owner]time.Time, kind string) map[request.Owner]time.Time {
	out := map[request.Owner]time.Time{}
	for o, at := range all {
		if o.Kind == kind {
			out[o] = at
		}
	}
	return out
}

func TestOpening(t *testing.T) {
	holds := func(name, node string, first, count int, edits ...func(*v1.Pod)) *v1.Pod {
		var ids []string
		for k := range count {
			ids = append(ids, inventoryID(node, first+k))
		}
		p := kubetest.Observed(kubetest.Pod(name, node, api.ResourceGPU, count), api.ResourceGPU, ids...)
		for _, edit := range edits {
			edit(p)
		}
		return p
	}
	urgent := func(p *v1.Pod) { p.Spec.Priority = new(int32(10)) }
	selects := func(label string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"kind": label} }
	}
	later := func(d time.Duration) time.Time { return kubetest.Started.Add(d) }
	four, two := kubetest.Inventory("four", kubetest.A100s("four", 4), "cpu", 64, api.ResourceGPU, 4), kubetest.Inventory("two", kubetest.A100s("two", 2), "cpu", 64, api.ResourceGPU, 2)
	four.Labels["kind"], two.Labels["kind"] = "four", "two"
	clock := func(d time.Duration) string { return later(d).UTC().Format("15:04 UTC") }
	tests := []struct {
		name  string
		held  []*v1.Pod
		pod   *v1.Pod
		known map[request.Owner]time.Time // of notebooks and Jobs
		want  string
	}{
		{
			"nobody has an end",
			[]*v1.Pod{holds("a", "four", 0, 4), holds("b", "two", 0, 2)},
			kubetest.Unplaced("w", 0, 1), nil,
			"unknown: none of the 2 workloads using these GPUs has a known end time",
		},
		{
			"the deadline counts from the start, with the time to end in",
			[]*v1.Pod{holds("a", "four", 0, 4, within(time.Hour)), holds("b", "two", 0, 2)},
			kubetest.Unplaced("w", 0, 1), nil,
			"room at the latest at " + clock(time.Hour) + ", when ns/a reaches its activeDeadlineSeconds",
		},
		{
			"a holder that its kubelet has not started has no end yet",
			[]*v1.Pod{holds("a", "four", 0, 4, within(time.Hour), func(p *v1.Pod) { p.Status.StartTime = nil })},
			kubetest.Unplaced("w", 0, 4), nil,
			"unknown: ns/a, which holds these GPUs, has no end that is known",
		},
		{
			"room on different nodes is no room",
			[]*v1.Pod{holds("a", "four", 0, 3), holds("b", "two", 0, 2, within(time.Hour))},
			kubetest.Unplaced("w", 0, 2), nil,
			"room at the latest at " + clock(time.Hour) + ", when ns/b reaches its activeDeadlineSeconds",
		},
		{
			"who holds what it cannot have is no holder",
			[]*v1.Pod{holds("a", "four", 0, 4), holds("b", "two", 0, 2, within(time.Hour))},
			kubetest.Unplaced("w", 0, 2, selects("four")), nil,
			"unknown: ns/a, which holds these GPUs, has no end that is known",
		},
		{
			"one that is being deleted",
			[]*v1.Pod{holds("a", "four", 0, 4, func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: later(10 * time.Minute)} })},
			kubetest.Unplaced("w", 0, 4), nil,
			"room at the latest at " + clock(10*time.Minute) + ", when ns/a, which is being deleted, has ended",
		},
		{
			"a notebook that is to be stopped for being idle",
			[]*v1.Pod{holds("nb-0", "four", 0, 4, func(p *v1.Pod) {
				p.Labels[api.LabelNotebook] = "nb"
				p.Spec.TerminationGracePeriodSeconds = new(int64(60))
			})},
			kubetest.Unplaced("w", 0, 4),
			map[request.Owner]time.Time{{Kind: "Notebook", Namespace: "ns", Name: "nb"}: later(19 * time.Minute)},
			"room perhaps at " + clock(20*time.Minute) + ", if nobody uses ns/nb until then: it is stopped for that",
		},
		{
			"the deadline of a Job",
			[]*v1.Pod{kubetest.Controlled(holds("a-x", "four", 0, 4), "Job", "a")},
			kubetest.Unplaced("w", 0, 4),
			map[request.Owner]time.Time{{Kind: "Job", Namespace: "ns", Name: "a"}: later(30*time.Minute - 30*time.Second)},
			"room at the latest at " + clock(30*time.Minute) + ", when ns/a reaches its activeDeadlineSeconds",
		},
		{
			"one who came first gets room first",
			[]*v1.Pod{holds("a", "four", 0, 4, within(time.Hour)), holds("b", "two", 0, 2, within(2*time.Hour)), kubetest.Unplaced("first", -time.Minute, 4)},
			kubetest.Unplaced("w", 0, 2), nil,
			"room about " + clock(2*time.Hour) + ", when ns/a and ns/b reach their activeDeadlineSeconds; that is for it and the one that is ahead of it",
		},
		{
			"one who came later does not",
			[]*v1.Pod{holds("a", "four", 0, 4, within(time.Hour)), kubetest.Unplaced("later", time.Minute, 4)},
			kubetest.Unplaced("w", 0, 4), nil,
			"room at the latest at " + clock(time.Hour) + ", when ns/a reaches its activeDeadlineSeconds",
		},
		{
			"one of higher priority does",
			[]*v1.Pod{holds("a", "four", 0, 4, within(time.Hour)), kubetest.Unplaced("later", time.Minute, 4, urgent)},
			kubetest.Unplaced("w", 0, 4), nil,
			"unknown: what ns/a gives back at its end is not enough for it and the one that is ahead of it",
		},
		{
			"one that wants other nodes is not ahead",
			[]*v1.Pod{holds("a", "four", 0, 4, within(time.Hour)), kubetest.Unplaced("first", -time.Minute, 2, selects("two")), holds("b", "two", 0, 2)},
			kubetest.Unplaced("w", 0, 4, selects("four")), nil,
			"room at the latest at " + clock(time.Hour) + ", when ns/a reaches its activeDeadlineSeconds",
		},
		{
			"one that is not made yet comes behind all",
			[]*v1.Pod{holds("a", "four", 0, 4, within(time.Hour)), kubetest.Unplaced("there", time.Minute, 4)},
			waits([]any{api.ResourceGPU, 4}), nil,
			"unknown: what ns/a gives back at its end is not enough for it and the one that is ahead of it",
		},
		{
			"a member of a gang", nil, kubetest.Unplaced("w", 0, 1, func(p *v1.Pod) {
				p.Annotations[api.AnnotationGang] = "g"
				p.Annotations[api.AnnotationGangMinCount] = "2"
			}), nil,
			"unknown: the gang starts together, and too little is known of how long the workloads run that hold GPUs",
		},
		{"there is room", nil, kubetest.Unplaced("w", 0, 1), nil, "at any moment: there is capacity now, unless something other than GPUs blocks it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pods := append(tt.held, tt.pod)
			o := trial(t, []*v1.Node{four, two}, pods...).StartEstimate(tt.pod, pods, explain.KnownEnds{Idle: only(tt.known, "Notebook"), Deadline: only(tt.known, "Job")}, kubetest.Started.Add(time.Second))
			if got := o.Text(kubetest.Started); got != tt.want {
				t.Errorf("it says\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestOpeningOfManyAhead: behind more than are tried, no time is told.
func TestOpeningOfManyAhead(t *testing.T) {
	pods := []*v1.Pod{kubetest.Observed(kubetest.Pod("a", "n", api.ResourceGPU, 1), api.ResourceGPU, "GPU-n-0")}
	within(time.Hour)(pods[0])
	for i := range 21 {
		pods = append(pods, kubetest.Unplaced(fmt.Sprint("p", i), 0, 1))
	}
	last := kubetest.Unplaced("w", time.Minute, 1)
	o := trial(t, []*v1.Node{kubetest.Inventory("n", kubetest.A100s("n", 1), api.ResourceGPU, 1)}, pods...).StartEstimate(last, pods, explain.KnownEnds{}, kubetest.Started)
	if o.Unknown != "more than 20 pods are ahead of it" || !o.AtLatest.At.IsZero() {
		t.Errorf("it says %+v", o)
	}
}

// TestOpeningIsRoom: on random clusters, once those are gone that the answer rests on,
// the pod fits; without any of them gone it does not; and looking changes nothing.
func TestOpeningIsRoom(t *testing.T) {
	for seed := range int64(150) {
		r := rand.New(rand.NewSource(seed))
		var nodes []*v1.Node
		var pods []*v1.Pod
		for i := range 1 + r.Intn(3) {
			name, count := string(rune('a'+i)), 1+r.Intn(4)
			nodes = append(nodes, kubetest.Inventory(name, kubetest.A100s(name, count), "cpu", 64, api.ResourceGPU, count))
			for k := range r.Intn(count + 1) {
				p := kubetest.Observed(kubetest.Pod(fmt.Sprint(name, k), name, api.ResourceGPU, 1), api.ResourceGPU, inventoryID(name, k))
				if r.Intn(3) > 0 {
					within(time.Duration(1+r.Intn(9)) * time.Minute)(p)
				}
				pods = append(pods, p)
			}
		}
		on, wants := trial(t, nodes, pods...), kubetest.Unplaced("w", 0, 1+r.Intn(4))
		_, now := on.Fits(wants)
		o := on.StartEstimate(wants, pods, explain.KnownEnds{}, kubetest.Started)
		if _, after := on.Fits(wants); now != o.Now || after != now {
			t.Fatalf("seed %d: it fits before: %v, says %v, and fits after: %v", seed, now, o.Now, after)
		}
		if o.AtLatest.At.IsZero() {
			continue
		}
		for skip := -1; skip < len(o.AtLatest.Rests); skip++ {
			left := pods[:0:0]
			for _, p := range pods {
				gone := false
				for k, h := range o.AtLatest.Rests {
					gone = gone || k != skip && h.Name == "ns/"+p.Name
				}
				if !gone {
					left = append(left, p)
				}
			}
			if _, fits := trial(t, nodes, left...).Fits(wants); fits != (skip < 0) {
				t.Fatalf("seed %d: without %v, number %d of them there: fits is %v", seed, o.AtLatest.Rests, skip, fits)
			}
		}
	}
}
