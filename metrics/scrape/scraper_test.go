package scrape_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/promql"

	"berth.dev/berth/metrics/scrape"
	"berth.dev/berth/metrics/store"
)

var began = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// world is a store that is read into, and asked.
type world struct {
	t      *testing.T
	store  *store.Store
	reader *scrape.Scraper
	at     time.Time
}

func newWorld(t *testing.T, l scrape.Limits) *world {
	s := store.New(store.Options{})
	return &world{t, s, scrape.New(s, l, func() time.Time { return began }), began}
}

// says is a target with an answer.
func says(instance, text string) scrape.Target {
	return scrape.Target{Job: "gpu-exporter", Instance: instance, Fetch: func(context.Context) ([]byte, error) { return []byte(text), nil }}
}

func (w *world) scrape(targets ...scrape.Target) {
	w.at = w.at.Add(15 * time.Second)
	w.reader.Scrape(context.Background(), w.at, "gpu-exporter", targets)
}

// ask evaluates an expression now: values by series.
func (w *world) ask(expr string) map[string]float64 {
	w.t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	q, err := engine.NewInstantQuery(context.Background(), w.store, nil, expr, w.at)
	if err != nil {
		w.t.Fatal(err)
	}
	defer q.Close()
	vector, err := q.Exec(context.Background()).Vector()
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, s := range vector {
		out[s.Metric.String()] = s.F
	}
	return out
}

func (w *world) want(expr string, want map[string]float64) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.ask(expr)); diff != "" {
		w.t.Errorf("%s: -want +got\n%s", expr, diff)
	}
}

func TestSeriesGetTheirTargetAndKeepTheirPod(t *testing.T) {
	w := newWorld(t, scrape.Limits{})
	w.scrape(says("node-1:9400", "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"+
		`DCGM_FI_DEV_GPU_UTIL{gpu="0",namespace="nlp",pod="a",job="mine"} 87 1000`+"\n"))
	w.want("DCGM_FI_DEV_GPU_UTIL", map[string]float64{
		`{__name__="DCGM_FI_DEV_GPU_UTIL", exported_job="mine", gpu="0", instance="node-1:9400", job="gpu-exporter", namespace="nlp", pod="a"}`: 87,
	})
	w.want("up", map[string]float64{`{__name__="up", instance="node-1:9400", job="gpu-exporter"}`: 1})
	want := map[string]scrape.Metadata{"DCGM_FI_DEV_GPU_UTIL": {Type: "gauge", Help: "GPU utilization (in %)."}}
	if diff := cmp.Diff(want, w.reader.Names()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestWhatIsNotThereAnyLongerEndsAtOnce(t *testing.T) {
	w := newWorld(t, scrape.Limits{})
	w.scrape(says("a", "m{gpu=\"0\"} 1\nm{gpu=\"1\"} 1\n"), says("b", "m 1\n"))
	w.scrape(says("a", "m{gpu=\"0\"} 1\n"), says("b", "m 1\n"))
	w.want("count by (instance) (m)", map[string]float64{`{instance="a"}`: 1, `{instance="b"}`: 1})
	w.scrape(says("a", "m{gpu=\"0\"} 1\n"))
	w.want("count by (instance) (m)", map[string]float64{`{instance="a"}`: 1})
	w.want("sum(up)", map[string]float64{"{}": 1})
	w.scrape(says("a", "m{gpu=\"0\"} 1\nm{gpu=\"1\"} 5\n"))
	w.want("sum(m)", map[string]float64{"{}": 6})
	w.scrape()
	w.want("up", map[string]float64{})
}

func TestBadAnswersHarmOnlyTheirOwnSeries(t *testing.T) {
	many := &strings.Builder{}
	for i := range 500 {
		fmt.Fprintf(many, "m{i=\"%d\"} 1\n", i)
	}
	wide := "m{"
	for i := range 50 {
		wide += fmt.Sprintf("l%d=\"v\",", i)
	}
	for name, text := range map[string]string{
		"no metrics at all":          "<html>Login</html>",
		"ends in the middle":         "m 1\nm{gpu=\"0",
		"too many series":            many.String(),
		"too many labels":            wide + "} 1\n",
		"a label of a million bytes": "m{a=\"" + strings.Repeat("x", 1<<20) + "\"} 1\n",
		"a value that is not one":    "m eleven\n",
		"zero bytes":                 "m\x00 1\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, scrape.Limits{Samples: 100})
			w.scrape(says("good", "m 1\n"), says("bad", "m 2\n"))
			w.scrape(says("good", "m 1\n"), says("bad", text))
			w.want("sum by (instance) (m)", map[string]float64{`{instance="good"}`: 1})
			w.want("sum by (instance) (up)", map[string]float64{`{instance="good"}`: 1, `{instance="bad"}`: 0})
			if st := w.reader.States(); st[0].Err == nil || len(st[0].Err.Error()) > 300 {
				t.Errorf("its error is %.400v", st[0].Err)
			}
			w.scrape(says("good", "m 1\n"), says("bad", "m 2\n"))
			w.want("sum(m)", map[string]float64{"{}": 3})
		})
	}
}

