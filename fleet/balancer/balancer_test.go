package balancer_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"

	"berth.dev/berth/fleet/balancer"
)

// rig is a Balancer whose pods answer with the address they were dialed by.
type rig struct {
	t      *testing.T
	client *fake.Clientset
	b      *balancer.Balancer
	mu     sync.Mutex
	dialed []string
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, client: fake.NewClientset()}
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "pod: ", q.URL.Path) }))
	t.Cleanup(pod.Close)
	r.b = balancer.New(r.client, func(ctx context.Context, address string) (net.Conn, error) {
		r.mu.Lock()
		r.dialed = append(r.dialed, address)
		r.mu.Unlock()
		return new(net.Dialer).DialContext(ctx, "tcp", pod.Listener.Addr().String())
	}, slog.New(slog.DiscardHandler))
	t.Cleanup(r.b.Close)
	return r
}

// calls returns the addresses that were dialed so far, in order.
func (r *rig) calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.dialed)
}

// free returns a port that nothing listens on.
func free(t *testing.T) int32 {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return int32(l.Addr().(*net.TCPAddr).Port)
}

func service(name string, ports ...v1.ServicePort) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hub", Name: name, UID: "u-1"},
		Spec:       v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.7", Ports: ports},
	}
}

// sync makes or changes a Service, has it served, and returns it as it is then.
func (r *rig) sync(s *v1.Service) *v1.Service {
	r.t.Helper()
	services := r.client.CoreV1().Services(s.Namespace)
	if _, err := services.Get(r.t.Context(), s.Name, metav1.GetOptions{}); err != nil {
		if _, err := services.Create(r.t.Context(), s, metav1.CreateOptions{}); err != nil {
			r.t.Fatal(err)
		}
	} else if _, err := services.Update(r.t.Context(), s, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	if err := r.b.Sync(r.t.Context(), s); err != nil {
		r.t.Fatal(err)
	}
	got, err := services.Get(r.t.Context(), s.Name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

func ip(s *v1.Service) string {
	if len(s.Status.LoadBalancer.Ingress) == 0 {
		return ""
	}
	return s.Status.LoadBalancer.Ingress[0].IP
}

// get reads a page at an address and port, or returns the error.
func get(ip string, port int32) string {
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + net.JoinHostPort(ip, strconv.Itoa(int(port))) + "/x")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	return string(raw)
}

func TestAServiceAnswersAtItsAddress(t *testing.T) {
	r := newRig(t)
	port, node := free(t), free(t)
	s := r.sync(service("proxy-public", v1.ServicePort{Name: "http", Port: port, NodePort: node}))
	if !strings.HasPrefix(ip(s), "127.") {
		t.Fatalf("its address is %q, want one of loopback", ip(s))
	}
	for _, at := range []int32{port, node} {
		if got := get(ip(s), at); got != "pod: /x" {
			t.Errorf("port %d answers %q, want the pod", at, got)
		}
	}
	want := net.JoinHostPort("10.96.0.7", strconv.Itoa(int(port)))
	if diff := cmp.Diff([]string{want, want}, r.calls()); diff != "" {
		t.Errorf("dialed (-want +got):\n%s", diff)
	}

	// A port that is changed is served in place of the old one, at the same address.
	next := free(t)
	changed := s.DeepCopy()
	changed.Spec.Ports = []v1.ServicePort{{Name: "http", Port: next, NodePort: node}}
	if again := r.sync(changed); ip(again) != ip(s) || get(ip(s), next) != "pod: /x" || !strings.Contains(get(ip(s), port), "refused") {
		t.Errorf("at %s the new port answers %q and the old one %q", ip(again), get(ip(s), next), get(ip(s), port))
	}
	calls := r.calls()
	if last := calls[len(calls)-1]; last != net.JoinHostPort("10.96.0.7", strconv.Itoa(int(next))) {
		t.Errorf("the new port leads to %s", last)
	}

	// As ClusterIP it has no address.
	plain := changed.DeepCopy()
	plain.Spec.Type = v1.ServiceTypeClusterIP
	if now := r.sync(plain); ip(now) != "" || !strings.Contains(get(ip(s), next), "refused") {
		t.Errorf("as ClusterIP it has the address %q, which answers %q", ip(now), get(ip(s), next))
	}
}

func TestEveryServiceHasItsOwnAddressAndKeepsIt(t *testing.T) {
	r := newRig(t)
	port := free(t)
	a := r.sync(service("a", v1.ServicePort{Port: port}))
	b := r.sync(service("b", v1.ServicePort{Port: port}))
	if ip(a) == ip(b) {
		t.Fatalf("both have %s", ip(a))
	}
	r.b.Close()
	again := newRig(t) // another process, which sees b first
	if got := again.sync(b); ip(got) != ip(b) {
		t.Errorf("after a restart b has %s, want %s", ip(got), ip(b))
	}
	if got := again.sync(a); ip(got) != ip(a) {
		t.Errorf("after a restart a has %s, want %s", ip(got), ip(a))
	}
}

func TestAPortThatCannotBeServedIsSaid(t *testing.T) {
	r := newRig(t)
	busy := free(t)
	for i := range 300 { // more addresses than are looked at
		taken(t, fmt.Sprintf("127.66.%d.%d", i/254, i%254+1), busy)
	}
	node := free(t)
	s := r.sync(service("second",
		v1.ServicePort{Name: "a", Port: busy, NodePort: node, Protocol: v1.ProtocolTCP}, v1.ServicePort{Name: "dns", Port: 53, Protocol: v1.ProtocolUDP}))
	want := []v1.PortStatus{
		{Port: busy, Protocol: v1.ProtocolTCP, Error: new("berth.dev/InUse")}, {Port: 53, Protocol: v1.ProtocolUDP, Error: new("berth.dev/OnlyTCP")},
	}
	if diff := cmp.Diff(want, s.Status.LoadBalancer.Ingress[0].Ports); diff != "" {
		t.Errorf("ports in its status (-want +got):\n%s", diff)
	}
	if got := get(ip(s), node); got != "pod: /x" {
		t.Errorf("its node port answers %q, want the pod", got)
	}
}

// taken listens on a port of an address until the test ends, as another process does.
func taken(t *testing.T, ip string, port int32) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(int(port))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

// TestAServiceGetsAnAddressWhosePortsAreFree has two control planes on one machine, each of which has a Service with the same port.
func TestAServiceGetsAnAddressWhosePortsAreFree(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has more than one loopback address without configuration")
	}
	port := free(t)
	one, two := newRig(t), newRig(t)
	a, b := one.sync(service("web", v1.ServicePort{Port: port})), two.sync(service("web", v1.ServicePort{Port: port}))
	if ip(a) == ip(b) || len(b.Status.LoadBalancer.Ingress[0].Ports) > 0 || get(ip(b), port) != "pod: /x" {
		t.Errorf("they have %s and %s, and of the second it is said: %v", ip(a), ip(b), b.Status.LoadBalancer.Ingress)
	}
	two.b.Close()
	taken(t, ip(b), port)
	again := newRig(t)
	if got := again.sync(b); ip(got) == ip(a) || ip(got) == ip(b) || get(ip(got), port) != "pod: /x" {
		t.Errorf("started again while another process listens on %s, it has %s", ip(b), ip(got))
	}
}

func TestOfAnotherClassIsLeftAlone(t *testing.T) {
	r := newRig(t)
	s := service("cloud", v1.ServicePort{Port: free(t)})
	s.Spec.LoadBalancerClass = new("example.com/cloud")
	s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	if got := r.sync(s); ip(got) != "192.0.2.1" {
		t.Errorf("its address is %q, want the one that the other balancer set", ip(got))
	}
	s.Spec.LoadBalancerClass = new(balancer.Class)
	s.Name = "ours"
	if got := r.sync(s); !strings.HasPrefix(ip(got), "127.") {
		t.Errorf("of Berth's class it has %q, want an address of loopback", ip(got))
	}
}

func TestRunServesUntilItEnds(t *testing.T) {
	r := newRig(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.b.Run(ctx)
	}()
	s := service("a", v1.ServicePort{Port: free(t)})
	w, err := r.client.CoreV1().Services("hub").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.CoreV1().Services("hub").Create(ctx, s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var at string
	for e := range w.ResultChan() {
		if got, ok := e.Object.(*v1.Service); ok && e.Type == watch.Modified && ip(got) != "" {
			at = ip(got)
			break
		}
	}
	if got := get(at, s.Spec.Ports[0].Port); got != "pod: /x" {
		t.Errorf("it answers %q, want the pod", got)
	}
	stop()
	<-ended
	if got := get(at, s.Spec.Ports[0].Port); !strings.Contains(got, "refused") {
		t.Errorf("after the end it answers %q", got)
	}
}
