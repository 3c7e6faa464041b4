package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"berth.dev/berth/metrics/rules"
	"berth.dev/berth/metrics/scrape"
	"berth.dev/berth/metrics/store"
	"berth.dev/berth/metrics/web"
)

var began = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// serve is a server with an hour of readings of four GPUs.
func serve(t testing.TB) (url string, end time.Time) {
	s := store.New(store.Options{})
	names := scrape.New(s, scrape.Limits{}, time.Now)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10000, Timeout: time.Minute})
	e := rules.NewEvaluator(engine, s, rules.Rules())
	for i := range 240 {
		var text strings.Builder
		fmt.Fprintln(&text, "# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge")
		for gpu := range 4 {
			fmt.Fprintf(&text, "DCGM_FI_DEV_GPU_TEMP{gpu=\"%d\",UUID=\"GPU-%d\",hostname=\"node-1\"} %d\n", gpu, gpu, 60+10*gpu)
		}
		end = began.Add(time.Duration(i) * 15 * time.Second)
		names.Take(end, &scrape.Target{Job: "gpu-exporter", Instance: "node-1:9400"}, []byte(text.String()), nil)
		if i%40 == 39 {
			e.Evaluate(context.Background(), end)
		}
	}
	h := httptest.NewServer((&web.Server{Engine: engine, Data: s, Names: names.Names, Rules: e, Now: func() time.Time { return end }}).Handler("/prometheus/"))
	t.Cleanup(h.Close)
	return h.URL + "/prometheus", end
}

func ask(t testing.TB, method, address string, form url.Values) (int, string) {
	t.Helper()
	var resp *http.Response
	var err error
	if method == http.MethodPost {
		resp, err = http.PostForm(address, form)
	} else {
		resp, err = http.Get(address + "?" + form.Encode())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(raw))
}

func TestAnswersAreThoseOfPrometheus(t *testing.T) {
	root, end := serve(t)
	stamp := fmt.Sprint(end.Unix())
	for _, tt := range []struct{ path, form, want string }{
		{"query", `query=max(DCGM_FI_DEV_GPU_TEMP)`, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[` + stamp + `,"90"]}]}}`},
		{"query", `query=1%2B1&time=1000`, `{"status":"success","data":{"resultType":"scalar","result":[1000,"2"]}}`},
		{"query", `query=nothing`, `{"status":"success","data":{"resultType":"vector","result":[]}}`},
		{"query_range", `query=min(DCGM_FI_DEV_GPU_TEMP)&start=2026-11-02T00:10:00Z&end=1793578260&step=30s`, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1793578200,"60"],[1793578230,"60"],[1793578260,"60"]]}]}}`},
		{"label/gpu/values", ``, `{"status":"success","data":["0","1","2","3"]}`},
		{"label/gpu/values", `match[]=DCGM_FI_DEV_GPU_TEMP{UUID="GPU-2"}`, `{"status":"success","data":["2"]}`},
		{"labels", `match[]=up`, `{"status":"success","data":["__name__","instance","job"]}`},
		{"series", `match[]=up`, `{"status":"success","data":[{"__name__":"up","instance":"node-1:9400","job":"gpu-exporter"}]}`},
		{"metadata", `metric=DCGM_FI_DEV_GPU_TEMP`, `{"status":"success","data":{"DCGM_FI_DEV_GPU_TEMP":[{"type":"gauge","help":"GPU temperature (in C).","unit":""}]}}`},
	} {
		form, err := url.ParseQuery(tt.form)
		if err != nil {
			t.Fatal(err)
		}
		methods := []string{http.MethodGet, http.MethodPost}
		if tt.path == "metadata" {
			methods = methods[:1]
		}
		for _, method := range methods {
			if code, got := ask(t, method, root+"/api/v1/"+tt.path, form); code != 200 || got != tt.want {
				t.Errorf("%s %s?%s = %d\n%s\nwant\n%s", method, tt.path, tt.form, code, got, tt.want)
			}
		}
	}
}

