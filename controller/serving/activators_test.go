package serving

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"berth.dev/berth/api"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// pods are activators whose lines a test writes, by its own clock.
type pods struct {
	*activators
	t       *testing.T
	cluster client.Client
	ctx     context.Context //nolint:containedctx // of the streams, which the test ends
	lines   map[string]chan *objects.Stats
	at      time.Time
	follows sync.WaitGroup
}

func newPods(t *testing.T, names ...string) *pods {
	p := &pods{t: t, ctx: t.Context(), cluster: fake.NewClientBuilder().Build(), lines: map[string]chan *objects.Stats{}, at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	ctx, stop := context.WithCancel(context.Background())
	p.ctx = ctx
	t.Cleanup(func() {
		stop()
		p.follows.Wait()
	})
	for _, name := range names {
		p.lines[name] = make(chan *objects.Stats)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: api.ActivatorNamespace, Name: name, Finalizers: []string{"test/ends"}, Labels: map[string]string{"app": api.ActivatorApp}}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if err := p.cluster.Create(ctx, pod); err != nil {
			t.Fatal(err)
		}
	}
	p.activators = newActivators(p.cluster, func(ctx context.Context, pod string, line func(*objects.Stats)) error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case l := <-p.lines[pod]:
				if l == nil {
					return io.EOF
				}
				line(l)
			}
		}
	})
	p.now = func() time.Time { return p.at }
	return p
}

// look looks for pods after a while.
func (p *pods) look(after time.Duration) {
	p.at = p.at.Add(after)
	p.activators.look(p.ctx, &p.follows)
}

