package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"berth.dev/berth/metrics/rules"
	"berth.dev/berth/metrics/scrape"
	"berth.dev/berth/metrics/store"
	"berth.dev/berth/metrics/web"
)

var start = time.Unix(1_795_000_005, 0).UTC().Truncate(15 * time.Second)

// world is a store, and a Prometheus that reads exporters with its own labels. Its API is that of package web, which real ones are compared with by a script.
type world struct {
	own, there *store.Store
	at         time.Time // of the last samples
	fails      error     // of the Prometheus
	asked      []string  // of it
	p          *Prometheus
	engine     *promql.Engine
	failed     int
}

func newWorld() *world {
	w := &world{own: store.New(store.Options{}), there: store.New(store.Options{}), at: start, engine: web.NewEngine()}
	s := &web.Server{Engine: web.NewEngine(), Data: w.there, Now: func() time.Time { return w.at }, Names: func() map[string]scrape.Metadata { return nil }, Rules: rules.NewEvaluator(w.engine, w.there, nil)}
	h := s.Handler("/")
	ask := func(_ context.Context, path string, params url.Values) ([]byte, error) {
		w.asked = append(w.asked, path+" "+params.Get("query")+params.Get("match[]"))
		if w.fails != nil {
			return nil, w.fails
		}
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/"+path+"?"+params.Encode(), nil))
		if answer.Code != http.StatusOK {
			return nil, errors.New(answer.Body.String())
		}
		return answer.Body.Bytes(), nil
	}
	w.p = New("monitoring/prometheus-0", ask, Options{Job: "gpu-exporter", Own: []string{"gpu-exporter", "berth"}, Drop: []string{"berth_gpu_held"}})
	return w
}

// give adds samples to a store at the time of the world.
func (w *world) give(t *testing.T, s *store.Store, v float64, series ...string) {
	t.Helper()
	var batch []store.Sample
	for _, text := range series {
		ls, err := parser.ParseMetric(text)
		if err != nil {
			t.Fatal(err)
		}
		r, _ := s.Series(ls)
		batch = append(batch, store.Sample{Series: r, Value: v})
	}
	s.Append(w.at, batch)
}

// ask has the store and the Prometheus answer as one.
func (w *world) ask(t *testing.T, expr string, lenient bool) string {
	t.Helper()
	return w.evaluate(t, expr, &Both{Store: w.own, Other: func() *Prometheus { return w.p }, Failed: func(error) { w.failed++ }, Lenient: lenient})
}

func (w *world) evaluate(t *testing.T, expr string, b *Both) string {
	t.Helper()
	q, err := w.engine.NewInstantQuery(t.Context(), b, nil, expr, w.at)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	got := q.Exec(t.Context())
	if got.Err != nil {
		return "error: " + got.Err.Error()
	}
	out := strings.Split(got.String(), "\n")
	slices.Sort(out)
	warnings, _ := got.Warnings.AsStrings("", 10, 10)
	return strings.Join(append(out, warnings...), "\n")
}

// The labels that Prometheus' operator puts on what it reads.
const operator = `job="dcgm", instance="10.0.0.1:9400", namespace="gpu-operator", pod="dcgm-x", container="exporter", endpoint="metrics", service="dcgm"`

// operatorSeries are those of an exporter with two GPUs that is read without honorLabels: a pod that holds a GPU goes under exported_.
var operatorSeries = []string{
	`DCGM_FI_DEV_GPU_TEMP{UUID="GPU-0", gpu="0", ` + operator + `, exported_namespace="ml", exported_pod="trainer", exported_container="main"}`,
	`DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1", gpu="1", ` + operator + `}`,
	`DCGM_FI_DEV_FB_USED{UUID="GPU-0", gpu="0", ` + operator + `, exported_namespace="ml", exported_pod="trainer", exported_container="main"}`,
	`DCGM_FI_DEV_FB_USED{UUID="GPU-1", gpu="1", ` + operator + `}`,
	`up{` + operator + `}`,
}

var wanted = map[string]Devices{"n1:9400": {"GPU-0": 2, "GPU-1": 2}, "n2:9400": {"GPU-7": 2}, "n3:9400": nil}

func (w *world) look(t *testing.T) map[string]bool {
	t.Helper()
	reads, err := w.p.Look(t.Context(), w.at, wanted)
	if err != nil {
		t.Fatal(err)
	}
	return reads
}

