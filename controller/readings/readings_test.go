package readings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"berth.dev/berth/controller/proxy"
	"berth.dev/berth/metrics/rules"
)

// fake is a cluster with one node, whose GPU has a temperature.
type fake struct {
	temperature int
	fails       error
	own         string
	others      []proxy.Prometheus
	more        string   // of each exporter
	nodes       []string // with one; nil is n1
}

func (f *fake) Series(context.Context, time.Time) []byte { return []byte(f.own) }

func (f *fake) Exporters(context.Context) ([]string, func(context.Context, string) ([]byte, error), error) {
	nodes := f.nodes
	if nodes == nil {
		nodes = []string{"n1"}
	}
	return nodes, func(_ context.Context, node string) ([]byte, error) {
		return fmt.Appendf([]byte(f.more), "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-0\",hostname=%q} %d\nberth_gpu_held{UUID=\"GPU-0\"} 1\n", node, f.temperature), f.fails
	}, nil
}

func (f *fake) Prometheuses(context.Context) ([]proxy.Prometheus, error) { return f.others, nil }

// ask has the handler answer.
func ask(t *testing.T, r *Readings, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	r.Handler("/p/").ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/p/api/v1/"+path, nil))
	return strings.TrimSpace(w.Body.String())
}

func TestReadingsAndAlertsOutliveTheProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "readings")
	source := &fake{temperature: 90, own: "berth_gpu_held{UUID=\"GPU-0\",pod=\"a\"} 1\n"}
	r := New(t.Context(), Options{File: file}, source)
	at := r.store.Tick(time.Now().Add(-4 * time.Minute)) // a start after the last round is forgiven
	for i := range 12 {
		r.round(t.Context(), at.Add(time.Duration(i)*15*time.Second), true)
	}
	r.save(t.Context())
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}

	r = New(t.Context(), Options{File: file}, source)
	if got := ask(t, r, "query?query=max_over_time(DCGM_FI_DEV_GPU_TEMP[10m])"); !strings.Contains(got, `"90"`) {
		t.Errorf("after a start the readings are %s", got)
	}
	if got := ask(t, r, "query?query=count(berth_gpu_held)"); !strings.Contains(got, `"1"`) {
		t.Errorf("berth_gpu_held is that of the exporter too: %s", got)
	}
	now := at.Add(20 * 15 * time.Second)
	r.round(t.Context(), now, true) // 2:45 of the 5 minutes were seen before
	for i := range 8 {
		r.round(t.Context(), now.Add(time.Duration(i+1)*15*time.Second), true)
	}
	if a := r.alerts.Alerts(); len(a) != 1 || a[0].State != "pending" {
		t.Fatalf("alerts %v; want one that is pending", a)
	}
	r.round(t.Context(), now.Add(9*15*time.Second), true)
	if a := r.alerts.Alerts(); len(a) != 1 || a[0].State != "firing" {
		t.Errorf("alerts %v; want one that fires: the time before the start counts", a)
	}
}

func TestAFileThatCannotBeReadIsLeftOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "readings")
	if err := os.WriteFile(file, []byte("berth readings 1\nbut no more"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := New(t.Context(), Options{File: file}, &fake{own: "a 1\n"})
	r.round(t.Context(), r.store.Tick(time.Now()), true)
	r.save(t.Context())
	if r.saved != nil || r.store.Stats().Series == 0 {
		t.Errorf("%v, %+v", r.saved, r.store.Stats())
	}
}

func TestAFileThatCannotBeWrittenStopsNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "readings")
	r := New(t.Context(), Options{File: file}, &fake{own: "a 1\n"})
	r.round(t.Context(), r.store.Tick(time.Now()), true)
	r.save(t.Context())
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r.o.File = filepath.Join(file, "below", "a", "file")
	r.save(t.Context())
	if r.saved == nil {
		t.Error("no error of a folder that cannot be made")
	}
	r.o.File = file
	r.save(t.Context())
	left, _ := filepath.Glob(file + "*")
	if again, err := os.ReadFile(file); err != nil || len(again) != len(old) || len(left) != 1 || r.saved != nil {
		t.Errorf("%v, files %v, %v", err, left, r.saved)
	}
}

