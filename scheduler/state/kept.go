package state

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/sharing"
)

// take gives to holds those of their devices that are free.
func (n *Ledger) take(holds []*Hold) {
	for _, r := range n.Holds {
		n.let(r)
	}
	n.Holds = nil
	for _, h := range holds {
		r := &reserved{Hold: h}
		n.keep(r)
		n.Holds = append(n.Holds, r)
	}
}

// keep takes the devices of a hold one by one. A device that an init container
// hands on is named twice and taken once.
func (n *Ledger) keep(r *reserved) {
	if r.Devices, r.missing = nil, 0; n.Ledger == nil {
		return
	}
	done := map[sharing.Named]int{}
	for i := range r.Parts {
		p, seen := &r.Parts[i], map[sharing.Named]int{}
		k := 0
		for _, a := range p.Asks {
			left := a.Units()
			if _, _, share := a.ShareOf(); !share || a.Share != (sharing.ShareSize{}) {
				a.Count = 1
			}
			for ; left > 0 && k < len(r.Named[p.Name]); left-- {
				want := r.Named[p.Name][k]
				k++
				if seen[want]++; seen[want] <= done[want] {
					continue
				}
				got, err := n.Ledger.Commit(r.Owner(r.missing+len(r.Devices)), []sharing.Part{{Name: p.Name, Asks: []sharing.Ask{a}}},
					map[string][]sharing.Named{p.Name: {want}})
				if err != nil {
					r.missing++
					continue
				}
				r.Devices = append(r.Devices, got[0]...)
			}
		}
		for want, times := range seen {
			done[want] = max(done[want], times)
		}
	}
}

// let gives the devices of a hold back.
func (n *Ledger) let(r *reserved) {
	for k := range r.missing + len(r.Devices) { // none without a ledger
		n.Ledger.Release(r.Owner(k))
	}
}

// Owner is who holds the k-th device of a hold, to a ledger.
func (r *reserved) Owner(k int) string {
	if r.Doubt {
		return fmt.Sprintf("doubt/%s/%d/%d", r.Pod.UID, -r.Taken, k)
	}
	return fmt.Sprintf("hold/%s/%d", r.Pod.UID, k)
}

// heldFor gives what is held here for a pod, or nil; with doubt what a binding of
// it may bring.
func (n *Ledger) heldFor(uid types.UID, doubt bool) *reserved {
	for _, r := range n.Holds {
		if r.Pod.UID == uid && r.Doubt == doubt {
			return r
		}
	}
	return nil
}
