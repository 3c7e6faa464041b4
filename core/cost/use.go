package cost

import (
	"cmp"
	"slices"
	"time"

	"berth.dev/berth/core/usage"
)

// Uses is what pods did with their GPUs, by UID of pods.
type Uses map[string][]usage.Use

// UseRow is what the holders of one name did with what they held.
type UseRow struct {
	Name                   string
	Currency               string // "" is that no price is known
	PartMillis, IdleMillis int64  // parts of GPUs times milliseconds: held, and of them in which nothing was done
	Micros, IdleMicros     int64  // what these are charged
	// KnownMillis are those of PartMillis of which it is known how busy the GPUs were, and UsedMillis the same weighted by that.
	KnownMillis, UsedMillis int64
	Pods                    int
	// Parts is the most that one pod held, Devices the most devices of one pod that were busy at once, and MemoryBytes the most that one
	// pod used of a device; if KnownMillis is 0, the last two are not known.
	Parts       int64
	Devices     int
	MemoryBytes int64
	Shared      bool          // these are also of others that use the same GPUs
	Longest     time.Duration // for which one pod has held, also before the time that is asked for
	User        string        // of all pods; "" is not known, or several
}

// UseOf adds up what holders did in a time, those first whose idle GPUs cost the most. Each time in which a pod did nothing
// counts from when it has lasted for a grace.
func UseOf(f *Facts, lows Lows, uses Uses, grace time.Duration, from, to time.Time, by By) []UseRow {
	type key struct{ name, currency string }
	rows, counted := map[key]*UseRow{}, map[key]map[string]bool{}
	s := splitter{lows: lows, grace: grace}
	for e := range Account(f, from, to) {
		if e.Line.Pod == "" {
			continue
		}
		k := key{name: by.name(e)}
		if e.Priced {
			k.currency = e.Currency
		}
		r := rows[k]
		if r == nil {
			r = &UseRow{Name: k.name, Currency: k.currency, User: e.Pod.User}
			rows[k], counted[k] = r, map[string]bool{}
		}
		if r.User != e.Pod.User {
			r.User = ""
		}
		idle, micros := s.idle(e)
		r.PartMillis, r.IdleMillis = r.PartMillis+e.PartMillis, r.IdleMillis+idle
		r.Micros, r.IdleMicros = r.Micros+e.Micros, r.IdleMicros+micros
		held := int64(0)
		for _, h := range s.of(e) {
			held += millis(latest(h.From, e.From), end(h.To, e.To))
		}
		known, used := measured(uses[e.Pod.UID], e.From, e.To)
		if held > 0 {
			r.KnownMillis += usage.Divide(e.PartMillis, []int64{min(known, held), max(0, held-known)})[0]
			r.UsedMillis += usage.Divide(e.PartMillis, []int64{min(used, held), max(0, held-used)})[0]
		}
		if !counted[k][e.Pod.UID] {
			counted[k][e.Pod.UID] = true
			r.sizes(s.of(e), uses[e.Pod.UID], to)
		}
	}
	out := make([]UseRow, 0, len(rows))
	for _, r := range rows {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b UseRow) int {
		return cmp.Or(cmp.Compare(b.IdleMicros, a.IdleMicros), cmp.Compare(b.IdleMillis, a.IdleMillis), cmp.Compare(b.PartMillis, a.PartMillis), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Currency, b.Currency))
	})
	return out
}

// sizes notes how much a pod held and used at most, and for how long until a time.
func (r *UseRow) sizes(holds []usage.Hold, uses []usage.Use, until time.Time) {
	r.Pods++
	for _, h := range holds {
		r.Parts, r.Longest = max(r.Parts, h.Parts), max(r.Longest, end(h.To, until).Sub(h.From))
	}
	for i := range uses {
		u := &uses[i]
		r.Devices, r.MemoryBytes, r.Shared = max(r.Devices, u.Busy), max(r.MemoryBytes, u.MemoryBytes), r.Shared || u.Shared
	}
}

// measured returns for how many milliseconds of a time it is known how busy a pod's GPUs were, and the same weighted by that.
func measured(uses []usage.Use, from, to time.Time) (known, used int64) {
	for i := range uses {
		u := &uses[i]
		n, all := millis(latest(u.From, from), earlier(u.To, to)), millis(u.From, u.To)
		if n > 0 && all > 0 {
			known += n
			used += u.Used.Milliseconds() * n / all
		}
	}
	return known, used
}
