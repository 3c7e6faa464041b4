package remote

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sys/unix"

	"berth.dev/berth/metrics/rules"
	"berth.dev/berth/metrics/scrape"
	"berth.dev/berth/metrics/store"
	"berth.dev/berth/metrics/web"
)

// elsewhere is the environment variable with which the program of the tests is a Prometheus, so its CPU is not that of the benchmark.
const elsewhere = "BERTH_BENCH_PROMETHEUS"

const (
	roundsBefore = 120 // of 30 seconds, that the Prometheus has when the first round is evaluated
	roundsMost   = 120 // that can be evaluated
)

// readings are those of each GPU that a Prometheus has.
var readings = []string{
	"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_XID_ERRORS",
	"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
}

// TestBeAPrometheus serves what a Prometheus has of 1,000 GPUs until its input ends. It is a part of BenchmarkRoundBeside.
func TestBeAPrometheus(t *testing.T) {
	if os.Getenv(elsewhere) == "" {
		t.Skip("this is a part of BenchmarkRoundBeside")
	}
	s := store.New(store.Options{})
	var batch []store.Sample
	add := func(v float64, pairs ...string) {
		r, _ := s.Series(labels.FromStrings(pairs...))
		batch = append(batch, store.Sample{Series: r, Value: v})
	}
	for gpu := range 1000 {
		target := []string{"job", "dcgm", "instance", fmt.Sprintf("10.0.0.%d:9400", gpu/8), "namespace", "gpu-operator", "pod", fmt.Sprint("dcgm-", gpu/8), "container", "exporter", "endpoint", "metrics", "service", "dcgm"}
		if gpu%8 == 0 {
			add(1, append([]string{"__name__", "up"}, target...)...)
		}
		for _, name := range readings {
			v := 0.5 + float64(gpu%80)
			switch {
			case strings.Contains(name, "REMAP"):
				v = 0 // the GPUs are well
			case strings.Contains(name, "FB_FREE"):
				v = 30_000
			}
			own := []string{
				"__name__", name, "UUID", fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", gpu), "pci_bus_id", fmt.Sprintf("00000000:%02d:00.0", gpu%8), "device", fmt.Sprint("nvidia", gpu%8),
				"modelName", "NVIDIA A100-SXM4-80GB", "DCGM_FI_DRIVER_VERSION", "570.172.08", "gpu", fmt.Sprint(gpu % 8), "Hostname", fmt.Sprint("n", gpu/8),
				"exported_namespace", "ml", "exported_pod", fmt.Sprint("p", gpu), "exported_container", "main",
			}
			add(v, append(own, target...)...)
		}
	}
	for i := range 2 * (roundsBefore + roundsMost) {
		s.Append(start.Add(time.Duration(i)*15*time.Second), batch)
	}
	api := &web.Server{Engine: web.NewEngine(), Data: s, Now: func() time.Time { return start }, Names: func() map[string]scrape.Metadata { return nil }, Rules: rules.NewEvaluator(web.NewEngine(), s, nil)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("http://" + l.Addr().String())
	h := api.Handler("/")
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:errcheck,gosec // until the process ends
		w.Header().Set("Content-Encoding", "gzip") // as a Prometheus does
		z := gzip.NewWriter(w)
		defer z.Close() //nolint:errcheck // a benchmark reports no error of it
		h.ServeHTTP(zipped{w, z}, r)
	}))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

type zipped struct {
	http.ResponseWriter
	to io.Writer
}

func (z zipped) Write(b []byte) (int, error) { return z.to.Write(b) }

// startElsewhere starts that process.
func startElsewhere(b *testing.B) Ask {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestBeAPrometheus$", "-test.v")
	cmd.Env = append(os.Environ(), elsewhere+"=yes")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	var root string
	for lines := bufio.NewScanner(out); root == "" && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "http://") {
			root = lines.Text()
		}
	}
	return func(ctx context.Context, path string, params url.Values) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, root+"/"+path+"?"+params.Encode(), nil)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(string(raw))
		}
		return raw, err
	}
}

// BenchmarkRoundBeside is a round of all rules over 1,000 GPUs, all of them held, whose 12 readings a Prometheus has: the CPU of the process that asks.
func BenchmarkRoundBeside(b *testing.B) {
	ask := startElsewhere(b)
	s := store.New(store.Options{})
	var batch []store.Sample
	add := func(v float64, name string, pairs ...string) {
		r, _ := s.Series(labels.FromStrings(append(pairs, "__name__", name)...))
		batch = append(batch, store.Sample{Series: r, Value: v})
	}
	wanted := map[string]Devices{}
	for i := range 1000 {
		gpu, uuid, node, pod := fmt.Sprint(i%8), fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", i), fmt.Sprint("n", i/8), fmt.Sprint("p", i)
		add(1, "berth_gpu_held", "node", node, "gpu", gpu, "UUID", uuid, "namespace", "ml", "pod", pod, "kind", "Job", "workload", pod, "user", "ada", "queue", "ml")
		add(80<<30, "berth_gpu_memory_bytes", "node", node, "gpu", gpu, "UUID", uuid)
		if i%8 == 0 {
			wanted[node+":9400"] = Devices{}
			add(8, "berth_node_gpu_devices", "node", node, "kind", "capacity")
			add(8, "berth_node_gpu_devices", "node", node, "kind", "allocatable")
			for _, state := range []string{"labeled", "present", "held", "free", "unhealthy"} {
				add(map[string]float64{"labeled": 8, "present": 8, "held": 8}[state], "berth_node_gpus", "node", node, "state", state)
			}
		}
		wanted[node+":9400"][uuid] = len(readings)
	}
	asked, bytes := 0, 0
	p := New("bench", func(ctx context.Context, path string, params url.Values) ([]byte, error) {
		raw, err := ask(ctx, path, params)
		asked, bytes = asked+1, bytes+len(raw)
		return raw, err
	}, Options{Job: "gpu-exporter", Own: []string{"gpu-exporter", "berth"}, Drop: []string{"berth_gpu_held"}})
	at := start.Add((roundsBefore - 1) * 30 * time.Second)
	if reads, err := p.Look(b.Context(), at, wanted); err != nil || len(reads) != 125 {
		b.Fatalf("it reads %d, %v", len(reads), err)
	}
	e := rules.NewEvaluator(web.NewEngine(), s, rules.Rules())
	e.Ask(&Both{Store: s, Other: func() *Prometheus { return p }, Failed: func(err error) { b.Error(err) }, Again: true})
	round := func() {
		at = at.Add(30 * time.Second)
		s.Append(at, batch)
		e.Evaluate(context.Background(), at)
	}
	for range 40 {
		round() // the first ones learn labels, and give what is idle for ten minutes
	}
	asked, bytes = 0, 0
	var all, most time.Duration
	n := 0
	for b.Loop() {
		before := cpu(b)
		round()
		took := cpu(b) - before
		all, most = all+took, max(most, took)
		n++
	}
	b.ReportMetric(float64(all.Microseconds())/1e3/float64(n), "cpu-ms/op")
	b.ReportMetric(float64(most.Microseconds())/1e3, "most-cpu-ms") // when more of an hour is read again
	b.ReportMetric(float64(asked)/float64(n), "requests/op")
	b.ReportMetric(float64(bytes)/float64(n), "bytes/op")
	for name, err := range e.Last().Errs {
		b.Errorf("%s: %v", name, err)
	}
	if got := e.Alerts(); len(got) != 0 {
		b.Errorf("%d alerts, such as %v", len(got), got[0].Labels)
	}
}

// cpu is the CPU that the process has taken.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
