package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// EndKind is what is known of the end of a holder.
type EndKind int

// What is known of ends. Of the certain ones the time is an upper bound: the holder
// may end before it.
const (
	EndUnknown     EndKind = iota
	EndDeadline            // its kubelet ends it: activeDeadlineSeconds
	EndTerminating         // it is being deleted
	EndRule                // a rule of its queue ends it: maxRunTime
	EndIdle                // a workload that is stopped then for being idle, unless somebody uses it
)

// Holder is a pod that holds what another waits for.
type Holder struct {
	Name string    // what people call it: its owner, "namespace/name"
	Ends time.Time // its GPUs are free by then; zero for EndUnknown
	By   EndKind
}

// TimeBound is a time by which there is room, and the ends it rests on. The zero TimeBound
// is that there is none.
type TimeBound struct {
	At    time.Time
	Rests []Holder // the last to end first; without any of them there is no room then
}

// Estimate is when there is room for a pod that waits, as far as can be told.
// What comes meanwhile and is of higher priority may take that room.
type Estimate struct {
	Now      bool      // there is room now
	AtLatest TimeBound // rests on ends that are certain
	Perhaps  TimeBound // is before AtLatest, and rests on idle workloads that nobody must use until then
	Likely   Likely    // by how long others like those that hold the room, and like those ahead, have run
	Ahead    int       // how many others stand before it; there is room for them, too
	Unknown  string    // why neither AtLatest nor Perhaps is known
}

// Likely is when a workload starts in half of the cases, as far as run times of earlier workloads tell. The zero Likely is that
// they do not.
type Likely struct {
	At     time.Time
	By     time.Time     // in nine of ten cases; zero is later than Within
	Within time.Duration // how far was looked ahead
}

// text says when that is, as seen from now.
func (l *Likely) text(now time.Time) string {
	by := fmt.Sprintf("in one of ten cases after more than %d h", int(l.Within.Hours()))
	if !l.By.IsZero() {
		by = "in nine of ten cases by " + clock(l.By, now)
	}
	return fmt.Sprintf("likely about %s, %s, by how long earlier workloads ran", clock(l.At, now), by)
}

// Short says when that is in few words, as seen from now.
func (l *Likely) Short(now time.Time) string {
	if l.By.IsZero() {
		return "about " + clock(l.At, now)
	}
	return "about " + clock(l.At, now) + ", 9 of 10 by " + clock(l.By, now)
}

// clock is a time in UTC, rounded up to minutes, with its day where it is not that of now.
func clock(at, now time.Time) string {
	at = at.UTC().Add(time.Minute - time.Nanosecond).Truncate(time.Minute)
	layout := "15:04 UTC"
	if day := 24 * time.Hour; !at.Truncate(day).Equal(now.UTC().Truncate(day)) {
		layout = "2006-01-02 15:04 UTC"
	}
	return at.Format(layout)
}

// EstimateStart tells when there is room for a pod that waits, behind others in its line that
// could take the same. room says whether there is, for all of these, once the holders
// at some positions are gone; what is gone beyond that must not hinder it. It is called
// some dozens of times. Ends that have passed at now count for nothing: what should
// have ended and has not is held up by something else.
func EstimateStart(now time.Time, ahead int, holders []Holder, room func(gone []int) bool) Estimate {
	o := Estimate{Ahead: ahead}
	if room(nil) {
		o.Now = true
		return o
	}
	var certain, all []int
	for i := range holders {
		if h := &holders[i]; h.By != EndUnknown && h.Ends.After(now) {
			all = append(all, i)
			if h.By != EndIdle {
				certain = append(certain, i)
			}
		}
	}
	o.AtLatest = earliest(holders, certain, room)
	if len(all) > len(certain) {
		if p := earliest(holders, all, room); o.AtLatest.At.IsZero() || p.At.Before(o.AtLatest.At) {
			o.Perhaps = p
		}
	}
	if o.AtLatest.At.IsZero() && o.Perhaps.At.IsZero() {
		o.Unknown = unknown(holders, all, ahead)
	}
	return o
}