func TestItsSeriesGetTheLabelsOfTheStore(t *testing.T) {
	honored := []string{
		`DCGM_FI_DEV_GPU_TEMP{UUID="GPU-0", gpu="0", job="dcgm", instance="10.0.0.1:9400", endpoint="metrics", namespace="ml", pod="trainer", container="main"}`,
		`DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1", gpu="1", ` + operator + `}`,
		`DCGM_FI_DEV_FB_USED{UUID="GPU-0", gpu="0", job="dcgm", instance="10.0.0.1:9400", endpoint="metrics", namespace="ml", pod="trainer", container="main"}`,
		`DCGM_FI_DEV_FB_USED{UUID="GPU-1", gpu="1", ` + operator + `}`,
		`up{` + operator + `}`,
	}
	for name, series := range map[string][]string{"without honorLabels": operatorSeries, "with honorLabels": honored} {
		w := newWorld()
		w.give(t, w.there, 60, series...)
		if reads := w.look(t); !reads["n1:9400"] || len(reads) != 1 {
			t.Errorf("%s: it reads %v", name, reads)
		}
		want := `{UUID="GPU-0", __name__="DCGM_FI_DEV_GPU_TEMP", container="main", gpu="0", instance="n1:9400", job="gpu-exporter", namespace="ml", pod="trainer"} => 60 @[` + fmt.Sprint(w.at.UnixMilli()) + "]\n" +
			`{UUID="GPU-1", __name__="DCGM_FI_DEV_GPU_TEMP", gpu="1", instance="n1:9400", job="gpu-exporter"} => 60 @[` + fmt.Sprint(w.at.UnixMilli()) + "]"
		if got := w.ask(t, "DCGM_FI_DEV_GPU_TEMP", false); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
		for expr, want := range map[string]int{
			`DCGM_FI_DEV_GPU_TEMP{pod="trainer"}`: 1, `DCGM_FI_DEV_GPU_TEMP{pod=""}`: 1, `DCGM_FI_DEV_GPU_TEMP{gpu="1"}`: 1, `DCGM_FI_DEV_GPU_TEMP{instance="n1:9400"}`: 2,
			`DCGM_FI_DEV_GPU_TEMP{instance="10.0.0.1:9400"}`: 0, `up{job="gpu-exporter"}`: 1, `up{job="dcgm"}`: 0, `{__name__=~"DCGM_.+"}`: 4,
		} {
			if got := w.ask(t, expr, false); strings.Count(got, "=>") != want {
				t.Errorf("%s: %s gives\n%s\nwant %d", name, expr, got, want)
			}
		}
	}
}

func TestWhatItHasFromTheStoreOrInPartIsNotUsed(t *testing.T) {
	w := newWorld()
	w.give(t, w.there, 60,
		`DCGM_FI_DEV_GPU_TEMP{UUID="GPU-0", job="gpu-exporter", instance="n1:9400"}`, `DCGM_FI_DEV_FB_USED{UUID="GPU-0", job="gpu-exporter", instance="n1:9400"}`, // federated
		`DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1", job="federate", instance="x", exported_job="gpu-exporter"}`, `DCGM_FI_DEV_FB_USED{UUID="GPU-1", job="federate", instance="x", exported_job="gpu-exporter"}`,
		`DCGM_FI_DEV_GPU_TEMP{UUID="GPU-7", job="dcgm", instance="y"}`, // one metric of two
		`berth:gpu_util:ratio{UUID="GPU-0"}`, `berth_gpu_held{UUID="GPU-0", job="berth"}`)
	if reads := w.look(t); len(reads) != 0 {
		t.Errorf("it reads %v", reads)
	}
	w.asked = nil
	if got := w.ask(t, "DCGM_FI_DEV_GPU_TEMP", false); got != "" || len(w.asked) != 0 {
		t.Errorf("Prometheus is asked %v, and gives %s", w.asked, got)
	}
}

func TestOnlyWhatItMayHaveIsAskedFor(t *testing.T) {
	w := newWorld()
	w.give(t, w.there, 60, append([]string{`berth_gpu_held{UUID="GPU-0", ` + operator + `}`}, operatorSeries...)...)
	w.give(t, w.own, 1, `berth_gpu_held{UUID="GPU-0", job="berth", instance="meter", namespace="ml", pod="trainer", user="ada"}`)
	w.look(t)
	w.asked = nil
	for expr, want := range map[string]string{"berth_gpu_held": `user="ada"`, "berth:gpu_util:ratio": "", `DCGM_FI_DEV_GPU_TEMP{job="berth"}`: ""} {
		if got := w.ask(t, expr, false); want == "" && got != "" || !strings.Contains(got, want) || len(w.asked) != 0 {
			t.Errorf("%s gives %s after it was asked %v", expr, got, w.asked)
		}
	}
	if got := w.ask(t, `{__name__=~"berth_.+|DCGM_.+"}`, false); strings.Count(got, "=>") != 5 {
		t.Errorf("all series are\n%s", got)
	}
	if got := w.ask(t, `DCGM_FI_DEV_GPU_TEMP * on (UUID, namespace, pod) group_left (user) berth_gpu_held`, false); strings.Count(got, "=>") != 1 || !strings.Contains(got, `user="ada"`) {
		t.Errorf("with its holder it gives %s", got)
	}
}