func TestAnExporterThatFailsIsDownAndTheRestGoesOn(t *testing.T) {
	source := &fake{temperature: 50, own: "a 1\n"}
	more := prometheus.NewRegistry()
	for _, name := range []string{"berth_scheduler_holds", "etcd_objects"} {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name})
		g.Set(3)
		more.MustRegister(g)
	}
	r := New(t.Context(), Options{More: more}, source)
	at := r.store.Tick(time.Now())
	source.fails = errors.New("stalls")
	r.round(t.Context(), at, true)
	for query, want := range map[string]string{
		`up{job="gpu-exporter"}`: `"0"]`, `up{job="berth"}`: `"1"]`, "a": `"1"]`, "berth_scheduler_holds": `"3"]`, "etcd_objects": `"result":[]`, "DCGM_FI_DEV_GPU_TEMP": `"result":[]`,
	} {
		if got := ask(t, r, "query?query="+query); !strings.Contains(got, want) {
			t.Errorf("%s is %s; want %s", query, got, want)
		}
	}
}

func TestAFullStoreKeepsWhatComesFirstAndSaysSo(t *testing.T) {
	own := strings.Builder{}
	own.WriteString("first 1\n")
	for i := range 60000 {
		fmt.Fprintf(&own, "many{i=\"%d\"} 1\n", i)
	}
	r := New(t.Context(), Options{}, &fake{temperature: 50, own: own.String()})
	at := r.store.Tick(time.Now())
	for i := range 3 {
		r.round(t.Context(), at.Add(time.Duration(i)*30*time.Second), true)
	}
	if got := r.store.Stats().Series; got != 50000 {
		t.Errorf("%d series are kept, want 50000", got)
	}
	for query, want := range map[string]string{`up{job="berth"}`: `"1"]`, "first": `"1"]`, `up{job="gpu-exporter"}`: `"1"]`} {
		if got := ask(t, r, "query?time="+at.Add(time.Minute).Format(time.RFC3339)+"&query="+query); !strings.Contains(got, want) {
			t.Errorf("%s is %s; want %s", query, got, want)
		}
	}
	if a := r.alerts.Alerts(); !slices.ContainsFunc(a, func(a rules.Alert) bool { return a.Rule.Name == "GPUReadingsFull" && a.State == rules.Firing }) {
		t.Errorf("alerts %v; want one that says that the store is full", a)
	}
}

func TestExportersLeaveRoomForBerthsOwn(t *testing.T) {
	exporter := strings.Builder{}
	for i := range 15000 {
		fmt.Fprintf(&exporter, "DCGM_FI_DEV_GPU_TEMP{gpu=\"%d\"} 50\n", i)
	}
	r := New(t.Context(), Options{}, &fake{own: "first 1\n", more: exporter.String(), nodes: []string{"n1", "n2", "n3"}})
	at := r.store.Tick(time.Now())
	r.round(t.Context(), at, true)
	for query, want := range map[string]string{"first": `"1"]`, "count(DCGM_FI_DEV_GPU_TEMP)": `"3`} {
		if got := ask(t, r, "query?query="+query); !strings.Contains(got, want) {
			t.Errorf("%s is %s; want %s", query, got, want)
		}
	}
	if got := r.store.Stats(); got.Series < 40000 || got.Series > 40200 || got.Refused < 4900 {
		t.Errorf("%d series are kept and %d samples left out, want those of exporters to take 40000", got.Series, got.Refused)
	}
}

func TestAReceiverHearsWhatFiresAndWhatEnds(t *testing.T) {
	heard := make(chan map[string]any, 10)
	refuse := true
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var m map[string]any
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Error(err)
		}
		if refuse {
			refuse = false
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		heard <- m
	}))
	defer receiver.Close()
	source := &fake{temperature: 90, own: "a 1\n"}
	r := New(t.Context(), Options{}, source)
	r.sender = rules.NewSender(receiver.URL, nil, time.Millisecond)
	go r.sender.Run(t.Context())
	at := r.store.Tick(time.Now())
	for i := range 21 {
		r.round(t.Context(), at.Add(time.Duration(i)*15*time.Second), true)
	}
	status := func() (string, string) {
		m := <-heard
		a := m["alerts"].([]any)[0].(map[string]any)
		return m["status"].(string), a["labels"].(map[string]any)["alertname"].(string)
	}
	for i := range 2 { // it is sent again, as it was refused
		if s, name := status(); s != "firing" || name != "GPUHighTemperature" {
			t.Errorf("%d: heard %s %s", i, s, name)
		}
	}
	source.temperature = 50
	r.round(t.Context(), at.Add(22*15*time.Second), true)
	if s, name := status(); s != "resolved" || name != "GPUHighTemperature" {
		t.Errorf("heard %s %s", s, name)
	}
}
