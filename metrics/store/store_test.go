package store_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"berth.dev/berth/metrics/store"
)

var began = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// twin keeps all samples in plain lists.
type twin map[string][]point

type point struct {
	T int64
	V float64
}

func (w twin) cut(t int64) {
	for name, list := range w {
		for len(list) > 0 && list[len(list)-1].T > t {
			list = list[:len(list)-1]
		}
		w[name] = list
	}
}

func read(t *testing.T, s *store.Store, from, to int64) map[string][]point {
	t.Helper()
	q, err := s.Querier(from, to)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	out := map[string][]point{}
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+"))
	var it chunkenc.Iterator
	for set.Next() {
		it = set.At().Iterator(it)
		var list []point
		for it.Next() == chunkenc.ValFloat {
			at, v := it.At()
			list = append(list, point{at, v})
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		if len(list) > 0 {
			out[set.At().Labels().Get("__name__")] = list
		}
	}
	return out
}

// TestTheStoreHasWhatPlainListsHave compares it with its slow twin, over gaps, clocks that are set back, and snapshots.
func TestTheStoreHasWhatPlainListsHave(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s := store.New(store.Options{Step: time.Second, Keep: time.Hour})
		lists := twin{}
		now := began
		for range 1500 {
			now = now.Add(time.Second)
			switch rnd.IntN(400) {
			case 0:
				now = now.Add(time.Duration(rnd.IntN(200)) * time.Second)
			case 1: // a snapshot, and on from it
				var b bytes.Buffer
				if err := s.Save(&b); err != nil {
					t.Fatal(err)
				}
				loaded, err := store.Load(&b, store.Options{Step: time.Second, Keep: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				s = loaded
			}
			var batch []store.Sample
			for i := range 5 {
				if rnd.IntN(10) == 0 {
					continue
				}
				name := fmt.Sprintf("m%d", i)
				r, ok := s.Series(labels.FromStrings("__name__", name))
				if !ok {
					t.Fatal("a series was refused")
				}
				v := math.Floor(rnd.Float64() * 100)
				batch = append(batch, store.Sample{Series: r, Value: v})
				lists[name] = append(lists[name], point{now.UnixMilli(), v})
			}
			s.Append(now, batch)
		}
		from := now.Add(-30 * time.Minute).UnixMilli()
		for _, span := range [][2]int64{{from, now.UnixMilli()}, {from + 100500, from + 300000}, {now.UnixMilli(), now.UnixMilli()}} {
			want := map[string][]point{}
			for name, list := range lists {
				for _, p := range list {
					if p.T >= span[0] && p.T <= span[1] {
						want[name] = append(want[name], p)
					}
				}
			}
			if diff := cmp.Diff(want, read(t, s, span[0], span[1])); diff != "" {
				t.Fatalf("seed %d, %v: -lists +store\n%s", seed, span, diff)
			}
		}
	}
}

func TestAClockThatIsSetBackDropsWhatIsAfterIt(t *testing.T) {
	s := store.New(store.Options{Step: time.Second, Keep: time.Hour})
	r, _ := s.Series(labels.FromStrings("__name__", "m"))
	lists := twin{}
	add := func(at time.Time, v float64) {
		s.Append(at, []store.Sample{{Series: r, Value: v}})
		lists["m"] = append(lists["m"], point{at.UnixMilli(), v})
	}
	for i := range 500 {
		add(began.Add(time.Duration(i)*time.Second), float64(i))
	}
	back := began.Add(290 * time.Second)
	lists.cut(began.Add(239 * time.Second).UnixMilli()) // whole chunks of 120
	for i := range 50 {
		add(back.Add(time.Duration(i)*time.Second), 1000+float64(i))
	}
	if diff := cmp.Diff(map[string][]point(lists), read(t, s, 0, back.Add(time.Hour).UnixMilli())); diff != "" {
		t.Errorf("-lists +store\n%s", diff)
	}
}

func TestOldSamplesAndDeadSeriesGo(t *testing.T) {
	s := store.New(store.Options{Step: time.Second, Keep: 10 * time.Minute, Series: 2})
	short, _ := s.Series(labels.FromStrings("__name__", "short"))
	long, _ := s.Series(labels.FromStrings("__name__", "long"))
	if _, ok := s.Series(labels.FromStrings("__name__", "third")); ok {
		t.Error("a third series is taken; want 2 at most")
	}
	s.Append(began, []store.Sample{{Series: short, Value: 1}, {Series: long, Value: 1}})
	for i := range 3000 {
		s.Append(began.Add(time.Duration(i+1)*time.Second), []store.Sample{{Series: long, Value: float64(i)}})
	}
	if got := s.Stats(); got.Series != 1 || got.Refused != 1 {
		t.Errorf("%d series, %d refused; want 1 and 1", got.Series, got.Refused)
	}
	if _, ok := s.Series(labels.FromStrings("__name__", "third")); !ok {
		t.Error("a series is refused although one has gone")
	}
	s.Append(began.Add(3001*time.Second), []store.Sample{{Series: short, Value: 7}}) // the old handle
	if s.Stats().Refused != 2 {
		t.Error("a series that comes back counts: 2 at most")
	}
}

func TestWithoutRoomTheOldestGoes(t *testing.T) {
	s := store.New(store.Options{Step: time.Second, Keep: 1000 * time.Hour, Bytes: 1 << 20})
	var all []store.Sample
	for i := range 50 {
		r, _ := s.Series(labels.FromStrings("__name__", fmt.Sprint("m", i)))
		all = append(all, store.Sample{Series: r})
	}
	q, _ := s.Querier(0, math.MaxInt64) // reads what was there, whatever goes
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "m1"))
	_ = set
	for i := range 10000 {
		for j := range all {
			all[j].Value = rand.Float64()
		}
		s.Append(began.Add(time.Duration(i)*time.Second), all)
	}
	_ = q.Close()
	s.Append(began.Add(10001*time.Second), all)
	got := s.Stats()
	if got.Shortened == 0 || !got.Oldest.After(began) {
		t.Errorf("stats %+v; want slabs given up", got)
	}
	list := read(t, s, 0, math.MaxInt64)["m1"]
	if len(list) < 100 || list[len(list)-1].T != began.Add(10001*time.Second).UnixMilli() {
		t.Errorf("%d samples; want the newest", len(list))
	}
	for i := range list[1:] {
		if list[i+1].T <= list[i].T {
			t.Fatalf("sample %d is not after the one before it", i+1)
		}
	}
}

