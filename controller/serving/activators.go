package serving

import (
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"berth.dev/berth/api"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// How activators are followed.
const (
	lookEvery  = 2 * time.Second  // for pods of activators
	firstWait  = 10 * time.Second // for what those that are there say first
	goneFor    = time.Minute      // without a ready one until services do without
	retryEvery = 500 * time.Millisecond
	silentFor  = 15 * time.Second // three times as long as an activator is silent at most
)

// activators follows all pods of `berth activator`, and adds up what they say. Safe for concurrent use.
type activators struct {
	pods    client.Reader
	listen  func(ctx context.Context, pod string, line func(*objects.Stats)) error // until the stream ends
	now     func() time.Time
	wakes   chan types.NamespacedName // services for which a request is held
	changed chan event.GenericEvent   // when behind changes

	mu       sync.Mutex
	began    time.Time // zero until pods were looked for
	seen     time.Time // when one was ready last
	behind   bool
	replicas map[string]*replica  // the ready pods, by name
	last     map[string]time.Time // of the last request for a service at pods that have gone
}

// replica is one pod of the activator.
type replica struct {
	stop      func()
	connected bool // its figures are those of this moment
	stats     objects.Stats
}

func newActivators(pods client.Reader, listen func(context.Context, string, func(*objects.Stats)) error) *activators {
	return &activators{
		pods: pods, listen: listen, now: time.Now, wakes: make(chan types.NamespacedName, 1024), changed: make(chan event.GenericEvent, 1),
		replicas: map[string]*replica{}, last: map[string]time.Time{},
	}
}

// run follows activators until ctx ends.
func (a *activators) run(ctx context.Context) error {
	var following sync.WaitGroup
	defer following.Wait()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		a.look(ctx, &following)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look finds the pods that are ready.
func (a *activators) look(ctx context.Context, following *sync.WaitGroup) {
	var list corev1.PodList
	if err := a.pods.List(ctx, &list, client.InNamespace(api.ActivatorNamespace), client.MatchingLabels{"app": api.ActivatorApp}); err != nil {
		klog.V(2).InfoS("Look for activators", "err", err) // what is known of them stays
		return
	}
	a.mu.Lock()
	now, ready := a.now(), map[string]bool{}
	for i := range list.Items {
		p := &list.Items[i]
		if p.DeletionTimestamp != nil && a.replicas[p.Name] != nil {
			ready[p.Name] = true // it lets its last requests end
			continue
		}
		if p.DeletionTimestamp != nil || condition(p, corev1.PodReady).Status != corev1.ConditionTrue {
			continue
		}
		ready[p.Name], a.seen = true, now
		if a.replicas[p.Name] == nil {
			ctx, stop := context.WithCancel(ctx)
			r := &replica{stop: stop}
			a.replicas[p.Name] = r
			following.Go(func() { a.follow(ctx, p.Name, r) })
		}
	}
	for name, r := range a.replicas {
		if !ready[name] {
			r.stop()
			a.keep(r)
			delete(a.replicas, name)
		}
	}
	if a.began.IsZero() {
		a.began = now
	}
	was := a.behind
	a.behind = !a.seen.IsZero() && now.Sub(a.seen) < goneFor
	flipped := was != a.behind
	a.mu.Unlock()
	if flipped {
		select {
		case a.changed <- event.GenericEvent{Object: &corev1.Pod{}}:
		case <-ctx.Done():
		}
	}
}

// keep remembers when a pod that goes had requests last.
func (a *activators) keep(r *replica) {
	for name, s := range r.stats.Services {
		if s.Last.After(a.last[name]) {
			a.last[name] = s.Last
		}
	}
}

// follow reads what one pod says until ctx ends.
func (a *activators) follow(ctx context.Context, pod string, r *replica) {
	for ctx.Err() == nil {
		first := true
		err := a.listen(ctx, pod, func(line *objects.Stats) {
			a.take(r, line, first)
			first = false
		})
		a.mu.Lock()
		r.connected = false
		a.mu.Unlock()
		klog.V(2).InfoS("An activator is not followed", "pod", pod, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(retryEvery):
		}
	}
}

// take takes a line of a pod. The first one of a connection has all services.
func (a *activators) take(r *replica, line *objects.Stats, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if first {
		a.keep(r) // it may have been started again
		r.stats = objects.Stats{Services: map[string]*objects.Requests{}}
	}
	r.connected, r.stats.Began = true, line.Began
	for name, s := range line.Services {
		if s == nil {
			delete(r.stats.Services, name)
			continue
		}
		was := r.stats.Services[name]
		r.stats.Services[name] = s
		if namespace, service, _ := strings.Cut(name, "/"); s.Held > 0 || begins(was, s) {
			select {
			case a.wakes <- types.NamespacedName{Namespace: namespace, Name: service}:
			default: // it is said again, or seen when the service is looked at next
			}
		}
	}
}

// begins reports whether requests come again for a service that had none: as long as there are none, it is hardly looked at.
func begins(was, is *objects.Requests) bool {
	busy := func(r *objects.Requests) bool {
		return r != nil && (r.InFlight > 0 || r.Stable > 0 || r.StableRate > 0)
	}
	return busy(is) && !busy(was)
}

// Behind reports whether services are to be asked through activators; known is false until that is known.
func (a *activators) Behind() (behind, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.began.IsZero() {
		return false, false
	}
	for _, r := range a.replicas {
		if r.stats.Began.IsZero() && a.now().Sub(a.began) < firstWait {
			return false, false
		}
	}
	return a.behind, true
}

// Ready is how many activators there are before services; 0 is that services do without.
func (a *activators) Ready() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.behind {
		return 0
	}
	return max(len(a.replicas), 1)
}

// Forget forgets when a service that is gone was asked last.
func (a *activators) Forget(namespace, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, namespace+"/"+name)
}

// Traffic adds up what activators say of a service. ok is false if none knows it.
func (a *activators) Traffic(namespace, name string) (t rules.Traffic, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := namespace + "/" + name
	t.Last, t.Partial = a.last[of], len(a.replicas) == 0 && a.behind
	for _, r := range a.replicas {
		t.Partial = t.Partial || !r.connected
		s := r.stats.Services[of]
		if s == nil {
			continue
		}
		ok = true
		t.InFlight, t.Held = t.InFlight+s.InFlight, t.Held+s.Held
		t.Stable, t.Panic, t.StableRate, t.PanicRate = t.Stable+s.Stable, t.Panic+s.Panic, t.StableRate+s.StableRate, t.PanicRate+s.PanicRate
		t.Split = t.Split.Plus(s.Split.Value())
		if s.Last.After(t.Last) {
			t.Last = s.Last
		}
		if r.stats.Began.After(t.Since) {
			t.Since = r.stats.Began
		}
	}
	return t, ok || t.Partial
}
