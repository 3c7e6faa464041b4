package pods_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"berth.dev/berth/agent/pods"
	"berth.dev/berth/api"
)

func named(name string, phase v1.PodPhase) v1.Pod {
	return v1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("uid-" + name), ResourceVersion: "7",
			Annotations: map[string]string{api.AnnotationDevices: "{}"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}},
		},
		Spec:   v1.PodSpec{NodeName: "n1", SchedulerName: "berth-scheduler", Containers: []v1.Container{{Name: "c", Image: "large"}}},
		Status: v1.PodStatus{Phase: phase, Message: "long"},
	}
}

// server is an API server that has pods and nothing else.
type server struct {
	mu     sync.Mutex
	lists  int
	query  string
	pods   []v1.Pod
	events chan any // of the watch
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lists++
		s.query = r.URL.Query().Get("fieldSelector")
		list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: s.pods}
		_ = json.NewEncoder(w).Encode(list)
		return
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`, http.StatusUnprocessableEntity)
		return
	}
	flusher := w.(http.Flusher)
	flusher.Flush()
	for {
		select {
		case e := <-s.events:
			_ = json.NewEncoder(w).Encode(e)
			flusher.Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func client(t *testing.T, url string, dial ...func(context.Context, string, string) (net.Conn, error)) rest.Interface {
	t.Helper()
	config := &rest.Config{
		Host: url, APIPath: "/api",
		ContentConfig: rest.ContentConfig{GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	}
	for _, d := range dial {
		config.Dial = d
	}
	c, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func names(list []*v1.Pod) string {
	var out []string
	for _, p := range list {
		out = append(out, p.Name+" "+string(p.UID)+" "+string(p.Status.Phase))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func TestPodsOfTheAPI(t *testing.T) {
	s := &server{pods: []v1.Pod{named("a", v1.PodRunning)}, events: make(chan any)}
	h := httptest.NewServer(s)
	defer h.Close()
	a := pods.FromAPI(client(t, h.URL), "n1")
	ctx, cancel := context.WithCancel(context.Background())
	got, err := a.Pods(ctx, false) // the watch has not begun
	if names(got) != "a uid-a Running" || err != nil || s.query != "spec.nodeName=n1" {
		t.Errorf("before the watch: %s, %v, by %s", names(got), err, s.query)
	}
	var done sync.WaitGroup
	done.Go(func() { _ = a.Run(ctx) })
	<-a.Changed()
	tell := func(kind string, p v1.Pod) {
		s.events <- map[string]any{"type": kind, "object": p}
		<-a.Changed()
	}
	mirror := named("static", v1.PodRunning)
	mirror.Annotations["kubernetes.io/config.mirror"], mirror.Annotations["kubernetes.io/config.hash"] = "hash", "hash"
	tell("ADDED", mirror)
	tell("MODIFIED", named("a", v1.PodSucceeded))
	s.mu.Lock()
	lists := s.lists
	s.mu.Unlock()
	got, err = a.Pods(ctx, false)
	if names(got) != "a uid-a Succeeded, static hash Running" || err != nil {
		t.Errorf("by the watch: %s, %v", names(got), err)
	}
	p, err := a.Pod(ctx, "uid-a", false)
	want := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default", UID: "uid-a", ResourceVersion: "7", Annotations: map[string]string{api.AnnotationDevices: "{}"}},
		Spec:       v1.PodSpec{NodeName: "n1", SchedulerName: "berth-scheduler", Containers: []v1.Container{{Name: "c"}}},
		Status:     v1.PodStatus{Phase: v1.PodSucceeded},
	}
	if diff := cmp.Diff(want, p); diff != "" || err != nil {
		t.Errorf("what is kept of a pod, %v (-want +got):\n%s", err, diff)
	}
	tell("DELETED", named("a", v1.PodSucceeded))
	if p, err := a.Pod(ctx, "uid-a", false); p != nil || err != nil {
		t.Errorf("a pod that has gone: %v, %v", p, err)
	}
	s.mu.Lock()
	if s.lists != lists {
		t.Errorf("%d lists were asked for beside the watch", s.lists-lists)
	}
	s.mu.Unlock()
	// What the watch does not know is asked for.
	if p, err := a.Pod(ctx, "uid-a", true); p == nil || err != nil {
		t.Errorf("asked for fresh: %v, %v", p, err)
	}
	cancel()
	done.Wait()
	h.CloseClientConnections()
}

// TestPodsThatAreGone has pods deleted while they are watched, and between two lists.
func TestPodsThatAreGone(t *testing.T) {
	holding := func(name string, phase v1.PodPhase) v1.Pod {
		p := named(name, phase)
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		return p
	}
	s := &server{pods: []v1.Pod{holding("a", v1.PodRunning), holding("b", v1.PodRunning), named("plain", v1.PodRunning)}, events: make(chan any)}
	h := httptest.NewServer(s)
	defer h.Close()
	a := pods.FromAPI(client(t, h.URL), "n1")
	gone := make(chan string, 9)
	a.OnGone(func(p *v1.Pod) {
		gone <- fmt.Sprintf("%s %s %s", p.Name, p.Status.Phase, p.Spec.Containers[0].Resources.Limits.Name("nvidia.com/gpu", resource.DecimalSI))
	})
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = a.Run(ctx) })
	<-a.Changed()
	s.mu.Lock()
	s.pods = []v1.Pod{holding("c", v1.PodRunning)}
	s.mu.Unlock()
	for _, name := range []string{"plain", "a"} {
		p := holding(name, v1.PodSucceeded)
		if name == "plain" {
			p = named(name, v1.PodSucceeded)
		}
		s.events <- map[string]any{"type": "DELETED", "object": p}
	}
	if got := <-gone; got != "a Succeeded 1" {
		t.Errorf("deleted while it is watched: %s", got)
	}
	h.CloseClientConnections() // the watch ends, and its version is too old
	s.events <- map[string]any{"type": "ERROR", "object": metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired}}
	if got := <-gone; got != "b Running 1" {
		t.Errorf("deleted between two lists: %s", got)
	}
	cancel()
	done.Wait()
	if len(gone) > 0 {
		t.Errorf("gone is also %s", <-gone)
	}
	h.CloseClientConnections()
}

func TestAnAPIServerThatIsAway(t *testing.T) {
	a := pods.FromAPI(client(t, "http://127.0.0.1", func(context.Context, string, string) (net.Conn, error) {
		return nil, syscall.ECONNREFUSED // of a port that no other program can have by now
	}), "n1")
	if _, err := a.Pod(context.Background(), "uid", true); err == nil || !strings.HasPrefix(err.Error(), "list the pods of node n1: ") {
		t.Errorf("Pod: %v", err)
	}
}

func TestPodsOfTheKubelet(t *testing.T) {
	var mu sync.Mutex
	list := []v1.Pod{named("a", v1.PodRunning)}
	status, asked := http.StatusOK, ""
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = r.URL.Path + " " + r.Header.Get("Authorization")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v1.PodList{Items: list})
	}))
	defer h.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k := pods.FromKubelet(pods.KubeletOptions{URL: h.URL + "/", TokenFile: token})
	ctx := context.Background()
	changed := func() bool { return len(k.Changed()) > 0 && <-k.Changed() == struct{}{} }
	got, err := k.Pods(ctx, false)
	if names(got) != "a uid-a Running" || err != nil || asked != "/pods Bearer secret" || !changed() {
		t.Errorf("first: %s, %v, asked %s", names(got), err, asked)
	}
	mu.Lock()
	list = append(list, named("b", v1.PodPending))
	mu.Unlock()
	if p, err := k.Pod(ctx, "uid-b", false); p != nil || err != nil || changed() {
		t.Errorf("what is remembered has %v, %v", p, err)
	}
	if p, err := k.Pod(ctx, "uid-b", true); p == nil || err != nil || !changed() {
		t.Errorf("asked for fresh: %v, %v", p, err)
	}
	if _, err := k.Pods(ctx, true); err != nil || changed() {
		t.Errorf("the same again is told as a change, %v", err)
	}
	mu.Lock()
	status = http.StatusForbidden
	mu.Unlock()
	if _, err := k.Pods(ctx, true); err == nil || !strings.Contains(err.Error(), "403 Forbidden; the agent's identity needs nodes/proxy") {
		t.Errorf("a kubelet that refuses: %v", err)
	}
	if got, err := k.Pods(ctx, false); len(got) != 2 || err != nil {
		t.Errorf("what was known is forgotten: %v, %v", got, err)
	}
}

func TestTheKubeletIsAskedAgainAndAgain(t *testing.T) {
	polls := make(chan struct{})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case polls <- struct{}{}:
		case <-r.Context().Done():
		}
		_, _ = w.Write([]byte("{}"))
	}))
	defer h.Close()
	k := pods.FromKubelet(pods.KubeletOptions{URL: h.URL, Poll: 1})
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = k.Run(ctx) })
	for range 3 {
		<-polls
	}
	cancel()
	done.Wait()
}
