//go:build linux

package node_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"berth.dev/berth/api"
)

const (
	metricsURL = "http://127.0.0.1:9400/metrics"
	fakeFile   = workDir + "/gpus.yaml"
	configFile = workDir + "/config.yaml"
)

// uuid names the GPU of an index on every node of these tests.
func uuid(index int) string { return fmt.Sprintf("GPU-00000000-0000-4000-8000-%012d", index) }

// makeNodes makes the device nodes that the GPUs are said to have.
func makeNodes(t *testing.T, gpus int) {
	t.Helper()
	names := map[string]int{"nvidiactl": 200, "nvidia-uvm": 201, "nvidia-uvm-tools": 202}
	for i := range gpus {
		names[fmt.Sprint("nvidia", i)] = i
	}
	for name, minor := range names {
		err := unix.Mknod(filepath.Join("/dev", name), unix.S_IFCHR|0o666, int(unix.Mkdev(uint32(major), uint32(minor))))
		if err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
}

// startAgent starts the node agent on GPUs that a text describes, without
// waiting for anything. A kubelet without an API server tells it of pods.
func (n *node) startAgent(t *testing.T, gpus string, args ...string) {
	t.Helper()
	n.setGPUs(t, gpus)
	n.agentArgs = append([]string{
		program("berth-agent"), "--fake", fakeFile, "--fake-devices", "/dev/nvidia*", "--node-name", nodeName,
		"--kubelet-dir", kubeletDir, "--cdi-dir", cdiDir, "--listen", "127.0.0.1:9400", "--interval", "1s",
	}, args...)
	if n.kubeconfig == "" {
		n.agentArgs = append(n.agentArgs, "--pods", "kubelet", "--kubelet-url", kubeletURL, "--scheduler-names", berthScheduler)
	}
	n.runAgent(t)
}

// runAgent starts the agent as it was started before.
func (n *node) runAgent(t *testing.T) {
	t.Helper()
	n.agent = startProcess(t, workDir, "agent", nil, n.agentArgs...)
}

// killAgent ends the agent as the kernel does, which it cannot prepare for, and
// waits until its child has ended, too.
func (n *node) killAgent(t *testing.T) {
	t.Helper()
	pids := children(n.agent.cmd.Process.Pid)
	n.agent.stop(t, syscall.SIGKILL)
	eventually(t, patience, "the agent's child ends with it", func() error {
		for _, pid := range pids {
			if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && bytes.Contains(data, []byte("berth-nvml")) {
				return fmt.Errorf("process %d is there", pid)
			}
		}
		return nil
	})
}

// setGPUs says what GPUs there are.
func (n *node) setGPUs(t *testing.T, text string) {
	t.Helper()
	if err := replaceFile(fakeFile, text); err != nil {
		t.Fatal(err)
	}
}

// kubeletResources asks the kubelet's socket for clients beside it.
func kubeletResources[T any](ask func(context.Context, podresources.PodResourcesListerClient) (T, error)) (T, error) {
	var none T
	c, err := grpc.NewClient("unix:"+kubeletDir+"/pod-resources/kubelet.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return none, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	return ask(ctx, podresources.NewPodResourcesListerClient(c))
}

// allocatable counts the healthy devices of a resource, as the kubelet has them.
func allocatable(what string) (int, error) {
	r, err := kubeletResources(func(ctx context.Context, c podresources.PodResourcesListerClient) (*podresources.AllocatableResourcesResponse, error) {
		return c.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	})
	if err != nil {
		return 0, err
	}
	ids := map[string]bool{} // one entry for each device where topology is told
	for _, d := range r.Devices {
		if d.ResourceName == what {
			for _, id := range d.DeviceIds {
				ids[id] = true
			}
		}
	}
	return len(ids), nil
}

// offers waits until the kubelet can give that many of a resource, and says how
// long that took.
func (n *node) offers(t *testing.T, what string, count int) time.Duration {
	t.Helper()
	return n.offersWithin(t, patience, what, count)
}

// offersWithin is offers with a patience of its own.
func (n *node) offersWithin(t *testing.T, patience time.Duration, what string, count int) time.Duration {
	t.Helper()
	return eventually(t, patience, fmt.Sprintf("the kubelet has %d of %s", count, what), func() error {
		got, err := allocatable(what)
		if err == nil && got != count {
			err = fmt.Errorf("it has %d", got)
		}
		if n.agent.ended() {
			t.Fatal("the agent has ended")
		}
		return err
	})
}

// answered is how many the kubelet can give now, as soon as it answers.
func (n *node) answered(t *testing.T, what string) int {
	t.Helper()
	got := 0
	eventually(t, patience, "the kubelet says what it can give", func() (err error) {
		got, err = allocatable(what)
		return err
	})
	return got
}

// picks are the devices that the kubelet itself believes a container has,
// sorted: what the agent calls tokens.
func picks(name string) ([]string, error) {
	r, err := kubeletResources(func(ctx context.Context, c podresources.PodResourcesListerClient) (*podresources.ListPodResourcesResponse, error) {
		return c.List(ctx, &podresources.ListPodResourcesRequest{})
	})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, p := range r.PodResources {
		if strings.TrimSuffix(p.Name, "-"+nodeName) != name {
			continue
		}
		for _, c := range p.Containers {
			for _, d := range c.Devices {
				ids = append(ids, d.DeviceIds...)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// scrape reads the agent's metrics, and their text.
func scrape(t *testing.T) (map[string]*dto.MetricFamily, []byte) {
	t.Helper()
	var text []byte
	eventually(t, patience, "the exporter answers", func() error {
		response, err := askMetrics(t)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err = io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", response.Status, text)
		}
		return err
	})
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("the metrics cannot be read: %v\n%s", err, text)
	}
	return families, text
}

// metricsToken may read the metrics of an agent that asks who does; "" is one that serves
// everyone, without TLS.
var metricsToken string

// askMetrics asks the agent for its metrics.
func askMetrics(t *testing.T) (*http.Response, error) {
	t.Helper()
	url := metricsURL
	if metricsToken != "" {
		url = strings.Replace(url, "http:", "https:", 1)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+metricsToken)
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // it signs its own certificate
	}}
	return client.Do(r)
}

// token is one of the ServiceAccount that may read the agents' metrics for
// an audience, or for the API server.
func (p *plane) token(t *testing.T, audience ...string) string {
	t.Helper()
	got, err := p.client.CoreV1().ServiceAccounts(api.MetricsNamespace).CreateToken(t.Context(), api.MetricsReader,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audience}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got.Status.Token
}

// sum adds the series of a metric that have all of the labels, given as pairs,
// and counts them.
func sum(families map[string]*dto.MetricFamily, name string, pairs ...string) (value float64, series int) {
	for _, m := range families[name].GetMetric() {
		if !slices.ContainsFunc(slices.Collect(slices.Chunk(pairs, 2)), func(p []string) bool { return label(m, p[0]) != p[1] }) {
			value += m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
			series++
		}
	}
	return value, series
}

// label is a label's value; "" is none.
func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// shows waits until the series of a metric with the labels add up to a value.
func (n *node) shows(t *testing.T, name string, want float64, pairs ...string) {
	t.Helper()
	eventually(t, patience, name+" is right", func() error {
		families, text := scrape(t)
		if got, _ := sum(families, name, pairs...); got != want {
			return fmt.Errorf("it is %v, and should be %v:\n%s", got, want, lines(text, name))
		}
		return nil
	})
}

// held waits until the metrics say that so many GPUs are held.
func (n *node) held(t *testing.T, gpus float64) {
	t.Helper()
	n.shows(t, "berth_gpu_held", gpus)
}

// attributed waits until the metrics of these GPUs, and no others, are a pod's.
func (n *node) attributed(t *testing.T, pod string, uuids ...string) {
	t.Helper()
	const name = "DCGM_FI_DEV_GPU_TEMP"
	eventually(t, patience, "the metrics tell what pod "+pod+" has", func() error {
		families, text := scrape(t)
		_, all := sum(families, name, "pod", pod, "namespace", "default", "container", "c")
		for _, u := range uuids {
			if _, series := sum(families, name, "UUID", u, "pod", pod, "namespace", "default", "container", "c"); series != 1 || all != len(uuids) {
				return fmt.Errorf("it has %v, and the metrics say\n%s", uuids, lines(text, name))
			}
		}
		return nil
	})
}

// lines are the lines of a text that hold a word.
func lines(text []byte, word string) string {
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, word) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// only says what is wrong where a container does not see exactly the GPUs of
// these indexes: in its environment, among its device nodes, and in what the
// kernel lets it open even if it makes the nodes itself.
func only(r report, indexes ...int) error {
	var wantNodes, gotNodes, wantMade, gotMade []string
	for _, i := range indexes {
		wantNodes = append(wantNodes, fmt.Sprint("/dev/nvidia", i))
		wantMade = append(wantMade, fmt.Sprint(i))
	}
	for path, answer := range r.Nodes {
		if strings.Trim(path, "0123456789") != "/dev/nvidia" {
			continue // nvidiactl and others belong to no GPU
		}
		gotNodes = append(gotNodes, path)
		if answer != "allowed" {
			return fmt.Errorf("%s is there, and opening it is %s", path, answer)
		}
	}
	for minor, answer := range r.Made {
		if answer == "allowed" {
			gotMade = append(gotMade, minor)
		} else if answer != "denied" {
			return fmt.Errorf("a made node %s is %s", minor, answer)
		}
	}
	if len(r.Made) == 0 {
		return errors.New("the container made no nodes")
	}
	for _, s := range [][]string{wantNodes, gotNodes, wantMade, gotMade} {
		slices.Sort(s)
	}
	if !slices.Equal(wantNodes, gotNodes) {
		return fmt.Errorf("it sees %v, and should see %v", gotNodes, wantNodes)
	}
	if !slices.Equal(wantMade, gotMade) {
		return fmt.Errorf("of nodes that it makes itself it can open %v, and should %v", gotMade, wantMade)
	}
	return nil
}