// earliest is the first end of candidates, which are positions in holders, by which
// there is room, with no more of them than it takes. There is none as long as all
// are there.
func earliest(holders []Holder, candidates []int, room func([]int) bool) TimeBound {
	if len(candidates) == 0 || !room(candidates) {
		return TimeBound{}
	}
	candidates = slices.Clone(candidates)
	slices.SortStableFunc(candidates, func(a, b int) int { return holders[a].Ends.Compare(holders[b].Ends) })
	var b TimeBound
	var kept []int
	for len(b.Rests) == 0 || !room(kept) {
		// The fewest of the first that, beside those kept, make room: the last of them
		// is needed, and takes the place of all after it.
		few, enough := 0, len(candidates)
		for few+1 < enough {
			if half := (few + enough) / 2; room(slices.Concat(kept, candidates[:half])) {
				enough = half
			} else {
				few = half
			}
		}
		last := candidates[enough-1]
		kept, candidates = append(kept, last), candidates[:enough-1]
		b.Rests = append(b.Rests, holders[last])
		if len(candidates) == 0 {
			break
		}
	}
	b.At = b.Rests[0].Ends
	return b
}

// unknown says why no time can be told.
func unknown(holders []Holder, ending []int, ahead int) string {
	of, ends := map[string]bool{}, map[string]bool{}
	for i := range holders {
		of[holders[i].Name] = true
	}
	for _, i := range ending {
		ends[holders[i].Name] = true
	}
	whom := "it"
	if ahead > 0 {
		whom = fmt.Sprintf("it and %s", before(ahead))
	}
	switch {
	case len(of) == 0:
		return "no pod holds GPUs that it could use, so none will free any"
	case len(of) == 1 && len(ends) == 0:
		return holders[0].Name + ", which holds these GPUs, has no end that is known"
	case len(ends) == 0:
		return fmt.Sprintf("none of the %d workloads using these GPUs has a known end time", len(of))
	case len(of) == 1:
		return fmt.Sprintf("what %s gives back at its end is not enough for %s", holders[0].Name, whom)
	case len(ends) == 1:
		return fmt.Sprintf("of the %d that hold these GPUs only %s has an end, and what it gives back is not enough for %s", len(of), holders[ending[0]].Name, whom)
	case len(ends) == len(of):
		return fmt.Sprintf("what the %d that hold these GPUs give back at their ends is not enough for %s", len(of), whom)
	}
	return fmt.Sprintf("of the %d that hold these GPUs %d have an end, and what they give back is not enough for %s", len(of), len(ends), whom)
}

func before(ahead int) string {
	if ahead == 1 {
		return "the one that is ahead of it"
	}
	return fmt.Sprintf("the %d that are ahead of it", ahead)
}

// Text is the answer to the question when it can start, with what it rests on. Times
// are UTC, rounded up to minutes, with their day where it is not that of now.
func (o *Estimate) Text(now time.Time) string {
	var out []string
	switch {
	case o.Now:
		return "at any moment: there is capacity now, unless something other than GPUs blocks it"
	case o.Unknown != "" && !o.Likely.At.IsZero():
		return o.Likely.text(now)
	case o.Unknown != "":
		return "unknown: " + o.Unknown
	}
	if !o.AtLatest.At.IsZero() {
		lead := "at the latest at "
		if o.Ahead > 0 {
			lead = "about " // they may take other room than is thought
		}
		out = append(out, lead+o.AtLatest.text(now))
	}
	if !o.Perhaps.At.IsZero() {
		out = append(out, "perhaps at "+o.Perhaps.text(now))
	}
	text := "room " + strings.Join(out, "; ")
	if o.Ahead > 0 {
		text += "; that is for it and " + before(o.Ahead)
	}
	if !o.Likely.At.IsZero() {
		text = o.Likely.text(now) + "; " + text
	}
	return text
}

// text is the time and what it rests on.
func (b *TimeBound) text(now time.Time) string {
	var why []string
	for _, kind := range []struct {
		by        EndKind
		one, more string
	}{
		{EndDeadline, "when %s reaches its activeDeadlineSeconds", "when %s reach their activeDeadlineSeconds"},
		{EndRule, "when %s reaches the maxRunTime of its queue", "when %s reach the maxRunTime of their queues"},
		{EndTerminating, "when %s, which is being deleted, has ended", "when %s, which are being deleted, have ended"},
		{EndIdle, "if nobody uses %s until then: it is stopped for that", "if nobody uses %s until then: they are stopped for that"},
	} {
		var names []string
		for i := range b.Rests {
			if b.Rests[i].By == kind.by {
				names = append(names, b.Rests[i].Name)
			}
		}
		slices.SortFunc(names, cmp.Compare[string])
		switch names = slices.Compact(names); {
		case len(names) == 1:
			why = append(why, fmt.Sprintf(kind.one, names[0]))
		case len(names) > 1:
			why = append(why, fmt.Sprintf(kind.more, together(names)))
		}
	}
	return clock(b.At, now) + ", " + strings.Join(why, ", and ")
}

// together joins two names or more, the first few by name.
func together(names []string) string {
	if more := len(names) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], ", "), more)
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
