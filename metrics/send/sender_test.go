package send

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"berth.dev/berth/metrics/store"
)

// receiver answers requests in the clock of the test, and keeps what it has taken.
type receiver struct {
	answer func(n int) *http.Response // the n-th, from 1; nil is that nothing answers
	mu     sync.Mutex
	n      int
	at     []time.Time
	bodies [][]byte // of what was taken
	header http.Header
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	r.at = append(r.at, time.Now())
	r.header = req.Header
	resp := r.answer(r.n)
	if resp == nil {
		return nil, errors.New("connection refused")
	}
	if resp.StatusCode < 300 {
		r.bodies = append(r.bodies, body)
	}
	return resp, nil
}

func status(code int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// world is a store, a sender that follows it, and what the sender logs.
type world struct {
	*Sender
	store *store.Store
	to    *receiver
	mu    sync.Mutex
	logs  []string
}

func (w *world) log(text string, err error, pairs ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs = append(w.logs, fmt.Sprintln(text, err, pairs))
}

func (w *world) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.logs, "")
}

func begin(t *testing.T, address string, otlp bool, answer func(n int) *http.Response) *world {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{store: store.New(store.Options{}), to: &receiver{answer: answer}}
	w.Sender = RemoteWrite(u, nil, w.log)
	if otlp {
		w.Sender = OTLP(u, nil, func(name string) bool { return strings.HasSuffix(name, "_total") }, w.log)
	}
	w.client.Transport = w.to
	w.store.Follow(w.Put)
	go w.Run(t.Context())
	return w
}

// give adds a sample of each series to the store.
func (w *world) give(t *testing.T, at time.Time, v float64, series ...labels.Labels) {
	t.Helper()
	var batch []store.Sample
	for _, ls := range series {
		s, ok := w.store.Series(ls)
		if !ok {
			t.Fatal("no room")
		}
		batch = append(batch, store.Sample{Series: s, Value: v})
	}
	w.store.Append(at, batch)
}

// counts are the metrics of a sender.
func (w *world) counts(t *testing.T) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(Senders{w.Sender, newSender(remoteWrite{}, &url.URL{Scheme: "http", Host: "there", Path: "/write"}, nil, nil)})
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

var (
	temperature = labels.FromStrings("__name__", "DCGM_FI_DEV_GPU_TEMP", "job", "gpu-exporter", "instance", "n1:9400", "gpu", "0")
	cost        = labels.FromStrings("__name__", "berth_cost_usd_total", "job", "berth", "instance", "meter", "namespace", "ml")
)

func well(int) *http.Response { return status(http.StatusNoContent, "") }

func TestRemoteWriteHasAllSamplesWithTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, "http://reader:secret@there:9090/api/v1/write?token=hidden", false, well)
		at := w.store.Tick(time.Now())
		w.give(t, at, 60, temperature, cost)
		synctest.Wait()
		w.give(t, at, 61, temperature) // late: the store does not take it
		w.give(t, at.Add(15*time.Second), store.Stale(), temperature)
		synctest.Wait()
		got := map[string][]prompb.Sample{}
		for _, body := range w.to.bodies {
			raw, err := snappy.Decode(nil, body)
			if err != nil {
				t.Fatal(err)
			}
			var req prompb.WriteRequest
			if err := req.Unmarshal(raw); err != nil {
				t.Fatal(err)
			}
			for _, s := range req.Timeseries {
				b := labels.NewScratchBuilder(0)
				name := s.ToLabels(&b, nil).String()
				got[name] = append(got[name], s.Samples...)
			}
		}
		of := got[temperature.String()]
		if len(of) != 2 || of[0].Value != 60 || of[0].Timestamp != at.UnixMilli() || math.Float64bits(of[1].Value) != math.Float64bits(store.Stale()) || of[1].Timestamp != at.UnixMilli()+15000 {
			t.Errorf("of the temperature it has %v", of)
		}
		if of := got[cost.String()]; len(of) != 1 || len(got) != 2 {
			t.Errorf("the receiver has %v", got)
		}
		for name, want := range map[string]string{"Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0", "Content-Type": "application/x-protobuf"} {
			if w.to.header.Get(name) != want {
				t.Errorf("header %s is %q", name, w.to.header.Get(name))
			}
		}
		if text := w.counts(t); !strings.Contains(text, `berth_readings_sent_total{to="http://there:9090/api/v1/write"} 3`) || !strings.Contains(text, `why="refused"} 0`) {
			t.Errorf("it counts %s", text)
		}
	})
}

func TestOTLPHasResourcesSumsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, "http://collector:4318", true, well)
		if w.url != "http://collector:4318/v1/metrics" {
			t.Errorf("it sends to %s", w.url)
		}
		at := w.store.Tick(time.Now())
		w.give(t, at, 60, temperature, cost)
		synctest.Wait()
		w.give(t, at.Add(15*time.Second), store.Stale(), temperature)
		synctest.Wait()
		var first, second collector.ExportMetricsServiceRequest
		if err := errors.Join(proto.Unmarshal(w.to.bodies[0], &first), proto.Unmarshal(w.to.bodies[1], &second)); err != nil {
			t.Fatal(err)
		}
		if len(first.ResourceMetrics) != 2 {
			t.Fatalf("the receiver has %v", &first)
		}
		berth, gpu := first.ResourceMetrics[0], first.ResourceMetrics[1]
		sum := berth.ScopeMetrics[0].Metrics[0].GetSum()
		if berth.Resource.Attributes[0].Value.GetStringValue() != "berth" || !sum.GetIsMonotonic() || sum.DataPoints[0].GetAsDouble() != 60 || sum.DataPoints[0].Attributes[0].Key != "namespace" {
			t.Errorf("the counter is %v", berth)
		}
		one := gpu.ScopeMetrics[0].Metrics[0].GetGauge().GetDataPoints()[0]
		if gpu.Resource.Attributes[1].Value.GetStringValue() != "n1:9400" || one.TimeUnixNano != uint64(at.UnixNano()) || len(one.Attributes) != 1 {
			t.Errorf("the gauge is %v", gpu)
		}
		if end := second.ResourceMetrics[0].ScopeMetrics[0].Metrics[0].GetGauge().GetDataPoints()[0]; end.Flags != 1 || end.Value != nil {
			t.Errorf("its end is %v", end)
		}
	})
}

func TestWhatIsNotTakenIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, "http://reader:secret@there/write", false, func(n int) *http.Response {
			switch n {
			case 1:
				return status(http.StatusInternalServerError, "not now")
			case 2:
				return status(http.StatusTooManyRequests, "", "Retry-After", "40")
			case 3:
				return nil
			}
			return well(n)
		})
		w.give(t, w.store.Tick(time.Now()), 60, temperature)
		began := time.Now()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		var waits []time.Duration
		for i := 1; i < len(w.to.at); i++ {
			waits = append(waits, w.to.at[i].Sub(w.to.at[i-1]))
		}
		if fmt.Sprint(waits) != "[1s 40s 4s]" || w.to.at[0] != began {
			t.Errorf("the sender waits for %v", waits)
		}
		said := w.said()
		if w.sent.Load() != 1 || w.refusals.Load() != 0 || strings.Count(said, "\n") != 2 || !strings.Contains(said, "500 Internal Server Error: not now") || !strings.Contains(said, "taken again") || strings.Contains(said, "secret") {
			t.Errorf("sent %d, dropped %d, said %s", w.sent.Load(), w.refusals.Load(), said)
		}
	})
}

func TestWaitsEndWithTheirBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, "http://there/write", false, func(int) *http.Response { return nil })
		w.give(t, w.store.Tick(time.Now()), 60, temperature)
		time.Sleep(time.Hour)
		synctest.Wait()
		last := len(w.to.at) - 1
		if got := w.to.at[last].Sub(w.to.at[last-1]); got != longest || last > 70 {
			t.Errorf("after an hour there were %d requests, the last after %v", last+1, got)
		}
	})
}

func TestWhatIsRefusedIsDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, code := range []int{http.StatusBadRequest, http.StatusNotFound, http.StatusMovedPermanently} {
			w := begin(t, "http://there/write", false, func(n int) *http.Response {
				if n == 1 {
					return status(code, "out of order sample\nand more", "Location", "http://elsewhere/")
				}
				return well(n)
			})
			at := w.store.Tick(time.Now())
			w.give(t, at, 60, temperature)
			synctest.Wait()
			w.give(t, at.Add(15*time.Second), 61, temperature)
			synctest.Wait()
			if w.refusals.Load() != 1 || w.sent.Load() != 1 || w.to.n != 2 || !strings.Contains(w.said(), "out of order sample") {
				t.Errorf("%d: sent %d, dropped %d in %d requests, said %s", code, w.sent.Load(), w.refusals.Load(), w.to.n, w.said())
			}
		}
	})
}

func TestOTLPMayTakeAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw, err := proto.Marshal(&collector.ExportMetricsServiceResponse{PartialSuccess: &collector.ExportMetricsPartialSuccess{RejectedDataPoints: 1, ErrorMessage: "too old"}})
		if err != nil {
			t.Fatal(err)
		}
		w := begin(t, "http://there/", true, func(int) *http.Response { return status(http.StatusOK, string(raw)) })
		w.give(t, w.store.Tick(time.Now()), 60, temperature, cost)
		synctest.Wait()
		if w.sent.Load() != 1 || w.refusals.Load() != 1 || !strings.Contains(w.said(), "too old") {
			t.Errorf("sent %d, dropped %d, said %s", w.sent.Load(), w.refusals.Load(), w.said())
		}
	})
}

func TestAQueueThatIsFullDropsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		w := begin(t, "http://there/write", false, func(n int) *http.Response {
			if n == 1 {
				return nil
			}
			<-hold
			return well(n)
		})
		w.queue.most = 3
		at := w.store.Tick(time.Now())
		for i := range 6 { // the first is in the request that fails, and three fit
			w.give(t, at.Add(time.Duration(i)*15*time.Second), float64(i), temperature)
			synctest.Wait()
		}
		if w.full.Load() != 2 || w.queue.len() != 3 {
			t.Errorf("%d were dropped, and %d wait", w.full.Load(), w.queue.len())
		}
		close(hold)
		time.Sleep(time.Minute)
		synctest.Wait()
		if text := w.counts(t); !strings.Contains(text, `sent_total{to="http://there/write"} 4`) || !strings.Contains(text, `why="full"} 2`) || !strings.Contains(text, "unsent{to=\"http://there/write\"} 0") {
			t.Errorf("it counts %s", text)
		}
		if !strings.Contains(w.said(), "samples 2") {
			t.Errorf("it says %s", w.said())
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "-3": 0, "soon": 0, "Fri, 27 Nov 2026 12:02:00 GMT": 2 * time.Minute, "Fri, 27 Nov 2026 11:00:00 GMT": 0, "9999999999": 24 * time.Hour} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("Retry-After: %s is %v; want %v", text, got, want)
		}
	}
}

func TestASenderEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		u := &url.URL{Scheme: "http", Host: "there"}
		s := RemoteWrite(u, nil, func(string, error, ...any) {})
		s.client.Transport = &receiver{answer: func(int) *http.Response { return nil }}
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		s.Put(time.Now(), make([]store.Sample, 0))
		synctest.Wait()
		stop()
		<-done
	})
}
