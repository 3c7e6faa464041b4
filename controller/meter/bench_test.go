package meter

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/cost"
)

// BenchmarkPodLife is what the ledger takes for a pod that is bound, runs, and ends: its own code and what is written, in
// transactions of a hundred changes, without the decoding of the watch.
func BenchmarkPodLife(b *testing.B) {
	r := newRig(b)
	for n := range 100 {
		r.node(aNode(fmt.Sprint("n", n), 8, 0))
	}
	r.flush()
	template := aPod("p", "n0", 1, 0)
	k := 0
	for b.Loop() {
		p := *template
		p.Name, p.UID, p.Spec.NodeName = fmt.Sprint("p", k), types.UID(fmt.Sprint("uid-", k)), fmt.Sprint("n", k%100)
		r.clock = at(0).Add(time.Duration(k) * time.Second)
		r.pod(&p)
		running := p
		running.Status.Phase = v1.PodRunning
		r.pod(&running)
		ended := running
		ended.Status.Phase = v1.PodSucceeded
		r.pod(&ended)
		r.gone(&ended)
		if k++; k%50 == 0 {
			r.flush()
		}
	}
}

// BenchmarkMonth is what it takes to add up a month on 100 nodes: by user with 1,000 pods a day from facts alone, and by workload with
// 10,000 pods a day from days that are closed.
func BenchmarkMonth(b *testing.B) {
	for _, c := range []struct {
		name   string
		perDay int
		by     cost.By
		closed bool
	}{{"by user 1000 pods a day", 1000, cost.User, false}, {"by workload 10000 pods a day", 10_000, cost.Workload, true}} {
		b.Run(c.name, func(b *testing.B) {
			r := newRig(b)
			for n := range 100 {
				r.node(aNode(fmt.Sprint("n", n), 8, 0))
			}
			for k := range 30 * c.perDay {
				p := aPod(fmt.Sprint("p", k), fmt.Sprint("n", k%100), 1, 0)
				begins := at(0).Add(time.Duration(k) * cost.Day / time.Duration(c.perDay))
				p.Status.Conditions[0].LastTransitionTime.Time = begins
				r.clock = begins
				r.pod(p)
				r.clock = begins.Add(3 * time.Hour)
				r.end(p, r.clock, endSeen)
				if k%1000 == 0 {
					r.flush()
				}
			}
			r.clock = at(30 * 24 * 60)
			r.flush()
			for more, err := c.closed, error(nil); more; {
				if more, err = r.book.CloseDay(b.Context(), r.clock.Add(cost.Day)); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if rows, err := r.book.Rows(b.Context(), at(0), r.clock, c.by); err != nil || len(rows) < 2 {
					b.Fatal(len(rows), err)
				}
			}
		})
	}
}
