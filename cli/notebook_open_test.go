package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cri-streaming/pkg/streaming/portforward"

	"berth.dev/berth/api"
	"berth.dev/berth/cli"
)

// rows: NB-17

// openServer is an API server with one notebook, ada, whose pod answers each request
// with its path, the port that it came to and the pod's UID.
type openServer struct {
	notebook *unstructured.Unstructured
	uid      atomic.Value  // of the pod
	replace  chan struct{} // closed when it is another one
}

func (s *openServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const pods = "/api/v1/namespaces/default/pods"
	answer := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // the client may have gone
	}
	uid := s.uid.Load().(string)
	pod := v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ada-0", UID: types.UID(uid)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "ada", Ports: []v1.ContainerPort{{Name: "web", ContainerPort: 9999}}}}},
		Status:     v1.PodStatus{Phase: v1.PodRunning},
	}
	switch r.URL.Path {
	case "/apis/kubeflow.org/v1/namespaces/default/notebooks/ada":
		answer(s.notebook)
	case "/apis/kubeflow.org/v1/namespaces/default/notebooks":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-s.replace:
			answer(map[string]any{"type": "MODIFIED", "object": book("default", "ada", told("Bound", "n", "Restarting", "restarting"))})
		}
	case "/api/v1/namespaces/default/services/ada":
		answer(v1.Service{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ada"},
			Spec: v1.ServiceSpec{Selector: map[string]string{"statefulset": "ada"}, Ports: []v1.ServicePort{{Port: 80, TargetPort: intstr.FromString("web")}}},
		})
	case pods:
		answer(v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{pod}})
	case pods + "/ada-0":
		answer(pod)
	case pods + "/ada-0/portforward":
		if r.Method == http.MethodGet { // as WebSockets begin
			http.Error(w, "what is a WebSocket?", http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, answerer{uid}, "ada-0", uid, &portforward.V4Options{}, time.Minute, time.Minute, portforward.SupportedProtocols)
	default:
		http.NotFound(w, r)
	}
}

// answerer is a pod's end of forwarded connections.
type answerer struct{ uid string }

// PortForward answers one request of HTTP.
func (a answerer) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	r, err := http.ReadRequest(bufio.NewReader(stream))
	if err != nil {
		return err
	}
	body := fmt.Sprintf("%s at port %d of %s\n", r.URL, port, a.uid)
	_, err = fmt.Fprintf(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return err
}

// lines is a writer that hands on lines.
func lines(t *testing.T) (io.Writer, <-chan string) {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	out := make(chan string, 100)
	go func() {
		for s := bufio.NewScanner(r); s.Scan(); {
			out <- s.Text()
		}
		close(out)
	}()
	return w, out
}

// ask gets an address and gives the status and the answer.
func ask(t *testing.T, url string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// answered is the answer of an address that is open.
func answered(t *testing.T, url string) string {
	t.Helper()
	status, answer := ask(t, url)
	if status != http.StatusOK {
		t.Fatalf("%s answers %d %q", url, status, answer)
	}
	return answer
}

// TestNotebookOpenGoesOnWhenThePodIsReplaced opens a notebook through a server that
// knows SPDY alone, and follows it to its next pod at the same address.
func TestNotebookOpenGoesOnWhenThePodIsReplaced(t *testing.T) {
	newStage(t)
	s := &openServer{replace: make(chan struct{}), notebook: book("default", "ada",
		told("Bound", "n", "Ready", "on node n"), annotated(api.AnnotationRewrite, "/lab"))}
	s.uid.Store("first")
	server := httptest.NewServer(s)
	t.Cleanup(server.CloseClientConnections)
	write(t, os.Getenv("KUBECONFIG"), strings.Replace(kubeconfig, "https://cluster.test:6443", server.URL, 1))
	ctx, cancel := context.WithCancel(t.Context())
	out, printed := lines(t)
	errs, said := lines(t)
	ended := make(chan error, 1)
	root := cli.New(cli.Options{Out: out, Err: errs})
	root.SetArgs([]string{"notebook", "open", "ada"})
	go func() { ended <- root.ExecuteContext(ctx) }()
	var url string
	select {
	case url = <-printed:
	case err := <-ended:
		t.Fatalf("it ended with %v", err)
	}
	if !regexp.MustCompile(`^http://localhost:[0-9]+/lab/\?token=[A-Z2-7]{26}$`).MatchString(url) {
		t.Fatalf("it prints %q, want an address at /lab/ with a token", url)
	}
	if got, want := answered(t, url), "/lab/ at port 9999 of first\n"; got != want {
		t.Errorf("the notebook answers %q, want %q", got, want)
	}
	if status, got := ask(t, strings.TrimRight(url, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")); status != http.StatusForbidden || strings.Contains(got, "of first") {
		t.Errorf("without the token it answers %d %q, want 403", status, got)
	}
	s.uid.Store("second")
	close(s.replace)
	for line := range said {
		if strings.HasPrefix(line, "reconnected to pod ada-0") {
			break
		}
	}
	if got, want := answered(t, url), "/lab/ at port 9999 of second\n"; got != want {
		t.Errorf("at the same address the notebook answers %q, want %q", got, want)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("interrupted it returns %v, want nil", err)
	}
}