func TestADamagedSnapshotIsRefusedWhole(t *testing.T) {
	s := store.New(store.Options{})
	var batch []store.Sample
	for i := range 3 {
		r, _ := s.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)))
		batch = append(batch, store.Sample{Series: r, Value: 1})
	}
	for i := range 300 {
		s.Append(began.Add(time.Duration(i)*15*time.Second), batch)
	}
	var b bytes.Buffer
	if err := s.Save(&b); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	if _, err := store.Load(bytes.NewReader(whole), store.Options{}); err != nil {
		t.Fatalf("a whole snapshot: %v", err)
	}
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 0x55
		if _, err := store.Load(bytes.NewReader(bad), store.Options{}); err == nil {
			t.Errorf("byte %d of %d is wrong, and nothing is said", i, len(whole))
		}
		if _, err := store.Load(bytes.NewReader(whole[:i]), store.Options{}); err == nil {
			t.Errorf("it ends after byte %d of %d, and nothing is said", i, len(whole))
		}
	}
	if _, err := store.Load(bytes.NewReader(whole), store.Options{Step: time.Second}); err == nil || !strings.Contains(err.Error(), "15000 ms apart, and not 1000") {
		t.Errorf("another step: %v", err)
	}
}

// full is a disk without room.
type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, fmt.Errorf("no space left on device")
	}
	return len(b), nil
}

func TestAFullDiskIsSaid(t *testing.T) {
	s := store.New(store.Options{})
	r, _ := s.Series(labels.FromStrings("__name__", "m"))
	s.Append(began, []store.Sample{{Series: r, Value: 1}})
	for left := range 40 {
		if err := s.Save(&full{left}); err == nil {
			t.Errorf("with room for %d bytes no error", left)
		}
	}
}

