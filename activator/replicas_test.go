package activator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/activator"
	"berth.dev/berth/api"
)

// member is one of several replicas of the activator. When it is killed, all that it has with others breaks at once.
type member struct {
	set   *activator.Set
	dead  atomic.Bool
	stop  func()
	ended chan struct{}

	mu    sync.Mutex
	opens []io.Closer
}

// join starts a replica in the cluster of a rig.
func (r *rig) join(name string) *member {
	m := &member{ended: make(chan struct{})}
	client, tracker := &fake.Clientset{}, r.client.Tracker()
	client.AddReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if m.dead.Load() {
			return true, nil, errors.New("the process is dead")
		}
		return clienttesting.ObjectReaction(tracker)(a)
	})
	client.AddWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := tracker.Watch(a.GetResource(), a.GetNamespace())
		return true, w, err
	})
	m.set = activator.New(activator.Options{
		Client: client, Address: "127.0.0.1", Name: name, Log: slog.New(slog.DiscardHandler), Stay: true,
		Service: types.NamespacedName{Namespace: api.ActivatorNamespace, Name: api.ActivatorApp},
		Listen: func(int32) (net.Listener, error) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err == nil {
				m.opened(l)
			}
			return &noting{l, m}, err
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	started := make(chan struct{})
	m.stop = stop
	go func() {
		defer close(m.ended)
		if err := m.set.Run(ctx, func() { close(started) }); err != nil && !m.dead.Load() {
			r.t.Error(err)
		}
	}()
	<-started
	r.t.Cleanup(func() {
		stop()
		<-m.ended
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = m.set.Drain(over)
	})
	return m
}

func (m *member) opened(c io.Closer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opens = append(m.opens, c)
}

// kill ends the replica as SIGKILL does.
func (m *member) kill() {
	m.dead.Store(true)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.opens {
		_ = c.Close()
	}
}

// noting notes the connections of a listener.
type noting struct {
	net.Listener
	of *member
}

func (n *noting) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err == nil {
		n.of.opened(c)
	}
	return c, err
}

// members says which replicas are ready, as Kubernetes' controller does for the Service before them.
func (r *rig) members(names ...string) {
	r.t.Helper()
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: api.ActivatorNamespace, Name: "berth-activator-k2j4h", Labels: map[string]string{discoveryv1.LabelServiceName: api.ActivatorApp}}}
	for _, name := range names {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"192.0.2.9"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}, TargetRef: &v1.ObjectReference{Kind: "Pod", Name: name}})
	}
	slices := r.client.DiscoveryV1().EndpointSlices(api.ActivatorNamespace)
	_, err := slices.Update(r.t.Context(), s, metav1.UpdateOptions{})
	if err != nil {
		_, err = slices.Create(r.t.Context(), s, metav1.CreateOptions{})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// behind makes the Service iris, whose requests all go through activators, with a server that is not ready yet: answer makes
// it ready. The server counts how often it gets each body, and does work for each.
func (r *rig) behind(work ...func()) (answer func(), got func(body string) int) {
	r.t.Helper()
	var mu sync.Mutex
	counts := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, _ := io.ReadAll(req.Body)
		mu.Lock()
		counts[string(raw)]++
		mu.Unlock()
		for _, f := range work {
			f()
		}
		fmt.Fprint(w, "answer to ", string(raw))
	}))
	r.t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	number, _ := strconv.Atoi(port)
	labels := map[string]string{activator.LabelService: "iris", activator.LabelComponent: "predictor", "app": "isvc.iris-predictor"}
	_, err := r.client.CoreV1().Services("shop").Create(r.t.Context(), &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "iris", UID: "uid-iris", Labels: labels},
		Spec: v1.ServiceSpec{
			Ports:    []v1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt(number)}},
			Selector: map[string]string{"app": "isvc.iris-predictor", api.SelectorActivator: api.ByActivator},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return func() {
			pod := &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "iris-1", Labels: labels},
				Status:     v1.PodStatus{PodIP: "127.0.0.1", Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}},
			}
			if _, err := r.client.CoreV1().Pods("shop").Create(r.t.Context(), pod, metav1.CreateOptions{}); err != nil {
				r.t.Error(err)
			}
		}, func(body string) int {
			mu.Lock()
			defer mu.Unlock()
			return counts[body]
		}
}

