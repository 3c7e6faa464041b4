package readings

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"berth.dev/berth/controller/proxy"
	"berth.dev/berth/metrics/rules"
	"berth.dev/berth/metrics/scrape"
	"berth.dev/berth/metrics/store"
	"berth.dev/berth/metrics/web"
)

// other is a Prometheus that has read the temperature of the GPU of n1 and puts other labels on it.
type other struct {
	store *store.Store
	mu    sync.Mutex
	fails error
	hangs bool
	now   time.Time
}

func newOther() *other { return &other{store: store.New(store.Options{})} }

// read adds what the exporter says at a moment.
func (o *other) read(t *testing.T, at time.Time, temperature float64) {
	t.Helper()
	o.now = at
	var batch []store.Sample
	for name, v := range map[string]float64{"DCGM_FI_DEV_GPU_TEMP": temperature, "up": 1} {
		b := labels.NewBuilder(labels.FromStrings("__name__", name, "job", "dcgm", "instance", "10.0.0.1:9400", "pod", "dcgm-x", "namespace", "gpu-operator"))
		if name != "up" {
			b.Set("gpu", "0").Set("UUID", "GPU-0").Set("hostname", "n1")
		}
		s, ok := o.store.Series(b.Labels())
		if !ok {
			t.Fatal("no room")
		}
		batch = append(batch, store.Sample{Series: s, Value: v})
	}
	o.store.Append(at, batch)
}

// set has it fail, or hang until those who ask have had enough.
func (o *other) set(fails error, hangs bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fails, o.hangs = fails, hangs
}

func (o *other) found(name string) proxy.Prometheus {
	s := &web.Server{Engine: web.NewEngine(), Data: o.store, Now: func() time.Time { return o.now }, Names: func() map[string]scrape.Metadata { return nil }, Rules: rules.NewEvaluator(web.NewEngine(), o.store, nil)}
	h := s.Handler("/")
	return proxy.Prometheus{Name: name, Get: func(ctx context.Context, path string, params url.Values) ([]byte, error) {
		o.mu.Lock()
		fails, hangs := o.fails, o.hangs
		o.mu.Unlock()
		if hangs {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if fails != nil {
			return nil, fails
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+path+"?"+params.Encode(), nil))
		if w.Code != http.StatusOK {
			return nil, errors.New(w.Body.String())
		}
		return w.Body.Bytes(), nil
	}}
}

func TestAPrometheusThatReadsTheExportersIsAsked(t *testing.T) {
	o := newOther()
	source := &fake{temperature: 90, own: "berth_gpu_held{UUID=\"GPU-0\",pod=\"a\"} 1\n", others: []proxy.Prometheus{newOther().found("a/empty"), o.found("monitoring/prometheus-0")}}
	r := New(t.Context(), Options{Outside: Outside{Prometheus: FindPrometheus}}, source)
	r.evaluation = time.Minute
	first := r.store.Tick(time.Now()).Add(-20 * time.Minute)
	tick := func(i int) time.Time { return first.Add(time.Duration(i) * 15 * time.Second) }
	counts := func() (out string) {
		for _, by := range []string{"berth", "prometheus"} {
			got := ask(t, r, "query?time="+r.store.Tick(o.now).Format(time.RFC3339)+"&query=berth_readings_exporters%7Bby=%22"+by+"%22%7D")
			v := got[strings.LastIndex(got, `,"`)+2:]
			out += by + " " + v[:1] + " "
		}
		return out
	}
	round := func(i int) {
		o.now = tick(i)
		r.round(t.Context(), tick(i), true)
	}
	temperature := func(i int) string {
		return ask(t, r, "query?query=DCGM_FI_DEV_GPU_TEMP&time="+tick(i).Format(time.RFC3339))
	}

	round(0)
	select {
	case <-r.beside.kick:
	default:
		t.Fatal("a look is not asked for when exporters are read for the first time")
	}
	r.beside.look(t.Context(), tick(0))
	round(1)
	if got := counts(); got != "berth 1 prometheus 0 " || r.beside.now() != nil {
		t.Errorf("before it reads the exporter they are read by %s", got)
	}

	// It reads the exporter: then Berth does not, and the alert goes on with what the other has.
	o.read(t, tick(1), 91)
	r.beside.look(t.Context(), tick(1))
	source.fails = errors.New("the exporter is read, and should not be")
	for i := 2; i < 24; i++ {
		o.read(t, tick(i), 92)
		round(i)
	}
	if states := r.reader.States(); len(states) != 1 || states[0].Job != OwnJob {
		t.Errorf("read are %+v", states)
	}
	if got := temperature(23); strings.Count(got, `"metric"`) != 1 || !strings.Contains(got, `"92"`) || !strings.Contains(got, `"instance":"n1:9400"`) || strings.Contains(got, "dcgm-x") {
		t.Errorf("the temperature is %s", got)
	}
	if got := counts(); got != "berth 0 prometheus 1 " {
		t.Errorf("exporters are read by %s", got)
	}
	if a := r.alerts.Alerts(); len(a) != 1 || a[0].State != rules.Firing || a[0].Rule.Name != "GPUHighTemperature" {
		t.Errorf("alerts %v; want one that fires, for 5 minutes of both", a)
	}

	// It goes. The alert stays as it was, and the exporter is read again.
	o.set(errors.New("connection refused"), false)
	round(24)
	if a := r.alerts.Alerts(); len(a) != 1 || a[0].State != rules.Firing {
		t.Errorf("alerts %v; want the one there was", a)
	}
	select {
	case <-r.beside.kick:
	default:
		t.Fatal("a look is not asked for when it does not answer")
	}
	r.beside.look(t.Context(), tick(24))
	source.fails, source.temperature = nil, 93
	round(26)
	if got := temperature(26); strings.Count(got, `"metric"`) != 1 || !strings.Contains(got, `"93"`) || !strings.Contains(got, "connection refused") {
		t.Errorf("without it the temperature is %s", got)
	}
	if a := r.alerts.Alerts(); len(a) != 1 || a[0].State != rules.Firing {
		t.Errorf("alerts %v; want the one there was", a)
	}

	// It comes back.
	o.set(nil, false)
	o.read(t, tick(27), 94)
	r.beside.look(t.Context(), tick(27))
	source.fails = errors.New("the exporter is read, and should not be")
	round(28)
	if got := temperature(28); strings.Count(got, `"metric"`) != 1 || !strings.Contains(got, `"94"`) || strings.Contains(got, "warnings") {
		t.Errorf("when it is back the temperature is %s", got)
	}
	if got := ask(t, r, "query?query=count_over_time(DCGM_FI_DEV_GPU_TEMP[10m])&time="+tick(28).Format(time.RFC3339)); strings.Count(got, `"metric"`) != 1 || !strings.Contains(got, `"29"`) {
		t.Errorf("of 29 ticks both have %s", got)
	}
}

