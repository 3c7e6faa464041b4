package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/test/machine"
)

// What the agent's node is like, and how often things are measured.
const (
	agentGPUs     = "gpus:\n- product: NVIDIA H100 80GB HBM3\n  count: 8\n  mig: [1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb]\n"
	agentResource = "nvidia.com/mig-1g.10gb"
	agentNode     = "measured"
	scrapes       = 40
	allocates     = 5000
	restarts      = 20
)

// agentUnderTest is a running node agent.
type agentUnderTest struct {
	cmd     *exec.Cmd
	log     string
	metrics string
	fields  string // the metrics file, which is not there at first
}

// benchAgent measures the node agent beside a control plane and a kubelet's side of
// the device plugin protocol, with GPUs that do not exist.
func benchAgent(ctx context.Context, r *report, dir string) (err error) {
	p, err := up(dir+"-plane", "none")
	if err != nil {
		return err
	}
	defer func() {
		_, e := p.down(true)
		err = errors.Join(err, e)
	}()
	client, err := connect(p.Kubeconfig)
	if err != nil {
		return err
	}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: agentNode}}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	k, err := startKubelet(filepath.Join(dir, "kubelet", "device-plugins"))
	if err != nil {
		return err
	}
	defer k.stop()
	a, err := startAgent(dir, p.Kubeconfig)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.end()) }()
	if err := k.await(ctx, agentResource, 56); err != nil {
		return fmt.Errorf("%w; the agent says: %s", err, a.tail())
	}
	if _, err := a.measureScrapes(ctx, r, 0); err != nil {
		return err
	}
	held, err := serveHolders(filepath.Join(dir, "kubelet"), agentResource, k.offered(agentResource))
	if err != nil {
		return err
	}
	defer held.stop()
	if err := held.start(ctx, client, k); err != nil {
		return fmt.Errorf("%w; the agent says: %s", err, a.tail())
	}
	plain, err := a.measureScrapes(ctx, r, 56)
	if err != nil {
		return err
	}
	if err := a.measureRest(ctx, r); err != nil {
		return err
	}
	if err := a.measureAllFields(ctx, r, plain); err != nil {
		return err
	}
	if err := measureAllocate(ctx, r, k); err != nil {
		return err
	}
	return measureRestarts(ctx, r, k)
}

func startAgent(dir, kubeconfig string) (*agentUnderTest, error) {
	gpus := filepath.Join(dir, "gpus.yaml")
	if err := os.WriteFile(gpus, []byte(agentGPUs), 0o600); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	a := &agentUnderTest{log: filepath.Join(dir, "agent.log"), metrics: "http://" + port + "/metrics", fields: filepath.Join(dir, "fields.csv")}
	out, err := os.Create(a.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	a.cmd = exec.Command(filepath.Join(filepath.Dir(program()), "berth-agent"), "--fake", gpus, "--node-name", agentNode,
		"--kubeconfig", kubeconfig, "--kubelet-dir", filepath.Join(dir, "kubelet"), "--cdi-dir", filepath.Join(dir, "cdi"),
		"--mig-strategy", "mixed", "--listen", port, "--metrics-file", a.fields)
	a.cmd.Stdout, a.cmd.Stderr = out, out
	if err := a.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w; `make agent` builds it", err)
	}
	return a, nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

// end stops the agent as a DaemonSet's pod is stopped.
func (a *agentUnderTest) end() error {
	_ = a.cmd.Process.Signal(os.Interrupt)
	if err := a.cmd.Wait(); err != nil {
		return fmt.Errorf("the agent ended badly: %w: %s", err, a.tail())
	}
	return nil
}

func (a *agentUnderTest) tail() string {
	raw, _ := os.ReadFile(a.log)
	return string(raw[max(0, len(raw)-1500):])
}

// processes are the agent and its child, which any thread of it may have begun.
func (a *agentUnderTest) processes() ([]int, error) {
	pid := a.cmd.Process.Pid
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	out := []int{pid}
	for _, list := range lists {
		raw, err := os.ReadFile(list)
		if err != nil {
			return nil, err
		}
		for f := range strings.FieldsSeq(string(raw)) {
			child, err := strconv.Atoi(f)
			if err != nil {
				return nil, err
			}
			out = append(out, child)
		}
	}
	if len(out) != 2 {
		return nil, fmt.Errorf("the agent has %d children, not one", len(out)-1)
	}
	return out, nil
}

// used is the CPU time and the resident memory of both.
func (a *agentUnderTest) used() (d time.Duration, mb float64, err error) {
	all, err := a.processes()
	if err != nil {
		return 0, 0, err
	}
	for _, pid := range all {
		c, err := machine.ProcessCPU(pid)
		if err != nil {
			return 0, 0, err
		}
		m, err := memory(pid)
		if err != nil {
			return 0, 0, err
		}
		d, mb = d+c, mb+m
	}
	return d, mb, nil
}

// page scrapes once.
func (a *agentUnderTest) page(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.metrics, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s, %d bytes", a.metrics, res.Status, len(text))
	}
	return string(text), err
}

// scrape scrapes once: 56 MIG devices, of which so many are of a pod.
func (a *agentUnderTest) scrape(ctx context.Context, held int) error {
	text, err := a.page(ctx)
	if err != nil {
		return err
	}
	series, pods := 0, 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "DCGM_FI_DEV_FB_USED{") {
			series++
			if strings.Contains(line, `pod="notebook-`) {
				pods++
			}
		}
	}
	if series < 56 || pods != held {
		return fmt.Errorf("GET %s has %d series of DCGM_FI_DEV_FB_USED, %d with a pod, not 56 and %d", a.metrics, series, pods, held)
	}
	return nil
}

