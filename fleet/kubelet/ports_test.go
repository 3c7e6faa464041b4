package kubelet_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // client-go's dialers are of these types
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"berth.dev/berth/fleet/kubelet"
)

// exporterPod is a DCGM exporter as the GPU operator runs it.
func exporterPod() kubelet.Container {
	c := pod("dcgm")
	c.Image, c.Ports = "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.0", []int{9400}
	return c
}

func TestPodHandler(t *testing.T) {
	notebook := pod("notebook")
	notebook.Ports = []int{8888}
	starting := pod("starting")
	starting.Ports, starting.State = []int{8888}, kubelet.StateWaiting
	s := kubelet.New(&fakeRuntime{cs: []kubelet.Container{notebook, starting, exporterPod()}}, fixed)
	tests := []struct {
		name, pod    string
		port         int
		path, accept string
		want         []string // contained in the answer; nil is refused
	}{
		{"a page for a browser", "notebook", 8888, "/lab", "text/html,*/*", []string{"<!doctype html>", "This container is simulated", "default/notebook", "gpu-node-1", "8888", uuid}},
		{"text for a tool", "notebook", 8888, "/", "*/*", []string{"This container is simulated by Berth", "pod        default/notebook\n", "devices    " + uuid + " (GPU 3)\n"}},
		{"probes are well", "notebook", 8888, "/healthz", "", []string{"ok\n"}},
		{"a port that is not declared refuses", "notebook", 9999, "/", "", nil},
		{"a container that does not run refuses", "starting", 8888, "/", "", nil},
		{"a pod that is not there refuses", "nobody", 8888, "/", "", nil},
		{"the exporter gives the node's metrics", "dcgm", 9400, "/metrics", "", []string{"DCGM_FI_DEV_GPU_UTIL{", "} 87\n", `hostname="gpu-node-1"`}},
		{"the exporter is well", "dcgm", 9400, "/health", "", []string{"ok\n"}},
		{"the exporter's other pages say what it is", "dcgm", 9400, "/", "", []string{"simulated by Berth"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := s.PodHandler(node, "default", tt.pod, tt.port)
			if (h == nil) != (tt.want == nil) {
				t.Fatalf("PodHandler(%s, %d) = %v, want an answer: %v", tt.pod, tt.port, h, tt.want != nil)
			}
			if h == nil {
				return
			}
			r := httptest.NewRequest(http.MethodGet, tt.path, nil)
			r.Header.Set("Accept", tt.accept)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			for _, want := range tt.want {
				if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
					t.Errorf("GET %s = %d %q, want %q in it", tt.path, w.Code, w.Body.String(), want)
				}
			}
		})
	}
}

// TestNamesAreEscaped keeps what a user may choose out of the page's markup.
func TestNamesAreEscaped(t *testing.T) {
	c := pod("p")
	c.Ports, c.Image = []int{80}, `<script>alert(1)</script>`
	h := kubelet.New(&fakeRuntime{cs: []kubelet.Container{c}}, fixed).PodHandler(node, "default", "p", 80)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept", "text/html")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if strings.Contains(w.Body.String(), "<script>") {
		t.Errorf("the image's name is not escaped: %s", w.Body)
	}
}

// dialer speaks to the port-forward path of the exporter's pod.
func dialer(t *testing.T) httpstream.Dialer {
	t.Helper()
	cfg := serve(t, &fakeRuntime{cs: []kubelet.Container{exporterPod()}}, fixed)
	rt, upgrader, err := spdy.RoundTripperFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(cfg.Host + "/portForward/default/dcgm")
	return spdy.NewDialer(upgrader, &http.Client{Transport: rt}, "POST", u)
}

// forward forwards a port of this machine, which it names, to one of a pod. It ends
// when stop is closed; done then says how.
func forward(t *testing.T, to httpstream.Dialer, remote string) (local string, stop chan struct{}, done <-chan error) {
	t.Helper()
	stop, ready := make(chan struct{}), make(chan struct{})
	f, err := portforward.New(to, []string{"0:" + remote}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("port-forward: %v", err)
	}
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(int(ports[0].Local)), stop, ended
}

func TestPortForward(t *testing.T) {
	port, stop, done := forward(t, dialer(t), "9400")
	client := &http.Client{Transport: &http.Transport{}}
	for range 2 { // the second on the same connection
		resp, err := client.Get("http://127.0.0.1:" + port + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(body), "DCGM_FI_DEV_GPU_UTIL{") {
			t.Errorf("/metrics through the port-forward = %q, %v; want DCGM metrics", body, err)
		}
	}
	client.CloseIdleConnections()
	close(stop)
	if err := <-done; err != nil {
		t.Errorf("port-forward ended with %v", err)
	}
}

// connect opens one forwarded connection: its data and its error stream. The
// server may reset the data stream before it is there, if it refuses.
func connect(t *testing.T, conn httpstream.Connection, port string) (data, errs httpstream.Stream) {
	t.Helper()
	header := func(kind string) http.Header {
		return http.Header{"Streamtype": {kind}, "Port": {port}, "Requestid": {port}}
	}
	errs, err := conn.CreateStream(header("error"))
	if err != nil {
		t.Fatal(err)
	}
	data, err = conn.CreateStream(header("data"))
	if err != nil {
		t.Logf("data stream for port %s: %v", port, err)
	}
	return data, errs
}

func TestPortForwardStreams(t *testing.T) {
	conn, _, err := dialer(t).Dial("portforward.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	_, errs := connect(t, conn, "9999")
	got, err := io.ReadAll(errs)
	want := "error forwarding port 9999 to pod dcgm, uid uid-dcgm: dial tcp4 127.0.0.1:9999: connect: connection refused: a simulated container listens only at the ports it declares: 9400"
	if err != nil || string(got) != want {
		t.Errorf("a port that is not declared: %q, %v; want %q", got, err, want)
	}

	// A client that stops writing after its request still gets the answer.
	data, errs := connect(t, conn, "9400")
	fmt.Fprint(data, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
	if err := data.Close(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(data); err != nil || !strings.HasSuffix(string(got), "\r\n\r\nok\n") {
		t.Errorf("a client that stops writing got %q, %v; want ok", got, err)
	}
	if got, err := io.ReadAll(errs); err != nil || len(got) > 0 {
		t.Errorf("a connection that went well: %q, %v on its error stream", got, err)
	}
}
