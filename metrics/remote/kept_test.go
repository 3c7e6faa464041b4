package remote

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/metrics/store"
)

// again has rules ask the world what they ask in each round.
func (w *world) again(t *testing.T, expr string) string {
	t.Helper()
	return w.evaluate(t, expr, &Both{Store: w.own, Other: func() *Prometheus { return w.p }, Failed: func(error) { w.failed++ }, Again: true})
}

// TestWhatIsKeptIsWhatIsAsked has expressions evaluated every 30 seconds with and without what is kept, while series come, go, change, and come late.
func TestWhatIsKeptIsWhatIsAsked(t *testing.T) {
	exprs := []string{
		`DCGM_FI_DEV_GPU_TEMP`, `DCGM_FI_DEV_GPU_TEMP{gpu="1"}`, `DCGM_FI_DEV_GPU_TEMP{pod!="", job="gpu-exporter"}`, `DCGM_FI_DEV_GPU_TEMP{job="other"}`, `DCGM_FI_DEV_GPU_TEMP unless DCGM_FI_DEV_GPU_TEMP offset 10m`,
		`sum_over_time(DCGM_FI_DEV_GPU_TEMP[10m])`, `count_over_time(DCGM_FI_DEV_GPU_TEMP{gpu="0"}[1h])`, `increase(DCGM_FI_DEV_GPU_TEMP{gpu="1"}[1h]) > 0`, `count_over_time({__name__=~"DCGM_.+"}[10m])`,
	}
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 21))
		w := newWorld()
		series := slices.Clone(operatorSeries)
		w.give(t, w.there, 60, series...)
		w.look(t)
		behind := make([]int, len(series)) // ticks until the samples of a series come
		gone := make([]bool, len(series))
		begin := w.at
		given := make([]time.Time, len(series))
		for round := range 90 {
			now := begin.Add(time.Duration(round+1) * 30 * time.Second)
			for i := range series {
				switch r.IntN(30) {
				case 0:
					gone[i] = !gone[i]
				case 1:
					behind[i] = r.IntN(8)
				case 2:
					behind[i] = 0
				}
				for at := maxTime(given[i], begin).Add(15 * time.Second); !at.After(now.Add(-time.Duration(behind[i]) * 15 * time.Second)); at = at.Add(15 * time.Second) {
					given[i], w.at = at, at
					v := float64(r.IntN(100))
					if gone[i] {
						v = store.Stale()
					}
					w.give(t, w.there, v, series[i])
				}
			}
			w.at = now
			switch {
			case round == 40: // the pod of the exporter has another name
				for i := range series {
					w.give(t, w.there, store.Stale(), series[i])
					series[i] = strings.ReplaceAll(series[i], `pod="dcgm-x"`, `pod="dcgm-y"`)
					gone[i], given[i] = false, now
				}
			case r.IntN(10) == 0:
				w.look(t)
			case r.IntN(20) == 0:
				w.p.SetDown(fmt.Errorf("connection refused"))
				w.again(t, exprs[5])
				w.p.SetDown(nil)
			}
			for _, expr := range exprs {
				if diff := cmp.Diff(w.ask(t, expr, false), w.again(t, expr)); diff != "" {
					t.Fatalf("seed %d, round %d, %s: -asked +kept\n%s", seed, round, expr, diff)
				}
			}
		}
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func TestARoundAsksOnlyWhatItNeeds(t *testing.T) {
	w := newWorld()
	round := func() (list []string) {
		for range 2 {
			w.at = w.at.Add(15 * time.Second)
			w.give(t, w.there, 60, operatorSeries...)
		}
		w.asked = nil
		for _, expr := range []string{`DCGM_FI_DEV_GPU_TEMP > 85`, `DCGM_FI_DEV_GPU_TEMP{gpu="1"}`, `DCGM_FI_DEV_GPU_TEMP{pod!=""}`, `increase(DCGM_FI_DEV_GPU_TEMP[1h])`, `increase(DCGM_FI_DEV_GPU_TEMP{gpu="1"}[1h])`} {
			w.again(t, expr)
		}
		for _, asked := range w.asked {
			path, query, _ := strings.Cut(asked, " ")
			if query != `{__name__="DCGM_FI_DEV_GPU_TEMP",job=~"dcgm"}` {
				t.Errorf("Prometheus is asked %s", query)
			}
			list = append(list, path)
		}
		return list
	}
	w.give(t, w.there, 60, operatorSeries...)
	w.look(t)
	var from, to []string
	ask := w.p.ask
	w.p.ask = func(ctx context.Context, path string, params url.Values) ([]byte, error) {
		if path == "api/v1/query_range" {
			from, to = append(from, params.Get("start")), append(to, params.Get("end"))
		}
		return ask(ctx, path, params)
	}
	whole, deep := 0, 0
	for n := range 41 { // 20 minutes, and one that begins
		from, to = nil, nil
		if diff := cmp.Diff([]string{"api/v1/query", "api/v1/query_range"}, round()); diff != "" {
			t.Fatalf("round %d: -want +asked\n%s", n, diff)
		}
		switch at := w.at.UnixMilli(); {
		case to[0] != seconds(at):
			t.Errorf("round %d at %d is asked until %s", n, at, to[0])
		case from[0] == seconds(at-3585_000):
			whole++
		case from[0] == seconds(at-780_000):
			deep++
		case from[0] != seconds(at-180_000):
			t.Errorf("round %d at %d is asked since %s", n, at, from[0])
		}
	}
	if whole != 1 || deep != 2 {
		t.Errorf("the hour was asked for %d times, and more than 150 seconds %d times; want 1 and 2", whole, deep)
	}
}

func TestNoMoreIsKeptThanItsBound(t *testing.T) {
	var k kept
	list := func(n int) []one { return []one{{&own{ok: true}, make([]store.Point, n)}} }
	key := func(expr string) windowKey { return windowKey{expr, 3_600_000, 15_000} }
	for i, n := range []int{mostKept / 2, mostKept / 2, 1} {
		from, version := k.since(key(fmt.Sprint(i)), 0, 3_600_000)
		if got, ok := k.join(key(fmt.Sprint(i)), version, 0, from, 3_600_000, list(n)); !ok || len(got) != 1 || len(got[0].points) != n {
			t.Errorf("window %d: %d series, %v", i, len(got), ok)
		}
	}
	if k.points != mostKept || len(k.windows) != 2 {
		t.Errorf("%d points of %d windows are kept", k.points, len(k.windows))
	}
	if from, _ := k.since(key("2"), 30_000, 3_630_000); from != 30_000 {
		t.Errorf("what was not kept is asked for since %d", from)
	}

	// A window that has gone while its newest part was read is read as a whole.
	from, version := k.since(key("0"), 30_000, 3_630_000)
	if from != 3_450_000 {
		t.Errorf("the newest part is from %d", from)
	}
	k.clear()
	if _, ok := k.join(key("0"), version, 30_000, from, 3_630_000, list(3)); ok || k.points != 0 || len(k.windows) != 0 {
		t.Errorf("joined with what was gone: %v, %d points of %d windows", ok, k.points, len(k.windows))
	}
}