func TestRangesGoOnFromOneToTheOther(t *testing.T) {
	w := newWorld()
	own := `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1", gpu="1", job="gpu-exporter", instance="n1:9400"}`
	for i := range 8 { // the store has 0 to 3 and an end at 4, the Prometheus 3 to 7
		w.at = start.Add(time.Duration(i) * 15 * time.Second)
		switch {
		case i < 4:
			w.give(t, w.own, float64(i), own)
		case i == 4:
			w.give(t, w.own, store.Stale(), own)
		}
		if i >= 3 {
			w.give(t, w.there, float64(i), operatorSeries...)
		}
		if i == 4 {
			w.look(t)
			if got := w.ask(t, `DCGM_FI_DEV_GPU_TEMP{gpu="1"}`, false); !strings.Contains(got, "=> 4 @") {
				t.Errorf("when it changes hands it is %q", got)
			}
		}
	}
	for expr, want := range map[string]string{
		`count_over_time(DCGM_FI_DEV_GPU_TEMP{gpu="1"}[2m])`: "=> 8 @", `sum_over_time(DCGM_FI_DEV_GPU_TEMP{gpu="1"}[2m])`: "=> 28 @", `changes(DCGM_FI_DEV_GPU_TEMP{gpu="1"}[1m])`: "=> 3 @",
		`max_over_time(DCGM_FI_DEV_GPU_TEMP{gpu="0"}[1m])`: "=> 7 @", `DCGM_FI_DEV_GPU_TEMP{gpu="1"} offset 90s`: "=> 1 @",
	} {
		if got := w.ask(t, expr, false); !strings.Contains(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%s is %s; want %s", expr, got, want)
		}
	}

	// What ends there ends here.
	w.at = w.at.Add(15 * time.Second)
	w.give(t, w.there, store.Stale(), operatorSeries[1])
	w.at = w.at.Add(15 * time.Second)
	w.give(t, w.there, 9, operatorSeries[0])
	if got := w.ask(t, `max_over_time(DCGM_FI_DEV_GPU_TEMP{gpu="1"}[1m:15s])`, false); !strings.Contains(got, "=> 7 @") {
		t.Errorf("over a minute it is %q", got)
	}
	if got := w.ask(t, `DCGM_FI_DEV_GPU_TEMP`, false); strings.Count(got, "=>") != 1 || !strings.Contains(got, `gpu="0"`) {
		t.Errorf("after its end it is %q", got)
	}
	if got := w.ask(t, `last_over_time((DCGM_FI_DEV_GPU_TEMP{gpu="1"})[15s:15s])`, false); got != "" {
		t.Errorf("after its end it is %q", got)
	}
}

func TestOneThatDoesNotAnswer(t *testing.T) {
	w := newWorld()
	w.give(t, w.there, 60, operatorSeries...)
	w.give(t, w.own, 50, `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-7", job="gpu-exporter", instance="n2:9400"}`)
	w.look(t)
	w.fails = errors.New("connection refused")
	if got := w.ask(t, "DCGM_FI_DEV_GPU_TEMP", false); !strings.Contains(got, "error: ") || !strings.Contains(got, "connection refused") || w.failed != 1 {
		t.Errorf("an alert is %q, %d failures", got, w.failed)
	}
	if got := w.ask(t, "DCGM_FI_DEV_GPU_TEMP", true); strings.Count(got, "=>") != 1 || !strings.Contains(got, "what Prometheus monitoring/prometheus-0 has read is missing: connection refused") {
		t.Errorf("a person sees %q", got)
	}
	w.p.SetDown(w.fails)
	w.asked = nil
	if got := w.ask(t, "DCGM_FI_DEV_GPU_TEMP", false); strings.Count(got, "=>") != 1 || strings.Contains(got, "refused") || len(w.asked) != 0 {
		t.Errorf("an alert is %q, after it was asked %v", got, w.asked)
	}
	if got := w.ask(t, "DCGM_FI_DEV_GPU_TEMP", true); !strings.Contains(got, "refused") || len(w.asked) != 0 {
		t.Errorf("a person sees %q", got)
	}
	if got := w.ask(t, "berth_gpu_held", true); got != "" {
		t.Errorf("asked for another metric, a person sees %q", got)
	}
	w.fails = nil
	w.p.SetDown(nil)
	if got := w.ask(t, "DCGM_FI_DEV_GPU_TEMP", false); strings.Count(got, "=>") != 3 {
		t.Errorf("when it is back it is %q", got)
	}
}

