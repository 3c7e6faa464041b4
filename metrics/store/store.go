package store

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Options bounds a store. Zero values are the defaults.
type Options struct {
	Step   time.Duration // between two samples of a series: 15 seconds; whole milliseconds
	Keep   time.Duration // how long samples are kept: 24 hours
	Series int           // at most; further ones are refused: 50,000
	Bytes  int64         // of full chunks, at most; then less than Keep is kept: 128 MiB
}

func (o *Options) defaults() {
	if o.Step <= 0 {
		o.Step = 15 * time.Second
	}
	if o.Keep <= 0 {
		o.Keep = 24 * time.Hour
	}
	if o.Series <= 0 {
		o.Series = 50000
	}
	if o.Bytes <= 0 {
		o.Bytes = 128 << 20
	}
}

const (
	perChunk  = 120   // samples
	spanTicks = 60000 // at most, from the first sample of a chunk to its last
	setBack   = 8     // ticks: what is older by less is only late
)

// Series is one series of a store. It stays usable when its samples have gone: a sample brings it back.
type Series struct {
	labels labels.Labels
	hash   uint64
	chunks []ref // full ones, oldest first
	head   *chunkenc.XORChunk
	app    chunkenc.Appender
	first  uint32 // tick of the first sample of head
	last   uint32 // tick of the last sample; 0 is that there has been none
	value  float64
	linked bool // it is in the index
}

// Labels are those of the series.
func (r *Series) Labels() labels.Labels { return r.labels }

// Key is the labels by their place, which is the same as long as the series is, for maps.
func (r *Series) Key() *labels.Labels { return &r.labels }

// Sample is a value for a series.
type Sample struct {
	Series *Series
	Value  float64
}

// Stats is what a store holds, and what it has refused since it was made.
type Stats struct {
	Series     int
	Chunks     int   // that are full
	ChunkBytes int64 // of slabs with full chunks
	HeadBytes  int64 // of chunks that are filled now
	Refused    int64 // series beyond Options.Series
	Late       int64 // samples not newer than the last of their series
	Oldest     time.Time
	// Shortened is how many slabs were given up before their time, for Options.Bytes.
	Shortened int64
}

// Store holds the samples of many series. Safe for concurrent use: reading does not wait for other readers, and appending
// waits only while a reader copies.
type Store struct {
	o    Options
	step int64 // milliseconds

	mu      sync.RWMutex
	byHash  map[uint64][]*Series
	index   map[string]map[string][]*Series
	count   int
	slabs   slabs
	newest  uint32 // tick
	trimmed uint32 // tick of the last trim
	refused int64
	late    int64
	follow  func(at time.Time, samples []Sample)

	// readers are the queriers that are open, by number: slabs stay until those have ended that may read them.
	readersMu sync.Mutex
	readers   map[uint64]bool
	reader    uint64
}

// New makes an empty store.
func New(o Options) *Store {
	o.defaults()
	return &Store{
		o: o, step: max(1, o.Step.Milliseconds()), byHash: map[uint64][]*Series{}, index: map[string]map[string][]*Series{},
		slabs: newSlabs(o.Bytes), readers: map[uint64]bool{},
	}
}

// Step is the time between two samples.
func (s *Store) Step() time.Duration { return s.o.Step }

// Tick is the newest moment for samples that is not after t.
func (s *Store) Tick(t time.Time) time.Time {
	return time.UnixMilli(t.UnixMilli() / s.step * s.step).UTC()
}

func (s *Store) tick(t time.Time) uint32 { return uint32(t.UnixMilli() / s.step) }

// Series returns the series with labels, which is made if there is none. False is that there are too many.
func (s *Store) Series(ls labels.Labels) (*Series, bool) { return s.SeriesLeaving(ls, 0) }

// SeriesLeaving is Series for a writer that leaves room for so many series of others.
func (s *Store) SeriesLeaving(ls labels.Labels, leave int) (*Series, bool) {
	hash := ls.Hash()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.byHash[hash] {
		if labels.Equal(r.labels, ls) {
			return r, true
		}
	}
	if s.count >= s.o.Series-leave {
		s.refused++
		return nil, false
	}
	r := &Series{labels: ls.Copy(), hash: hash}
	s.link(r)
	return r, true
}

// Follow has f called with all samples that are added from now on. f must not wait, and must not change the samples. Follow is called before any are added.
func (s *Store) Follow(f func(at time.Time, samples []Sample)) { s.follow = f }

