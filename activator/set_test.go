package activator_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/activator"
	"berth.dev/berth/api"
	"berth.dev/berth/kube/kubetest"
)

// rig is a Set in a cluster that has only Services and EndpointSlices.
type rig struct {
	t      *testing.T
	client *fake.Clientset
	set    *activator.Set
}

// empty is an API server without objects.
func empty() *fake.Clientset {
	client := fake.NewClientset()
	kubetest.OwnCopies(&client.Fake)
	return client
}

func newRig(t *testing.T) *rig { return newRigThatCounts(t, nil) }

func newRigThatCounts(t *testing.T, counts func(string) bool) *rig {
	r := &rig{t: t, client: empty()}
	r.set = activator.New(activator.Options{
		Client: r.client, Address: "127.0.0.1", Name: "0", Log: slog.New(slog.DiscardHandler), Counts: counts,
		Listen: func(int32) (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
	})
	ctx, stop := context.WithCancel(context.Background())
	started, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if err := r.set.Run(ctx, func() { close(started) }); err != nil {
			t.Error(err)
		}
	}()
	<-started
	t.Cleanup(func() {
		stop()
		<-ended
		if err := r.set.Drain(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// service makes a Service of the predictor of the InferenceService iris.
func (r *rig) service(name string) { r.serviceOf(name, "predictor") }

func (r *rig) serviceOf(name, component string) {
	r.t.Helper()
	_, err := r.client.CoreV1().Services("shop").Create(r.t.Context(), &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{activator.LabelService: "iris", activator.LabelComponent: component}},
		Spec:       v1.ServiceSpec{Ports: []v1.ServicePort{{Name: "http", Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
}

// endpoints says which pod of a Service is ready, as Kubernetes' controller does; "" is none.
func (r *rig) endpoints(service, address string) {
	r.t.Helper()
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: service + "-x7f2p", Labels: map[string]string{
		discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io", activator.LabelService: "iris",
	}}}
	if address != "" {
		host, port, _ := net.SplitHostPort(address)
		n, _ := strconv.Atoi(port)
		s.Ports = []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(n))}}
		s.Endpoints = []discoveryv1.Endpoint{
			{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}, TargetRef: &v1.ObjectReference{Kind: "Pod", Name: "iris-1"}},
			{Addresses: []string{"192.0.2.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}},
		}
	}
	api := r.client.DiscoveryV1().EndpointSlices("shop")
	_, err := api.Update(r.t.Context(), s, metav1.UpdateOptions{})
	if err != nil {
		_, err = api.Create(r.t.Context(), s, metav1.CreateOptions{})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// until waits until a function returns what is wanted.
func (r *rig) until(what, want string, got func() string) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); got() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%s is %q, want %q", what, got(), want)
		}
	}
}

// ours returns the names of the activator's slices.
func (r *rig) ours() string {
	all, err := r.client.DiscoveryV1().EndpointSlices("shop").List(r.t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelManagedBy + "=" + activator.ManagedBy})
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, s := range all.Items {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// address returns where the activator's slice of a Service leads.
func (r *rig) address(service string) string {
	s, err := r.client.DiscoveryV1().EndpointSlices("shop").Get(r.t.Context(), service+"-activator-0", metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return net.JoinHostPort(s.Endpoints[0].Addresses[0], strconv.Itoa(int(*s.Ports[0].Port)))
}

// ask starts a request, and returns how it will have ended.
func ask(address string) <-chan string {
	done := make(chan string, 1)
	go func() {
		resp, err := http.Post("http://"+address+"/v1/models/iris:predict", "application/json", strings.NewReader("[1]"))
		if err != nil {
			done <- err.Error()
			return
		}
		defer resp.Body.Close()
		raw, _ := io.ReadAll(resp.Body)
		done <- fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(string(raw)))
	}()
	return done
}

const both = "iris-activator-0 iris-predictor-activator-0"

func TestRequestsAreHeldFromZeroAndGoPastItWhenAPodIsReady(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"iris-predictor", "iris"} {
		r.service(name)
		r.endpoints(name, "")
	}
	r.until("the activator's slices", both, r.ours)
	first, second := ask(r.address("iris")), ask(r.address("iris-predictor"))
	if got := <-r.set.Wakes(); got.String() != "shop/iris" {
		t.Errorf("woken for %s", got)
	}
	held := func() string {
		s, ok := r.set.Stats("shop", "iris")
		return fmt.Sprint(s.Held, " ", ok)
	}
	r.until("what is held", "2 true", held)

	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the pod") }))
	defer pod.Close()
	for _, name := range []string{"iris-predictor", "iris"} {
		r.endpoints(name, pod.Listener.Addr().String())
	}
	for _, done := range []<-chan string{first, second} {
		if got := <-done; got != "200 the pod" {
			t.Errorf("answered %q", got)
		}
	}
	r.until("the activator's slices once a pod is ready", "", r.ours)

	// Requests that reach the pod by another way count too.
	h := r.set.Counted("shop", "iris-1", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if s, _ := r.set.Stats("shop", "iris"); s.InFlight != 1 {
			t.Errorf("in flight during a request past the activator: %d", s.InFlight)
		}
	}))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))

	for _, name := range []string{"iris-predictor", "iris"} {
		r.endpoints(name, "")
	}
	r.until("the activator's slices at zero again", both, r.ours)
}