func TestLabelsOfBoth(t *testing.T) {
	w := newWorld()
	w.give(t, w.there, 60, operatorSeries...)
	w.give(t, w.own, 50, `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-7", job="gpu-exporter", instance="n2:9400"}`)
	w.look(t)
	b := &Both{Store: w.own, Other: func() *Prometheus { return w.p }, Failed: func(error) {}}
	q, err := b.Querier(w.at.Add(-time.Hour).UnixMilli(), w.at.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	name := labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "DCGM_FI_DEV_GPU_TEMP")
	instances, _, err := q.LabelValues(t.Context(), "instance", nil, name)
	if err != nil || strings.Join(instances, " ") != "n1:9400 n2:9400" {
		t.Errorf("instances %v, %v", instances, err)
	}
	names, _, err := q.LabelNames(t.Context(), nil, name)
	if err != nil || strings.Join(names, " ") != "UUID __name__ container gpu instance job namespace pod" {
		t.Errorf("names %v, %v", names, err)
	}
}

func TestAnswersThatCannotBeRead(t *testing.T) {
	w := newWorld()
	w.give(t, w.there, 60, operatorSeries...)
	w.look(t)
	good := w.p.ask
	for _, answer := range []string{
		``, `<html>log in</html>`, `[]`, `{}`, `{"status":"error","error":"no"}`, `{"status":"success","data":{"result":7}}`, `{"status":"success","data":{"result":[{"metric":{},"value":["a","b"]}]}}`,
		`{"status":"success","data":{"result":[{"metric":{},"value":[1]}]}}`, `{"status":"success","data":{"result":[{"metric":{},"values":[[1,"2"],[3,"x"]]}]}}`, `{"status":"success","data":{"result":[{"metric":{},"values":[[1 2]]}]}}`,
	} {
		w.p.ask = func(context.Context, string, url.Values) ([]byte, error) { return []byte(answer), nil }
		for _, expr := range []string{"DCGM_FI_DEV_GPU_TEMP", "max_over_time(DCGM_FI_DEV_GPU_TEMP[10m])"} {
			if got := w.ask(t, expr, false); !strings.HasPrefix(got, "error: ") {
				t.Errorf("%s: %s gives %q", answer, expr, got)
			}
		}
		if _, err := w.p.Look(t.Context(), w.at, wanted); err == nil {
			t.Errorf("%s: a look has no error", answer)
		}
	}
	// Series without the labels of a target, with numbers as labels, and twice the same.
	instant := `{"__name__":"DCGM_FI_DEV_GPU_TEMP","UUID":"GPU-1","job":"dcgm","instance":"10.0.0.1:9400"}`
	w.p.ask = func(context.Context, string, url.Values) ([]byte, error) {
		return []byte(`{"status":"success","data":{"result":[{"value":[1,"1"]},{"metric":{"job":7},"value":[1,"1"]},{"metric":` + instant + `,"value":[` + seconds(w.at.UnixMilli()) + `,"NaN"]},{"metric":` + instant + `,"value":[1,"+Inf"]}]}}`), nil
	}
	if got := w.ask(t, "DCGM_FI_DEV_GPU_TEMP", false); strings.Count(got, "=>") != 1 || !strings.Contains(got, "NaN") {
		t.Errorf("it gives %q", got)
	}
	w.p.ask = good
	if got := w.ask(t, "DCGM_FI_DEV_GPU_TEMP", false); strings.Count(got, "=>") != 2 {
		t.Errorf("after all that it gives %q", got)
	}
}

func TestLabelsOfATargetThatChange(t *testing.T) {
	w := newWorld()
	w.give(t, w.there, 60, operatorSeries...)
	w.look(t)
	w.ask(t, "DCGM_FI_DEV_GPU_TEMP", false)
	var moved []string // the pod of the exporter has another name
	for _, s := range operatorSeries {
		moved = append(moved, strings.ReplaceAll(s, `pod="dcgm-x"`, `pod="dcgm-y"`))
	}
	w.at = w.at.Add(15 * time.Second)
	w.give(t, w.there, store.Stale(), operatorSeries...)
	w.at = w.at.Add(15 * time.Second)
	w.give(t, w.there, 61, moved...)
	w.look(t)
	if got := w.ask(t, "DCGM_FI_DEV_GPU_TEMP", false); strings.Count(got, "=> 61") != 2 || strings.Contains(got, "dcgm-y") {
		t.Errorf("it gives %q", got)
	}
	if got := w.ask(t, `count_over_time(DCGM_FI_DEV_GPU_TEMP{pod="trainer"}[5m])`, false); !strings.Contains(got, "=> 2 @") {
		t.Errorf("of what it had before and has now it gives %q; want both", got)
	}
}