// Append adds samples of one moment, rounded down to a tick. A series gets one sample a tick: what is not newer than its last is
// left out. If t is before the newest sample of all by more than setBack, the clock has been set back, and what
// is from after t is dropped. Samples before Keep go.
func (s *Store) Append(t time.Time, samples []Sample) {
	at := s.tick(t)
	if added := s.append(at, samples); s.follow != nil && len(added) > 0 {
		s.follow(time.UnixMilli(int64(at)*s.step).UTC(), added)
	}
}

// append adds samples, and returns those that were taken if someone follows.
func (s *Store) append(at uint32, samples []Sample) (added []Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == 0 {
		s.trimmed = at // nothing is old yet, and series that others have just made have no sample
	}
	if at+setBack < s.newest {
		s.cut(at)
	}
	for _, sample := range samples {
		if s.add(sample.Series, at, sample.Value) && s.follow != nil {
			added = append(added, sample)
		}
	}
	s.newest = max(s.newest, at)
	keep := uint32(s.o.Keep.Milliseconds() / s.step)
	if every := keep/48 + 1; at >= s.trimmed+every {
		s.trim(at - min(at, keep))
		s.trimmed = at
	}
	return added
}

// add reports whether there was room for a sample, and none as new.
func (s *Store) add(r *Series, at uint32, value float64) bool {
	if r.last >= at {
		s.late++
		return false
	}
	if !r.linked {
		if s.count >= s.o.Series {
			s.refused++
			return false
		}
		s.link(r)
	}
	if r.head != nil && (r.head.NumSamples() >= perChunk || at-r.first > spanTicks) {
		s.seal(r)
	}
	if r.head == nil {
		r.head, r.first = chunkenc.NewXORChunk(), at
		r.app, _ = r.head.Appender() // of an empty chunk there is no error
	}
	r.app.Append(int64(at)*s.step, value)
	r.last, r.value = at, value
	return true
}

// seal puts the head of a series away.
func (s *Store) seal(r *Series) {
	raw := r.head.Bytes()
	where := s.slabs.put(raw, r.last)
	where.start, where.span, where.samples = r.first, uint16(r.last-r.first), uint8(r.head.NumSamples())
	r.chunks = append(r.chunks, where)
	r.head, r.app = nil, nil
	if s.slabs.over() {
		s.slabs.shorten()
		s.forget()
		s.release()
	}
}

// cut drops what is after a tick: each series from the chunk on that reaches beyond it.
func (s *Store) cut(at uint32) {
	s.eachSeries(func(r *Series) {
		if r.last <= at {
			return
		}
		r.head, r.app, r.last = nil, nil, 0
		for len(r.chunks) > 0 && r.chunks[len(r.chunks)-1].end() > at {
			r.chunks = r.chunks[:len(r.chunks)-1]
		}
		// Readers may have the rest of the array: it is not written again.
		r.chunks = slices.Clip(r.chunks)
		if n := len(r.chunks); n > 0 {
			r.last = r.chunks[n-1].end()
		}
	})
	s.newest, s.trimmed = at, min(s.trimmed, at)
}

// trim drops slabs with nothing newer than a tick, and series whose last sample is older.
func (s *Store) trim(before uint32) {
	if s.slabs.expire(before) {
		s.forget()
	}
	var dead []*Series
	s.eachSeries(func(r *Series) {
		if r.last < before {
			r.head, r.app, r.chunks, r.last = nil, nil, nil, 0
			dead = append(dead, r)
		}
	})
	s.unlink(dead)
	s.release()
}

// forget drops the references to slabs that were given up.
func (s *Store) forget() {
	s.eachSeries(func(r *Series) {
		n := 0
		for n < len(r.chunks) && !s.slabs.has(r.chunks[n].slab) {
			n++
		}
		r.chunks = r.chunks[n:]
	})
}

// Room returns how many series there are, and how many samples had no room, without a walk over all series.
func (s *Store) Room() (series int, refused int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.count, s.refused
}

// Stats counts what there is.
func (s *Store) Stats() Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := Stats{Series: s.count, ChunkBytes: s.slabs.bytes(), Refused: s.refused, Late: s.late, Shortened: s.slabs.shortened}
	oldest := s.newest
	s.eachSeries(func(r *Series) {
		out.Chunks += len(r.chunks)
		if r.head != nil {
			out.HeadBytes += int64(cap(r.head.Bytes()))
			oldest = min(oldest, r.first)
		}
		if len(r.chunks) > 0 {
			oldest = min(oldest, r.chunks[0].start)
		}
	})
	if s.count > 0 {
		out.Oldest = time.UnixMilli(int64(oldest) * s.step).UTC()
	}
	return out
}