func TestAServiceThatIsDeletedAnswersWhatIsHeld(t *testing.T) {
	r := newRig(t)
	r.service("iris-predictor")
	r.until("the activator's slices", "iris-predictor-activator-0", r.ours)
	done := ask(r.address("iris-predictor"))
	<-r.set.Wakes()
	if err := r.client.CoreV1().Services("shop").Delete(t.Context(), "iris-predictor", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got != "503 InferenceService shop/iris cannot answer: the service was deleted" {
		t.Errorf("answered %q", got)
	}
	r.until("what is known", "false", func() string {
		_, ok := r.set.Stats("shop", "iris")
		return fmt.Sprint(ok)
	})
}

func TestAServiceAtRestIsNotWrittenAgain(t *testing.T) {
	r := newRig(t)
	r.service("iris-predictor")
	r.until("the activator's slices", "iris-predictor-activator-0", r.ours)
	r.client.ClearActions()
	for range 3 { // events that change nothing for the activator
		r.endpoints("iris-predictor", "")
	}
	r.service("other")
	r.until("the activator's slices", "iris-predictor-activator-0 other-activator-0", r.ours)
	for _, a := range r.client.Actions() {
		if w, ok := a.(clienttesting.UpdateAction); ok && a.GetVerb() == "update" {
			if s, ok := w.GetObject().(*discoveryv1.EndpointSlice); ok && strings.Contains(s.Name, "activator") {
				t.Errorf("wrote %v", s)
			}
		}
		if a.GetVerb() == "delete" {
			t.Errorf("deleted %v", a)
		}
	}
}

// The API server's requests come by the activator while a pod is ready that would not count them.
func TestRequestsThatAPodWouldNotCountComeByTheActivator(t *testing.T) {
	r := newRigThatCounts(t, func(address string) bool { return address != "127.0.0.2:80" })
	by := func() string { return fmt.Sprint(r.set.Held("shop", "iris", "80") != nil) }
	r.service("iris")
	r.endpoints("iris", "127.0.0.1:80")
	r.until("whether requests come by it for a pod that counts", "false", by)
	r.endpoints("iris", "127.0.0.2:80")
	r.until("whether requests come by it for a pod that does not count", "true", by)
	r.endpoints("iris", "127.0.0.1:80")
	r.until("whether requests come by it when that pod is gone", "false", by)
}

// The Service of the predictor says how requests are divided, and the Service of the canary where it answers. The canary has no requests held
// for it, and no slice.
func TestRequestsAreDividedAsTheServiceOfThePredictorSays(t *testing.T) {
	r := newRig(t)
	answers := func(text string) string {
		pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }))
		t.Cleanup(pod.Close)
		return pod.Listener.Addr().String()
	}
	for _, name := range []string{"iris-predictor", "iris"} {
		r.service(name)
		r.endpoints(name, answers("old"))
	}
	share := func(text string) {
		t.Helper()
		s, err := r.client.CoreV1().Services("shop").Get(t.Context(), "iris-predictor", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.Annotations = map[string]string{api.AnnotationSplit: text}
		if _, err := r.client.CoreV1().Services("shop").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ask := func() string {
		h := r.set.ForService("shop", "iris", "80")
		if h == nil {
			return ""
		}
		got := map[string]int{}
		for range 20 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			got[w.Body.String()]++
		}
		return fmt.Sprint(got)
	}
	r.until("who answers", "map[old:20]", ask)
	if r.set.Held("shop", "iris", "80") != nil {
		t.Error("the API server's requests come by the activator without need")
	}
	canary := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "iris-predictor-canary", Labels: map[string]string{activator.LabelService: "iris", activator.LabelComponent: "predictor", api.LabelCanary: "true"}},
		Spec:       v1.ServiceSpec{Ports: []v1.ServicePort{{Name: "http", Port: 80}}},
	}
	if _, err := r.client.CoreV1().Services("shop").Create(t.Context(), canary, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	share("b=25")
	r.endpoints(canary.Name, answers("new"))
	r.until("who answers with a canary", "map[new:5 old:15]", ask)
	if r.set.Held("shop", "iris", "80") == nil || r.set.ForService("shop", canary.Name, "80") != nil || r.ours() != "" {
		t.Errorf("the activator's slices are %q, and requests by the API server %v", r.ours(), r.set.Held("shop", "iris", "80"))
	}
	if traffic, _ := r.set.Traffic("shop", "iris"); traffic.Split == nil || traffic.Split.Revision != "b" || traffic.Split.Percent != 25 || traffic.Split.Canary.Answers < 5 {
		t.Errorf("what came of them is %+v", traffic.Split)
	}
	r.endpoints(canary.Name, "")
	r.until("who answers when the canary has no pod", "map[old:20]", ask)
	share("b=100%")
	r.until("whether the API server's requests come by the activator at the end", "false", func() string { return fmt.Sprint(r.set.Held("shop", "iris", "80") != nil) })
}

