package quota_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
)

const (
	asWhole, asMIG, timed, mps = sharing.WayWhole, sharing.WayMIG, sharing.WayTimeSlicing, sharing.WayMPS
)

// using is a workload of one GPU that nodes would serve in these ways.
func using(queue string, ways ...sharing.Ways) *quota.Workload {
	w := ask("new", queue, "", 1)
	w.Pods[0].Ways = ways
	return w
}

// TestSharing
//
// rows: GS-80
func TestSharing(t *testing.T) {
	tree := func(org, red, deep sharing.Ways) []quota.Spec {
		return []quota.Spec{{Name: "org", Sharing: org}, {Name: "red", Parent: "org", Sharing: red}, {Name: "deep", Parent: "red", Sharing: deep}}
	}
	for name, tt := range map[string]struct {
		specs []quota.Spec
		ask   *quota.Workload
		want  string // "" is that it is admitted
	}{
		"a queue that says nothing allows all ways": {tree(0, 0, 0), using("deep", timed|asMIG), ""},
		"a way that the queue allows":               {tree(0, 0, asWhole|timed), using("deep", timed), ""},
		"a way that it does not allow": {
			tree(0, 0, asWhole|asMIG), using("deep", timed), "the pod would use GPUs by TimeSlicing, and queue deep allows only Whole and MIG (spec.sharing)",
		},
		"what the queue above allows counts for those below": {
			tree(asWhole, 0, 0), using("deep", timed), "the pod would use GPUs by TimeSlicing, and queue org allows only Whole (spec.sharing)",
		},
		"a queue below may only narrow": {
			tree(asWhole, 0, asWhole|timed), using("deep", timed), "the pod would use GPUs by TimeSlicing, and queue org allows only Whole (spec.sharing)",
		},
		"pods of a queue with queues below follow its own rule": {
			tree(0, asWhole, timed), using("red", timed), "the pod would use GPUs by TimeSlicing, and queue red allows only Whole (spec.sharing)",
		},
		"queues that agree on nothing allow nothing": {
			tree(asMIG, 0, timed), using("deep", timed), "the pod would use GPUs by TimeSlicing, and queue org and those above it allow no way in common (spec.sharing)",
		},
		"one kind of node that serves it in an allowed way is enough": {tree(asWhole, 0, 0), using("red", asWhole, timed), ""},
		"no kind of node does": {
			tree(asWhole, 0, 0), using("red", timed, mps), "the pod would use GPUs by TimeSlicing or MPS, and queue org allows only Whole (spec.sharing)",
		},
		"a share of a MIG device takes both ways": {
			tree(asMIG, 0, 0), using("red", asMIG|timed), "the pod would use GPUs by TimeSlicing, and queue org allows only MIG (spec.sharing)",
		},
		"a way that is not known is left to the nodes": {tree(asMIG, 0, 0), using("red"), ""},
		"one pod of a gang is enough to refuse it": {
			tree(asWhole, 0, 0), func() *quota.Workload {
				w := gangOf("new", "red", 3, 3)
				w.Pods[0].Ways, w.Pods[2].Ways = []sharing.Ways{asWhole}, []sharing.Ways{mps}
				return w
			}(), "the pod would use GPUs by MPS, and queue org allows only Whole (spec.sharing)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := quota.NewBook(quota.NewTree(tt.specs)).Try(tt.ask)
			if got := v.Sentence("the pod", ""); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			if (v.Cause == quota.Sharing) != (tt.want != "") {
				t.Errorf("the cause is %d", v.Cause)
			}
		})
	}
	problems := quota.NewTree(tree(asWhole|asMIG, 0, asWhole|timed|mps)).Problems()
	want := []quota.Problem{{Queue: "deep", Field: "spec.sharing", Text: "Queue org does not allow TimeSlicing or MPS, so this one does not either"}}
	if !slices.Equal(problems, want) {
		t.Errorf("problems %+v, want %+v", problems, want)
	}
}

// TestRefusedByTheirWayAreTriedAgain: what nodes offer may be what has changed.
func TestRefusedByTheirWayAreTriedAgain(t *testing.T) {
	specs := []quota.Spec{{Name: "red", Sharing: asWhole, Quotas: []quota.Quota{gpus(1)}}}
	b := quota.NewBook(quota.NewTree(specs))
	holds(b, ask("full", "red", "", 1), "")
	no, waits := using("red", timed), using("red", asWhole)
	no.ID, waits.ID = "no", "waits"
	b.Wait(no)
	b.Wait(waits)
	if call := b.Next(time.Time{}); len(call) != 0 {
		t.Fatalf("called %+v", call)
	}
	if call := b.SetTree(quota.NewTree(specs)); !slices.Equal(call, []string{"no"}) || !b.Waits("waits") || b.Waits("no") {
		t.Errorf("to be tried again: %q", call)
	}
}

// TestAQueueAllowsNoMoreThanThoseAboveIt compares Ways with the least that a queue and all above it
// state, on random trees.
func TestAQueueAllowsNoMoreThanThoseAboveIt(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	for range 2000 {
		var specs []quota.Spec
		for k := range 1 + r.IntN(8) {
			s := quota.Spec{Name: string(rune('a' + k)), Sharing: sharing.Ways(r.IntN(int(sharing.AllWays) + 1))}
			if r.IntN(2) == 0 {
				s.Sharing = 0
			}
			if k > 0 {
				s.Parent = string(rune('a' + r.IntN(k)))
			}
			specs = append(specs, s)
		}
		tree := quota.NewTree(specs)
		b := quota.NewBook(tree)
		for _, s := range specs {
			want := sharing.AllWays
			for _, at := range tree.Path(s.Name) {
				if up, _ := tree.Spec(at); up.Sharing != 0 {
					want &= up.Sharing
				}
			}
			if got := tree.Ways(s.Name); got != want {
				t.Fatalf("queue %s of %+v allows %s, want %s", s.Name, specs, got.Text("and"), want.Text("and"))
			}
			for way := sharing.Ways(1); way <= sharing.AllWays; way++ {
				v := b.Try(using(s.Name, way))
				if (v.Cause == quota.None) != way.In(want) || v.Cause == quota.Sharing && (v.Ways != way&^want || v.Queue == "") {
					t.Fatalf("%s in queue %s of %+v: %+v", way.Text("and"), s.Name, specs, v)
				}
			}
		}
	}
}