func TestWrongQuestionsAreRefusedWithWhatIsWrong(t *testing.T) {
	root, _ := serve(t)
	for _, tt := range []struct {
		path, form string
		code       int
		want       string
	}{
		{"query", "", 400, "query is missing"},
		{"query", "query=sum(", 400, "parse error"},
		{"query", "query=" + strings.Repeat("(", 30000), 400, "at most 20000 are taken"},
		{"query", "query=" + strings.Repeat("(", 9000) + "1" + strings.Repeat(")", 9000), 200, ""},
		{"query", "query=up&time=soon", 400, `time=\"soon\" is not a time`},
		{"query", "query=up&time=NaN", 400, "is not a time"},
		{"query", `query=count_over_time({__name__=~".%2B"}[1d:1ms])`, 422, "too many samples"},
		{"query", `query=label_replace(up,"a","$1","b","(.*")`, 422, "invalid regular expression"},
		{"query_range", "query=up&start=0&end=1e9&step=1", 400, "11000 points"},
		{"query_range", "query=up&start=10&end=0&step=1", 400, "end is before start"},
		{"query_range", "query=up&start=0&end=10&step=0", 400, "must be above 0"},
		{"query_range", "query=up&start=0&end=10&step=NaN", 400, "step"},
		{"query_range", "query=up&start=0&step=1", 400, "end is missing"},
		{"query_range", "query=up[5m]&start=0&end=10&step=1", 400, "invalid expression type"},
		{"series", "", 400, "match[] is missing"},
		{"series", "match[]={}", 400, "at least one non-empty matcher"},
		{"labels", "limit=-1", 400, "limit"},
		{"targets", "", 404, "has a part of Prometheus' API"},
	} {
		form, err := url.ParseQuery(tt.form)
		if err != nil {
			t.Fatal(err)
		}
		code, got := ask(t, http.MethodGet, root+"/api/v1/"+tt.path, form)
		if code != tt.code || !strings.Contains(got, tt.want) {
			t.Errorf("%s?%.80s = %d %.300s; want %d and %q", tt.path, tt.form, code, got, tt.code, tt.want)
		}
		if code != 200 && !strings.Contains(got, `"status":"error"`) {
			t.Errorf("%s?%.80s is refused in another form: %.300s", tt.path, tt.form, got)
		}
	}
}

func TestRulesAndAlertsAreShown(t *testing.T) {
	root, _ := serve(t)
	var got struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, State, Health, Type string }
			}
			Alerts []struct {
				Labels, Annotations map[string]string
				State               string
			}
		}
	}
	_, text := ask(t, http.MethodGet, root+"/api/v1/rules", nil)
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for _, r := range got.Data.Groups[0].Rules {
		states[r.Name] = r.State
		if r.Health != "ok" {
			t.Errorf("rule %s is %s", r.Name, r.Health)
		}
	}
	if states["GPUHighTemperature"] != "firing" || states["GPUXidReset"] != "inactive" || len(states) != len(rules.Rules())+len(rules.Records()) {
		t.Errorf("states %v", states)
	}
	_, text = ask(t, http.MethodGet, root+"/api/v1/alerts", nil)
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if a := got.Data.Alerts; len(a) != 1 || a[0].State != "firing" || a[0].Annotations["summary"] != "GPU 3 of node-1 is at 90 °C" || a[0].Labels["severity"] != "warning" {
		t.Errorf("alerts %+v", a)
	}
	_, text = ask(t, http.MethodGet, root+"/api/v1/query", url.Values{"query": {`ALERTS{alertstate="firing"}`}})
	if !strings.Contains(text, `"alertname":"GPUHighTemperature"`) {
		t.Errorf("ALERTS is %s", text)
	}
}

func TestFederationIsReadAsItWasWritten(t *testing.T) {
	root, end := serve(t)
	_, text := ask(t, http.MethodGet, root+"/federate", url.Values{"match[]": {`{__name__=~"DCGM.*"}`}})
	s := store.New(store.Options{})
	other := scrape.New(s, scrape.Limits{}, time.Now)
	other.Take(end, &scrape.Target{Job: "berth", Instance: "b"}, []byte(text+"\n"), nil)
	if st := other.States()[0]; st.Err != nil || st.Series != 4 {
		t.Errorf("%+v of\n%s", st, text)
	}
	v, _, ok := s.Last(labels.FromStrings("__name__", "DCGM_FI_DEV_GPU_TEMP", "gpu", "3", "UUID", "GPU-3", "hostname", "node-1", "job", "berth", "instance", "b", "exported_job", "gpu-exporter", "exported_instance", "node-1:9400"))
	if !ok || v != 90 {
		t.Errorf("%v %v of\n%s", v, ok, text)
	}
}

// TestPromtoolAsks has Prometheus' own client ask, where there is one.
func TestPromtoolAsks(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: apt-get install prometheus), so only requests written by hand have been tried")
	}
	root, end := serve(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"query", "instant", "--time=" + end.Format(time.RFC3339), root, "max(DCGM_FI_DEV_GPU_TEMP)"}, "{} => 90 @[" + fmt.Sprint(end.Unix())},
		{[]string{"query", "range", "--start=" + began.Format(time.RFC3339), "--end=" + end.Format(time.RFC3339), "--step=10m", root, "max(DCGM_FI_DEV_GPU_TEMP)"}, "90 @[1793577600]"},
		{[]string{"query", "labels", root, "gpu"}, "0\n1\n2\n3"},
		{[]string{"query", "series", "--match=up", root}, `instance="node-1:9400"`},
	} {
		out, err := exec.Command(promtool, tt.args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("promtool %s: %v\n%s\nwant %s", strings.Join(tt.args, " "), err, out, tt.want)
		}
	}
}