// A request for a service with a transformer is held until the transformer is ready, and its request for the model until that is.
func TestARequestForATransformerIsHeldForBoth(t *testing.T) {
	r := newRig(t)
	r.serviceOf("iris", "transformer")
	r.service("iris-predictor")
	for _, name := range []string{"iris-predictor", "iris"} {
		r.endpoints(name, "")
	}
	r.until("the activator's slices", both, r.ours)
	model, done := r.address("iris-predictor"), ask(r.address("iris"))
	if got := <-r.set.Wakes(); got.String() != "shop/iris" {
		t.Errorf("woken for %s", got)
	}
	stats := func() string {
		s, ok := r.set.Stats("shop", "iris")
		return fmt.Sprint(s.Held, " held, ", s.InFlight, " in flight, ", s.Arrived, " arrived, ", ok)
	}
	r.until("what is held for the transformer", "1 held, 0 in flight, 0 arrived, true", stats)

	transformer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "transformed: ", <-ask(model)) }))
	defer transformer.Close()
	r.endpoints("iris", transformer.Listener.Addr().String())
	r.until("what is held for the model", "1 held, 0 in flight, 1 arrived, true", stats)
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the model") }))
	defer pod.Close()
	r.endpoints("iris-predictor", pod.Listener.Addr().String())
	if got := <-done; got != "200 transformed: 200 the model" {
		t.Errorf("answered %q", got)
	}
	r.until("what is held at the end", "0 held, 0 in flight, 1 arrived, true", stats)
}
