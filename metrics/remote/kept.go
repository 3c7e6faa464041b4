package remote

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"berth.dev/berth/metrics/store"
)

const (
	// late is how long after its time a sample may come, or the end of a series: Prometheus writes the end of a target that is gone two scrapes later.
	late = 150 * time.Second
	// deeper is after how long as much of a window is got again, in case that something has come later than that.
	deeper = 10 * time.Minute
	// mostKept is how many points of windows are kept: 16 MB.
	mostKept = 1 << 20
)

// kept is what was asked for again and again. The zero value is empty. It is safe for concurrent use if those who ask for the same do so one after the other.
type kept struct {
	mu      sync.Mutex
	version int // how often it was emptied
	moments map[momentKey][]one
	newest  int64 // of the moments
	windows map[windowKey]*window
	points  int   // of the windows
	deep    int64 // the last tick of the last window of which more was got
}

type momentKey struct {
	expr string
	at   int64
}

type windowKey struct {
	expr         string
	length, step int64
}

// window is samples at ticks.
type window struct {
	last   int64 // tick
	deep   int64 // the last tick when more of it was got than may be late
	series map[*own][]store.Point
	points int
}

func (k *kept) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.version++
	clear(k.moments)
	clear(k.windows)
	k.points = 0
}

// moment returns what was kept for a time.
func (k *kept) moment(expr string, at int64) ([]one, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	list, ok := k.moments[momentKey{expr, at}]
	return list, ok
}

// keepMoment keeps an answer until a later time is asked for.
func (k *kept) keepMoment(expr string, at int64, list []one) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at > k.newest {
		k.newest = at
		clear(k.moments)
	}
	if k.moments == nil {
		k.moments = map[momentKey][]one{}
	}
	k.moments[momentKey{expr, at}] = list
}

// since is the tick from which a window has to be got, which is behind its last one if all is kept. The version is for join.
func (k *kept) since(key windowKey, first, last int64) (from int64, version int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.windows[key]
	switch {
	case w == nil || last < w.last:
		return first, k.version
	case last == w.last:
		return last + key.step, k.version
	case last-w.deep >= deeper.Milliseconds() && k.deep != last: // one of them at a time
		k.deep, w.deep = last, last
		return max(first, (w.last-late.Milliseconds()-deeper.Milliseconds())/key.step*key.step), k.version
	}
	return max(first, (w.last-late.Milliseconds())/key.step*key.step), k.version
}

// join returns the samples of a window, of which those since a tick were got, and keeps them. False is that the others are gone.
func (k *kept) join(key windowKey, version int, first, from, last int64, list []one) ([]one, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.windows[key]
	switch {
	case k.version != version || w == nil && from > first:
		return list, from == first
	case w == nil || from == first:
		w = &window{deep: last, series: make(map[*own][]store.Point, len(list))}
	default:
		for of, points := range w.series {
			w.series[of] = between(points, first, from)
		}
	}
	for _, s := range list {
		if had := w.series[s.of]; len(had) == 0 || had[len(had)-1].T < s.points[0].T { // else it is in the answer twice
			w.series[s.of] = append(had, s.points...)
		}
	}
	w.last = last
	k.keepWindow(key, w)
	list = list[:0]
	for of, points := range w.series {
		list = append(list, one{of, points})
	}
	return list, true
}

// keepWindow keeps a window if there is room for it. Series without points are left out.
func (k *kept) keepWindow(key windowKey, w *window) {
	if was := k.windows[key]; was != nil {
		k.points -= was.points
		delete(k.windows, key)
	}
	w.points = 0
	for of, points := range w.series {
		if w.points += len(points); len(points) == 0 {
			delete(w.series, of)
		}
	}
	if k.points+w.points > mostKept {
		return
	}
	if k.windows == nil {
		k.windows = map[windowKey]*window{}
	}
	k.windows[key], k.points = w, k.points+w.points
}

// between are the points from a time up to before another.
func between(points []store.Point, from, to int64) []store.Point {
	at := func(t int64) int {
		i, _ := slices.BinarySearchFunc(points, t, func(p store.Point, t int64) int { return cmp.Compare(p.T, t) })
		return i
	}
	return points[at(from):at(to)]
}