func TestNumbersThatAreNoneAreTakenAsTheyAre(t *testing.T) {
	w := newWorld(t, scrape.Limits{})
	w.scrape(says("a", "m{i=\"nan\"} NaN\nm{i=\"inf\"} +Inf\nm{i=\"1\"} 1\nm{i=\"1\"} 2\n"))
	got := w.ask("m")
	values := slices.Collect(maps.Values(got))
	if len(values) != 3 || !slices.ContainsFunc(values, math.IsNaN) || !slices.Contains(values, math.Inf(1)) || !slices.Contains(values, 1) {
		t.Errorf("values %v; want NaN, +Inf, and the first of two that are the same series", got)
	}
	w.want("sum(m == m < +Inf)", map[string]float64{"{}": 1})
}

func TestATargetThatStallsDoesNotHoldUpOthers(t *testing.T) {
	w := newWorld(t, scrape.Limits{Patience: 20 * time.Millisecond, AtOnce: 2})
	stalls := scrape.Target{Job: "gpu-exporter", Instance: "stalls", Fetch: func(ctx context.Context) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	w.scrape(stalls, says("a", "m 1\n"), says("b", "m 1\n"))
	w.want("sum(m)", map[string]float64{"{}": 2})
	w.want("count(up == 0)", map[string]float64{"{}": 1})
	if st := w.reader.States(); !errors.Is(st[2].Err, context.DeadlineExceeded) {
		t.Errorf("state %+v", st[2])
	}
}

func TestACounterThatStartsAgainIsCountedOn(t *testing.T) {
	w := newWorld(t, scrape.Limits{})
	for i := range 20 {
		w.scrape(says("a", fmt.Sprintf("c_total %d\n", i%10*15)))
	}
	got := w.ask("rate(c_total[4m])")
	if v := got[`{instance="a", job="gpu-exporter"}`]; v < 0.85 || v > 1 {
		t.Errorf("rate %v; want about 0.94: 15 in each 15 s but for the one at which it started again", got)
	}
}

func TestReadingsAreRoundedToWhatSensorsHave(t *testing.T) {
	w := newWorld(t, scrape.Limits{})
	w.scrape(says("a", "DCGM_FI_DEV_POWER_USAGE 371.318\nDCGM_FI_PROF_GR_ENGINE_ACTIVE 0.97123\nDCGM_FI_DEV_GPU_UTIL 97\nDCGM_FI_PROF_PCIE_TX_BYTES 123456789.25\n"))
	for expr, want := range map[string]float64{"DCGM_FI_DEV_POWER_USAGE": 371.25, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 995. / 1024, "DCGM_FI_DEV_GPU_UTIL": 97, "DCGM_FI_PROF_PCIE_TX_BYTES": 123456789.25} {
		w.want("sum("+expr+")", map[string]float64{"{}": want})
	}
}

func TestDroppedMetricsAreLeftOut(t *testing.T) {
	w := newWorld(t, scrape.Limits{})
	target := says("a", "berth_gpu_held{gpu=\"0\"} 1\nm 1\n")
	target.Drop = []string{"berth_gpu_held"}
	w.scrape(target)
	w.want(`count by (__name__) ({job="gpu-exporter", __name__!~"up|scrape.*"})`, map[string]float64{`{__name__="m"}`: 1})
}
