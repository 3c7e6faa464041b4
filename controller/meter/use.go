package meter

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/usage"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/exporter"
	"berth.dev/berth/ledger"
)

// usesWritten is how often it is written what pods do with their GPUs. When a meter is killed that much is not known.
const usesWritten = 5 * time.Minute

// uses is what pods do with their GPUs.
type uses struct {
	watches map[string]*usage.Watch    // by UID of pods
	lows    *usage.Track[string, bool] // as ledger.Lows
	written time.Time
}

// newUses goes on from what the book has.
func newUses(s *ledger.State, alive time.Time) uses {
	u := uses{watches: map[string]*usage.Watch{}, lows: usage.NewTrack(s.Lows)}
	for _, l := range s.Lows {
		u.watches[l.Key] = usage.ResumeWatch(l.From, alive)
	}
	return u
}

// see takes what a pod does now.
func (u *uses) see(pod string, a *usage.Activity, batch *ledger.Batch) {
	w := u.watches[pod]
	if w == nil {
		w = &usage.Watch{}
		u.watches[pod] = w
	}
	seen := w.See(*a)
	u.add(pod, seen.Uses, batch)
	if !seen.LowEnded.IsZero() {
		batch.Lows = append(batch.Lows, u.lows.End(pod, seen.LowEnded, usage.End{Source: usage.Seen})...)
	}
	if !seen.LowSince.IsZero() {
		batch.Lows = append(batch.Lows, u.lows.Set(pod, a.Shared, seen.LowSince)...)
	}
}

func (u *uses) add(pod string, list []usage.Use, batch *ledger.Batch) {
	for _, one := range list {
		one.Pod = pod
		batch.Uses = append(batch.Uses, one)
	}
}

// end notes that a pod has ended.
func (u *uses) end(pod string, at time.Time, end usage.End, batch *ledger.Batch) {
	if w := u.watches[pod]; w != nil {
		u.add(pod, w.Close(), batch)
		delete(u.watches, pod)
	}
	batch.Lows = append(batch.Lows, u.lows.End(pod, at, end)...)
}

// missed ends what the book has open of pods that are not there.
func (u *uses) missed(there map[string]bool, at time.Time, end usage.End, batch *ledger.Batch) {
	for _, l := range u.lows.Open() {
		if !there[l.Key] {
			u.end(l.Key, at, end, batch)
		}
	}
}

// settle has what goes on written, if that is due.
func (u *uses) settle(now time.Time, batch *ledger.Batch) {
	if now.Sub(u.written) < usesWritten {
		return
	}
	u.written = now
	for pod, w := range u.watches {
		if one := w.Now(); one.From.Before(one.To) {
			u.add(pod, []usage.Use{one}, batch)
		}
	}
}

// read takes what the exporter of a node reports, of pods that hold GPUs there.
func (t *tally) read(node string, at time.Time, readings []exporter.Reading) {
	for uid, p := range t.pods[node] {
		held, _ := t.holds.Has(string(uid))
		if a, ok := activity(p, held.Value.Parts, at, readings); ok {
			t.use.see(string(uid), &a, &t.batch)
		}
	}
}

// activity is what a pod does that holds parts of GPUs, by the readings of its node. Where it has a share of a GPU, and its own
// part of the GPU's utilization is known, that counts in proportion to the share.
func activity(p *v1.Pod, parts int64, at time.Time, readings []exporter.Reading) (a usage.Activity, ok bool) {
	mine := exporter.Of(readings, p.Namespace, p.Name, devices.HeldDevices(p))
	a.At = at.Truncate(time.Millisecond).UTC()
	for i := range mine {
		r := &mine[i]
		ratio, undivided := r.Utilization, exporter.Undivided(readings, r)
		if whole := quota.Whole * int64(len(mine)); r.Profile == "" && !undivided && parts > 0 && parts < whole {
			ratio = min(1, ratio*float64(whole)/float64(parts))
		}
		a.Ratio += ratio / float64(len(mine))
		if ratio >= usage.LowRatio {
			a.Busy++
		}
		a.MemoryBytes = max(a.MemoryBytes, r.MemoryBytes)
		a.Shared = a.Shared || undivided
	}
	return a, len(mine) > 0
}

// holding lists the nodes with pods that hold GPUs.
func (t *tally) holding() (nodes []string) {
	for name, pods := range t.pods {
		if len(pods) > 0 && t.nodes[name] != nil {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return nodes
}