// send sends a request to one of the endpoints of iris by chance, as kube-proxy does, and again to another when its
// connection breaks, up to most times. It returns the answer.
func (r *rig) send(body string, most int) string {
	var err error
	for range most {
		all, failed := r.client.DiscoveryV1().EndpointSlices("shop").List(context.Background(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=iris"})
		if failed != nil || len(all.Items) == 0 {
			return fmt.Sprint("no endpoints ", failed)
		}
		s := all.Items[rand.IntN(len(all.Items))]
		to := net.JoinHostPort(s.Endpoints[0].Addresses[0], strconv.Itoa(int(*s.Ports[0].Port)))
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		var resp *http.Response
		if resp, err = c.Post("http://"+to+"/", "text/plain", strings.NewReader(body)); err == nil {
			defer resp.Body.Close()
			raw, _ := io.ReadAll(resp.Body)
			return string(raw)
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Sprint("given up: ", err)
}

// TestAKilledReplicaLosesNoRequestThatIsRetried holds requests at two replicas and kills one. Its clients, whose connections
// break, ask again, and the other replica answers each request once.
func TestAKilledReplicaLosesNoRequestThatIsRetried(t *testing.T) {
	r := &rig{t: t, client: empty()}
	r.members("a", "b")
	a, b := r.join("a"), r.join("b")
	answer, got := r.behind()
	r.until("the activator's slices", "iris-activator-a iris-activator-b", r.ours)
	const requests = 60
	answers := make([]string, requests)
	var sent sync.WaitGroup
	for i := range requests {
		sent.Go(func() { answers[i] = r.send(strconv.Itoa(i), 10_000) })
	}
	heldBy := func(m *member) int { s, _ := m.set.Stats("shop", "iris"); return s.Held }
	r.until("what is held", strconv.Itoa(requests), func() string { return strconv.Itoa(heldBy(a) + heldBy(b)) })
	if heldBy(a) == 0 || heldBy(b) == 0 {
		t.Fatalf("held by one: %d, by the other: %d", heldBy(a), heldBy(b))
	}
	a.kill()
	r.members("b") // as its pod's probe fails
	r.until("the activator's slices after the kill", "iris-activator-b", r.ours)
	r.until("what the other holds", strconv.Itoa(requests), func() string { return strconv.Itoa(heldBy(b)) })
	answer()
	sent.Wait()
	for i, text := range answers {
		if body := strconv.Itoa(i); text != "answer to "+body || got(body) != 1 {
			t.Errorf("request %d is answered %q, and reached the server %d times", i, text, got(body))
		}
	}
	if r.ours() != "iris-activator-b" {
		t.Error("the activator has stepped aside, although it is to count all requests")
	}
	if s, _ := b.set.Stats("shop", "iris"); s.InFlight != 0 || s.Arrived < requests {
		t.Errorf("counted: %+v", s)
	}
}

// TestAReplicaThatEndsLosesNothing ends one of two replicas as SIGTERM does: requests that it holds are answered by it, and
// new ones go to the other.
func TestAReplicaThatEndsLosesNothing(t *testing.T) {
	r := &rig{t: t, client: empty()}
	r.members("a")
	a := r.join("a")
	answer, _ := r.behind()
	r.until("the activator's slices", "iris-activator-a", r.ours)
	first := make(chan string)
	go func() { first <- r.send("first", 1) }()
	r.until("what is held", "1", func() string { s, _ := a.set.Stats("shop", "iris"); return strconv.Itoa(s.Held) })

	b := r.join("b")
	if r.ours() != "iris-activator-a" {
		t.Error("a replica that is not ready has slices")
	}
	r.members("a", "b")
	r.until("the activator's slices with another replica", "iris-activator-a iris-activator-b", r.ours)
	if err := a.set.Withdraw(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.ours(); got != "iris-activator-b" {
		t.Errorf("the activator's slices after one has begun to end: %s", got)
	}
	drained := make(chan error)
	go func() { drained <- a.set.Drain(t.Context()) }()
	second := make(chan string)
	go func() { second <- r.send("second", 1) }()
	r.until("what the other holds", "1", func() string { s, _ := b.set.Stats("shop", "iris"); return strconv.Itoa(s.Held) })
	answer()
	if got := <-second; got != "answer to second" {
		t.Errorf("the second request is answered %q", got)
	}
	if got := <-first; got != "answer to first" {
		t.Errorf("the first request is answered %q", got)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// TestAReplicaGetsNoMoreRequestsThanItsServiceSays sends many requests through two activators to one replica that is said to take three at once.
func TestAReplicaGetsNoMoreRequestsThanItsServiceSays(t *testing.T) {
	r := &rig{t: t, client: empty()}
	r.members("a", "b")
	var now, most atomic.Int32
	go3 := make(chan struct{})
	answer, got := r.behind(func() {
		n := now.Add(1)
		defer now.Add(-1)
		for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
		}
		if n == 3 { // all that may come are there
			select {
			case <-go3:
			default:
				close(go3)
			}
		}
		<-go3
	})
	s, err := r.client.CoreV1().Services("shop").Get(t.Context(), "iris", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Annotations = map[string]string{api.AnnotationConcurrency: "3"}
	if _, err := r.client.CoreV1().Services("shop").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	a, b := r.join("a"), r.join("b")
	r.until("the activator's slices", "iris-activator-a iris-activator-b", r.ours)
	const requests = 60
	answers := make([]string, requests)
	var sent sync.WaitGroup
	for i := range requests {
		sent.Go(func() { answers[i] = r.send(strconv.Itoa(i), 10_000) })
	}
	r.until("what is held", strconv.Itoa(requests), func() string {
		x, _ := a.set.Stats("shop", "iris")
		y, _ := b.set.Stats("shop", "iris")
		return strconv.Itoa(x.Held + y.Held)
	})
	answer()
	sent.Wait()
	for i, text := range answers {
		if body := strconv.Itoa(i); text != "answer to "+body || got(body) != 1 {
			t.Errorf("request %d is answered %q, and reached the server %d times", i, text, got(body))
		}
	}
	if most.Load() != 3 {
		t.Errorf("the replica had %d requests at once, want 3", most.Load())
	}
}