func TestPromQLReadsTheStore(t *testing.T) {
	s := store.New(store.Options{})
	for i := range 100 {
		var batch []store.Sample
		for gpu := range 4 {
			r, _ := s.Series(labels.FromStrings("__name__", "energy", "gpu", fmt.Sprint(gpu)))
			batch = append(batch, store.Sample{Series: r, Value: float64(i * gpu * 15)})
		}
		s.Append(began.Add(time.Duration(i)*15*time.Second), batch)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	end := began.Add(99 * 15 * time.Second)
	for _, tt := range []struct{ expr, want string }{
		{"round(sum(rate(energy[5m])))", "{} => 6"},
		{`energy{gpu="3"}`, `{__name__="energy", gpu="3"} => 4455`},
		{`energy{gpu=~"[3-9]"} offset 1m`, `{__name__="energy", gpu="3"} => 4275`},
		{`round(max_over_time(rate(energy{gpu="1"}[2m])[5m:1m]))`, `{gpu="1"} => 1`},
		{`count(energy{gpu!=""})`, "{} => 4"},
	} {
		q, err := engine.NewInstantQuery(context.Background(), s, nil, tt.expr, end)
		if err != nil {
			t.Fatal(err)
		}
		got := q.Exec(context.Background())
		if got.Err != nil || got.String() != fmt.Sprintf("%s @[%d]", tt.want, end.UnixMilli()) {
			t.Errorf("%s = %s, %v; want %s", tt.expr, got, got.Err, tt.want)
		}
		q.Close()
	}
}

var _ storage.Queryable = (*store.Store)(nil)

func TestAFollowerHasTheSamplesThatAreTaken(t *testing.T) {
	kept := store.New(store.Options{})
	a, _ := kept.Series(labels.FromStrings("__name__", "a"))
	b, _ := kept.Series(labels.FromStrings("__name__", "b"))
	at := time.UnixMilli(1_795_000_020_000).UTC()
	kept.Append(at, []store.Sample{{Series: a, Value: 1}})
	var told []string
	kept.Follow(func(at time.Time, samples []store.Sample) {
		for _, one := range samples {
			told = append(told, fmt.Sprint(one.Series.Labels().Get("__name__"), " ", one.Value, " ", at.Unix()))
		}
	})
	kept.Append(at.Add(7*time.Second), []store.Sample{{Series: a, Value: 2}, {Series: b, Value: 3}}) // a has a sample of this tick
	kept.Append(at.Add(15*time.Second), []store.Sample{{Series: a, Value: 4}})
	kept.Append(at, []store.Sample{{Series: b, Value: 5}})
	if got := strings.Join(told, ", "); got != fmt.Sprintf("b 3 %d, a 4 %d", at.Unix(), at.Unix()+15) {
		t.Errorf("the follower has %s", got)
	}
}

func TestSeriesAreMergedByTime(t *testing.T) {
	ls := labels.FromStrings("__name__", "a")
	one := store.NewSeries(ls, []store.Point{{T: 10, V: 1}, {T: 20, V: 2}, {T: 30, V: store.Stale()}, {T: 60, V: 6}})
	two := store.NewSeries(ls, []store.Point{{T: 20, V: 9}, {T: 30, V: 3}, {T: 40, V: 4}, {T: 50, V: store.Stale()}})
	var got []string
	it := store.Merge(one, two).Iterator(nil)
	for it.Next() == chunkenc.ValFloat {
		at, v := it.At()
		got = append(got, fmt.Sprint(at, ":", v))
	}
	if text := strings.Join(got, " "); text != "10:1 20:2 30:3 40:4 50:NaN 60:6" || it.Err() != nil {
		t.Errorf("merged they are %s, %v", text, it.Err())
	}
	it = store.Merge(one, two).Iterator(nil)
	if it.Seek(35) != chunkenc.ValFloat || it.AtT() != 40 || it.Seek(20) != chunkenc.ValFloat || it.AtT() != 40 || it.Seek(61) != chunkenc.ValNone || it.Next() != chunkenc.ValNone {
		t.Error("Seek does not find what is next")
	}
}