// say has a pod say a line, and waits until it counts. A nil line ends its stream.
func (p *pods) say(pod string, line *objects.Stats) {
	p.t.Helper()
	p.lines[pod] <- line
	for {
		p.mu.Lock()
		r := p.replicas[pod]
		done := r.connected == (line != nil)
		for name, is := range lineOf(line) {
			done = done && r.stats.Services[name] == is
		}
		p.mu.Unlock()
		if done {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func lineOf(l *objects.Stats) map[string]*objects.Requests {
	if l == nil {
		return nil
	}
	return l.Services
}

// gone removes a deleted pod, as its node does when its process has ended.
func (p *pods) gone(name string) {
	p.t.Helper()
	var pod corev1.Pod
	if err := p.cluster.Get(p.ctx, client.ObjectKey{Namespace: api.ActivatorNamespace, Name: name}, &pod); err != nil {
		p.t.Fatal(err)
	}
	pod.Finalizers = nil
	if err := p.cluster.Update(p.ctx, &pod); err != nil {
		p.t.Fatal(err)
	}
}

// remove begins to delete a pod.
func (p *pods) remove(name string) {
	p.t.Helper()
	if err := p.cluster.Delete(p.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: api.ActivatorNamespace, Name: name}}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pods) state() string {
	behind, known := p.Behind()
	t, ok := p.Traffic("shop", "iris")
	last := "never"
	if !t.Last.IsZero() {
		last = p.at.Sub(t.Last).String()
	}
	return fmt.Sprintf("behind %v known %v, counted %v: held %d, in flight %d, stable %g, last %s, partial %v", behind, known, ok, t.Held, t.InFlight, t.Stable, last, t.Partial)
}

func TestWhatActivatorsSayIsAddedUp(t *testing.T) {
	p := newPods(t, "a", "b")
	began := p.at
	check := func(when, want string) {
		t.Helper()
		if got := p.state(); got != want {
			t.Errorf("%s: %s\nwant %s", when, got, want)
		}
	}
	line := func(r *objects.Requests) *objects.Stats {
		return &objects.Stats{Began: began, Services: map[string]*objects.Requests{"shop/iris": r}}
	}
	check("before pods were looked for", "behind false known false, counted false: held 0, in flight 0, stable 0, last never, partial false")
	p.look(0)
	if <-p.changed; true {
		p.say("a", line(&objects.Requests{InFlight: 1, Stable: 0.5, Last: began}))
	}
	check("when one has not said anything yet", "behind false known false, counted true: held 0, in flight 1, stable 0.5, last 0s, partial true")
	p.say("b", line(&objects.Requests{Held: 2, Stable: 2}))
	check("with both", "behind true known true, counted true: held 2, in flight 1, stable 2.5, last 0s, partial false")
	if got := <-p.wakes; got.String() != "shop/iris" {
		t.Errorf("woken for %s", got)
	}
	p.say("b", nil)
	check("when the stream of one breaks", "behind true known true, counted true: held 2, in flight 1, stable 2.5, last 0s, partial true")
	p.say("b", line(&objects.Requests{Last: began.Add(-time.Hour)}))
	check("when it is back", "behind true known true, counted true: held 0, in flight 1, stable 0.5, last 0s, partial false")
	p.remove("a")
	p.look(0)
	check("while one lets its requests end", "behind true known true, counted true: held 0, in flight 1, stable 0.5, last 0s, partial false")
	p.gone("a")
	p.look(time.Second)
	check("when one is gone, its last request counts on", "behind true known true, counted true: held 0, in flight 0, stable 0, last 1s, partial false")
	p.remove("b")
	p.gone("b")
	p.look(time.Second)
	check("without any, for a minute, no replica goes", "behind true known true, counted true: held 0, in flight 0, stable 0, last 2s, partial true")
	p.look(2 * time.Minute)
	check("and then services do without", "behind false known true, counted false: held 0, in flight 0, stable 0, last 2m2s, partial false")
	p.Forget("shop", "iris")
	check("when the service is gone", "behind false known true, counted false: held 0, in flight 0, stable 0, last never, partial false")
}

func TestAServiceIsBehindActivatorsWhileThereAreSome(t *testing.T) {
	w := newWorld(t, tensorflow)
	behind, known := false, false
	w.r.o.behind = func() (bool, bool) { return behind, known }
	if n := w.pass(); n != 0 {
		t.Errorf("%d writes before it is known whether there are activators", n)
	}
	selector := func() string {
		var s corev1.Service
		if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist"}, &s); err != nil {
			t.Fatal(err)
		}
		return s.Spec.Selector[api.SelectorActivator]
	}
	known = true
	w.pass()
	if got := selector(); got != "" {
		t.Errorf("without activators requests go by %q", got)
	}
	behind, w.traffic = true, &rules.Traffic{}
	w.pass()
	if got := selector(); got != api.ByActivator {
		t.Errorf("with activators requests go by %q", got)
	}
	if n := w.pass(); n != 0 {
		t.Errorf("%d writes of a service at rest", n)
	}
	behind = false
	w.pass()
	if got := selector(); got != "" {
		t.Errorf("when there are no more activators requests go by %q", got)
	}
}

func TestAStreamIsReadLineByLine(t *testing.T) {
	next := make(chan string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(api.StatsTokenHeader) != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		for text := range next {
			fmt.Fprintln(w, text)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	defer server.Close()
	if err := read(t.Context(), server.Client(), server.URL, "other", nil); err == nil || err.Error() != "it answers 401 Unauthorized" {
		t.Errorf("with another token: %v", err)
	}
	got, ended := make(chan *objects.Stats), make(chan error)
	go func() {
		ended <- read(t.Context(), server.Client(), server.URL, "secret", func(s *objects.Stats) { got <- s })
	}()
	next <- `{"began":"2026-01-02T03:04:05Z","services":{"shop/iris":{"held":1}}}`
	if s := <-got; s.Services["shop/iris"].Held != 1 {
		t.Errorf("the first line is %+v", s)
	}
	next <- `{"began":"2026-01-02T03:04:05Z","services":{"shop/iris":null}}`
	if s := <-got; len(s.Services) != 1 || s.Services["shop/iris"] != nil {
		t.Errorf("the second line is %+v", s)
	}
	next <- `nonsense`
	if err := <-ended; err == nil {
		t.Error("nonsense is taken for a line")
	}
	close(next)
}