// measureScrapes scrapes a little over once a second: a scrape that is younger than a
// second is given again.
func (a *agentUnderTest) measureScrapes(ctx context.Context, r *report, held int) (ms float64, err error) {
	if ms, err = a.scrapeOften(ctx, held); err != nil {
		return 0, err
	}
	f := figure{
		what: "CPU of a scrape, 8 GPUs with 56 MIG devices", values: []float64{ms}, unit: "ms", aim: 5,
		how: fmt.Sprintf("of agent and child, %d scrapes, 1.1 s apart", scrapes),
	}
	if held > 0 {
		f.what += ", each of another pod"
		f.how += "; a kubelet's pod-resources API names the pods, and the agent's table"
	}
	r.add(f)
	return ms, nil
}

// scrapeOften returns the CPU of a scrape in ms.
func (a *agentUnderTest) scrapeOften(ctx context.Context, held int) (float64, error) {
	before, _, err := a.used()
	if err != nil {
		return 0, err
	}
	for range scrapes {
		if err := a.scrape(ctx, held); err != nil {
			return 0, err
		}
		if err := pause(ctx, 1100*time.Millisecond); err != nil {
			return 0, err
		}
	}
	after, _, err := a.used()
	return float64((after - before).Microseconds()) / 1000 / scrapes, err
}

// measureAllFields asks for every field of DCGM that is served, and says what they add
// to a scrape of the default ones.
func (a *agentUnderTest) measureAllFields(ctx context.Context, r *report, plain float64) error {
	text, byDefault, onRequest, err := everyField()
	if err != nil {
		return err
	}
	if err := os.WriteFile(a.fields, []byte(text), 0o600); err != nil {
		return err
	}
	if err := pause(ctx, 3*time.Second); err != nil { // the agent follows it
		return err
	}
	got, err := a.page(ctx)
	if err != nil {
		return err
	}
	if !strings.Contains(got, "\nDCGM_FI_PROF_SM_ACTIVE{") {
		return fmt.Errorf("%s has no DCGM_FI_PROF_SM_ACTIVE after %s came; the agent says: %s", a.metrics, a.fields, a.tail())
	}
	all, err := a.scrapeOften(ctx, 56)
	if err != nil {
		return err
	}
	_, mb, err := a.used()
	if err != nil {
		return err
	}
	r.add(figure{
		what: fmt.Sprintf("what the further %d fields of DCGM add to it", onRequest), values: []float64{all - plain}, unit: "ms",
		how: fmt.Sprintf("the default %d cost %.2f ms; PCIe throughput, for which NVML waits 20 ms, is among them and waits for nothing here", byDefault, plain),
	})
	r.add(figure{what: "resident memory with all of them", values: []float64{mb}, unit: "MB", aim: 60, how: "of agent and child, after that"})
	return nil
}

// everyField makes a metrics file of the fields that the page of them has, which a
// test of the exporter holds to the code.
func everyField() (text string, byDefault, onRequest int, err error) {
	raw, err := os.ReadFile(filepath.Join("docs", "reference", "dcgm-fields.md"))
	if err != nil {
		return "", 0, 0, err
	}
	for line := range strings.Lines(string(raw)) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | ")
		served, _, _ := strings.Cut(rest, " | ")
		switch {
		case !ok || served != "by default" && served != "on request":
			continue
		case name == "DCGM_FI_DRIVER_VERSION":
			text += name + ", label, x\n"
			continue
		case served == "by default":
			byDefault++
		default:
			onRequest++
		}
		text += name + ", gauge, x\n"
	}
	return text, byDefault, onRequest, nil
}

// measureRest scrapes as Prometheus does, every 15 s, and does nothing else.
func (a *agentUnderTest) measureRest(ctx context.Context, r *report) error {
	const span, every = 2 * time.Minute, 15 * time.Second
	before, _, err := a.used()
	if err != nil {
		return err
	}
	for range span / every {
		if err := pause(ctx, every); err != nil {
			return err
		}
		if err := a.scrape(ctx, 56); err != nil {
			return err
		}
	}
	after, mb, err := a.used()
	if err != nil {
		return err
	}
	r.add(figure{
		what: "CPU at rest, scraped every 15 s", values: []float64{100 * float64(after-before) / float64(span)}, unit: "% of a core", aim: 0.3,
		how: "of agent and child, over two minutes",
	})
	r.add(figure{
		what: "resident memory of agent and child", values: []float64{mb}, unit: "MB", aim: 60,
		how: "8 GPUs with 56 MIG devices that 56 pods hold, registered with a kubelet's side of the protocol, after that",
	})
	return nil
}

// measureAllocate asks for one device after another, as the kubelet does.
func measureAllocate(ctx context.Context, r *report, k *kubelet) error {
	var took []float64
	for i := range allocates {
		d, err := k.allocate(ctx, agentResource, i)
		if err != nil {
			return err
		}
		took = append(took, d.Seconds()*1000)
	}
	slices.Sort(took)
	r.add(figure{
		what: "Allocate, 99th percentile", values: []float64{took[len(took)*99/100]}, unit: "ms", aim: 5, wall: true,
		how: fmt.Sprintf("%d calls of one device over the plugin's socket; median %.2f ms", allocates, took[len(took)/2]),
	})
	return nil
}

// measureRestarts restarts the kubelet's side, which forgets every plugin.
func measureRestarts(ctx context.Context, r *report, k *kubelet) error {
	var took []float64
	for range restarts {
		d, err := k.restart(ctx)
		if err != nil {
			return err
		}
		took = append(took, d.Seconds()*1000)
	}
	r.add(figure{
		what: "a restarted kubelet to its plugins registered", values: took, unit: "ms", aim: 100, each: true, wall: true,
		how: fmt.Sprintf("from the kubelet's socket to the last of its resources, %d restarts", restarts),
	})
	return nil
}