func TestOneThatHangsDelaysNoRound(t *testing.T) {
	o := newOther()
	source := &fake{temperature: 60, own: "a 1\n", others: []proxy.Prometheus{o.found("monitoring/prometheus-0")}}
	r := New(t.Context(), Options{Outside: Outside{Prometheus: FindPrometheus}}, source)
	r.evaluation = 100 * time.Millisecond
	at := r.store.Tick(time.Now())
	r.round(t.Context(), at, true)
	o.read(t, at, 60)
	r.beside.look(t.Context(), at)
	if !r.beside.has("n1:9400") {
		t.Fatal("the Prometheus is not used")
	}
	o.set(nil, true)
	began := time.Now()
	r.round(t.Context(), at.Add(30*time.Second), true)
	if took := time.Since(began); took < r.evaluation || took > time.Minute { // each of a dozen questions would wait for 10 seconds
		t.Errorf("a round takes %v", took)
	}
	if got := ask(t, r, "query?query=a&time="+at.Add(30*time.Second).Format(time.RFC3339)); !strings.Contains(got, `"1"]`) {
		t.Errorf("own series are %s", got)
	}
}

// receives is a server that takes nothing until it is opened, and counts what it has taken then.
func receives(t *testing.T) (address string, open func(), taken func() int) {
	t.Helper()
	closed, n := make(chan struct{}), make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-closed:
			n <- struct{}{}
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() { close(closed) }, func() int { <-n; return 1 + len(n) }
}

func TestReceiversThatHangDelayNoRound(t *testing.T) {
	write, openWrite, writes := receives(t)
	collect, openCollect, collects := receives(t)
	source := &fake{temperature: 60, own: "a 1\n"}
	r := New(t.Context(), Options{Outside: Outside{RemoteWrite: []string{write + "/write", write + "/write"}, OTLP: []string{collect}}}, source)
	for _, s := range r.out {
		go s.Run(t.Context())
	}
	at := r.store.Tick(time.Now())
	for i := range 3 { // while both have a request that they do not answer
		r.round(t.Context(), at.Add(time.Duration(i+2)*15*time.Second), true)
	}
	if got := ask(t, r, "query?query=DCGM_FI_DEV_GPU_TEMP&time="+at.Add(time.Minute).Format(time.RFC3339)); !strings.Contains(got, `"60"`) {
		t.Errorf("the temperature is %s", got)
	}
	openWrite()
	openCollect()
	if writes() == 0 || collects() == 0 {
		t.Error("nothing is sent")
	}
	r.round(t.Context(), at.Add(90*time.Second), true)
	if got := ask(t, r, "query?query=berth_readings_sent_total&time="+at.Add(90*time.Second).Format(time.RFC3339)); strings.Count(got, `"to"`) != 2 {
		t.Errorf("sent are %s", got)
	}
}
