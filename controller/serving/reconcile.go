package serving

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/controller/runtime"
	rules "berth.dev/berth/core/serving"
	"berth.dev/berth/kube/request"
	objects "berth.dev/berth/kube/serving"
)

// How long until a service is looked at again for what no watch tells.
const (
	knownAgain   = 200 * time.Millisecond // whether there are activators, after a start
	trafficAgain = 2 * time.Second        // its requests, while it has replicas that they decide about
	quietAgain   = 5 * trafficAgain       // the same while there are none
	pokedAgain   = time.Minute            // the same where activators say when there are some
	refusedAgain = 10 * time.Second       // a child that is refused, or whose name another object has
	logAgain     = 20 * time.Second       // the log of a server that is not ready
)

// reconciler brings one service at a time to what its spec and its requests say. Its memory is needed to write and read less, and for
// scaling down, which starts over after a restart.
type reconciler struct {
	o        Options
	mode     func() runtime.Mode
	client   client.Client // reads services and runtimes from the manager's cache, and writes
	children client.Reader // reads Deployments, Services, and pods from their cache
	live     client.Reader // reads from the API server
	events   record.EventRecorder
	logs     func(ctx context.Context, pod *corev1.Pod, container string, before bool) ([]string, error)
	report   func(ctx context.Context, metric rules.Metric, pod *corev1.Pod) (rules.Figure, error) // what a replica reports; nil is nothing
	now      func() time.Time
	runtimes runtimes

	mu       sync.Mutex
	memories map[types.NamespacedName]*memory // guarded by mu; each is used by the one pass over its service
}

// memory is what is kept of a service between passes.
type memory struct {
	uid      types.UID
	history  rules.History
	marks    map[string]string // of children that were applied, by kind and name: the resource version they then had
	heard    map[types.UID]heard
	starting map[types.UID]bool // pods that were seen before they were ready
	told     string             // the fault that was last told in an event
	policy   string             // what an event said of its policy for idle workloads
	moves    string             // why replicas leave their nodes, as an event said
	allowed  allowed
	load     load
	unkept   string // what an event said of a revision that cannot be kept

	record    *appsv1.ControllerRevision // of the revision that a canary is beside, as it was read last
	backedOut backedOut
	shown     shown
	route     routed
}

// heard is what was read in the log of a pod.
type heard struct {
	at    time.Time
	fault *rules.Fault
}

func newReconciler(o Options, c client.Client, children, live client.Reader, events record.EventRecorder) *reconciler {
	return &reconciler{o: o, client: c, children: children, live: live, events: events, now: time.Now, memories: map[types.NamespacedName]*memory{}}
}

// remember returns what is kept of a service; of an earlier one of its name nothing is.
func (r *reconciler) remember(o *kserve.InferenceService) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(o)
	m := r.memories[key]
	if m == nil || m.uid != o.UID {
		m = &memory{uid: o.UID, marks: map[string]string{}, heard: map[types.UID]heard{}, starting: map[types.UID]bool{}}
		r.memories[key] = m
	}
	return m
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if r.mode != nil && r.mode() != runtime.Own {
		return reconcile.Result{}, nil
	}
	o := &kserve.InferenceService{}
	if err := r.client.Get(ctx, req.NamespacedName, o); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.mu.Lock()
			delete(r.memories, req.NamespacedName)
			r.mu.Unlock()
			if r.o.gone != nil {
				r.o.gone(req.Namespace, req.Name)
			}
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if o.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // its children go with it
	}
	p := &pass{reconciler: r, object: o, mem: r.remember(o)}
	err := p.run(ctx)
	return reconcile.Result{RequeueAfter: p.again}, err
}

// pass is one look at one service.
type pass struct {
	*reconciler
	object    *kserve.InferenceService // from the cache: not to be changed
	mem       *memory
	written   *objects.Written
	runtime   *objects.Runtime // nil with containers of the user's own
	runtimes  []*objects.Runtime
	newest    *objects.Children    // of the spec as it is; nil if nothing was made
	made      *objects.Children    // of the revision that a canary is beside, else newest
	existing  *appsv1.Deployment   // nil if there is none
	pods      []*corev1.Pod        // that are not being deleted and have not ended, without those of a canary or a transformer
	revisions []rules.Revision     // that are kept, in no order
	leave     map[types.UID]string // why pods leave their nodes
	taken     string               // which name of a child another object has, as a sentence; "" is none
	behind    bool                 // all requests go through activators
	refused   string               // what the API server says to a child that it does not take; "" is nothing
	again     time.Duration        // look again after this; 0 is when something changes

	front    transformer
	traffic  *rules.Traffic    // nil is not counted
	canary   *rules.CanarySeen // nil is none
	beside   rules.Revision    // that the canary is beside
	canaries []*corev1.Pod     // as pods
	earlier  bool              // pods of an earlier canary are there, if only at their end
}

// later asks for another look after d, at the latest.
func (p *pass) later(d time.Duration) {
	if d > 0 && (p.again == 0 || d < p.again) {
		p.again = d
	}
}

// run reads, decides, writes, and says.
func (p *pass) run(ctx context.Context) error {
	if p.o.behind != nil {
		behind, known := p.o.behind()
		if !known {
			p.later(knownAgain)
			return nil
		}
		p.behind = behind
	}
	fault, err := p.read(ctx)
	if err != nil {
		return err
	}
	seen := &rules.Seen{Service: &p.written.Service, Refused: fault}
	if err := p.look(ctx); err != nil {
		return err
	}
	if seen.Wanted, seen.Why = p.want(p.readLoad(ctx)); fault == nil {
		if err := p.write(ctx, seen.Wanted); err != nil {
			return err
		}
	}
	seen.Unread, seen.Unbound = p.mem.load.why, rules.Unbounded(p.written.Service.Concurrency, p.activators())
	p.see(ctx, seen)
	p.seeCanary(ctx)
	seen.Canary, seen.Transformer = p.canary, p.seeTransformer(ctx)
	if err := errors.Join(p.complete(ctx, seen), p.protect(ctx, seen), p.measure(ctx), p.route(ctx)); err != nil {
		return err
	}
	return p.say(ctx, seen)
}

// read reads the service and chooses its runtime.
func (p *pass) read(ctx context.Context) (fault *rules.Fault, err error) {
	if p.written, fault = objects.Of(p.object); fault != nil {
		return fault, nil
	}
	if err := p.readPolicy(ctx); err != nil {
		return nil, err
	}
	if err := p.readCredentials(ctx, p.written); err != nil {
		return nil, err
	}
	var own kserve.ServingRuntimeList
	if err := p.client.List(ctx, &own, client.InNamespace(p.object.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var all kserve.ClusterServingRuntimeList
	if err := p.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range own.Items {
		if r := p.reconciler.runtimes.read(&own.Items[i].ObjectMeta, own.Items[i].Spec, false); r != nil {
			p.runtimes = append(p.runtimes, r)
		}
	}
	for i := range all.Items {
		if r := p.reconciler.runtimes.read(&all.Items[i].ObjectMeta, all.Items[i].Spec, true); r != nil {
			p.runtimes = append(p.runtimes, r)
		}
	}
	p.runtime, fault = objects.Choose(p.written, p.runtimes)
	return fault, nil
}

// look reads the children from their cache.
func (p *pass) look(ctx context.Context) error {
	var err error
	if p.existing, err = p.deployment(ctx, objects.ChildName(p.object.Name)); err != nil {
		return err
	}
	if p.front.existing, err = p.deployment(ctx, objects.TransformerName(p.object.Name)); err != nil {
		return err
	}
	var list corev1.PodList
	if err := p.children.List(ctx, &list, client.InNamespace(p.object.Namespace), client.MatchingFields{byService: p.object.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range list.Items {
		pod := &list.Items[i]
		there := pod.DeletionTimestamp == nil && !request.Ended(pod)
		switch canary := objects.IsCanary(pod.Labels); {
		case objects.IsTransformer(pod.Labels):
			if there {
				p.front.pods = append(p.front.pods, pod)
			}
		case canary && there:
			p.canaries = append(p.canaries, pod)
		case there:
			p.pods = append(p.pods, pod)
		case canary:
			p.earlier = true
		}
	}
	p.forget()
	return errors.Join(p.readRevisions(ctx), p.readLeaving(ctx))
}

// deployment returns the Deployment of the service with a name; nil is none.
func (p *pass) deployment(ctx context.Context, name string) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	err := p.children.Get(ctx, client.ObjectKey{Namespace: p.object.Namespace, Name: name}, d)
	if err != nil || !metav1.IsControlledBy(d, p.object) {
		return nil, client.IgnoreNotFound(err)
	}
	return d, nil
}

// forget drops what is remembered of pods that are gone.
func (p *pass) forget() {
	gone := func(uid types.UID) bool {
		return !slices.ContainsFunc(slices.Concat(p.all(), p.front.pods), func(pod *corev1.Pod) bool { return pod.UID == uid })
	}
	maps.DeleteFunc(p.mem.heard, func(uid types.UID, _ heard) bool { return gone(uid) })
	maps.DeleteFunc(p.mem.starting, func(uid types.UID, _ bool) bool { return gone(uid) })
}

// want decides how many replicas there should be. load is what those that are ready report, if that decides.
func (p *pass) want(load *rules.Load) (int, string) {
	s := &p.written.Service
	if s.Stopped {
		return 0, "the service is stopped"
	}
	if p.o.Traffic != nil {
		if t, ok := p.o.Traffic(p.object.Namespace, p.object.Name); ok {
			p.traffic = &t
		}
	}
	traffic, has := p.traffic, rules.Replicas{Wanted: p.wanted(), Ready: p.ready(), New: p.existing == nil, Load: load}
	now := p.now()
	n, why := p.mem.history.Want(now, &s.Scale, has, traffic)
	if traffic != nil && n > 0 && s.Scale.Follows() {
		again := trafficAgain
		if quiet := traffic.InFlight+traffic.Held == 0 && now.Sub(traffic.Last) > rules.StableWindow; quiet && n == max(s.Scale.Min, 1) {
			idle := p.mem.history.Idle(now, &s.Scale, has, traffic)
			if again = max(idle, trafficAgain); s.Scale.Max > n {
				again = min(again, quietAgain)
			}
			if p.o.activators != nil && s.Scale.Max > n { // its next request leads to a pass
				again = pokedAgain
				if idle > 0 {
					again = min(max(idle, trafficAgain), pokedAgain)
				}
			}
		}
		p.later(again)
	}
	return n, why
}

// activators is how many activators stand before the service where it needs any.
func (p *pass) activators() int {
	switch {
	case p.o.activators != nil:
		return p.o.activators()
	case p.o.Traffic != nil:
		return 1 // in this process
	}
	return 0
}

// wanted is how many replicas the Deployment asks for, without those in the place of others that leave their nodes.
func (p *pass) wanted() int {
	if p.existing == nil || p.existing.Spec.Replicas == nil {
		return 0
	}
	return max(0, int(*p.existing.Spec.Replicas)-moving(p.existing))
}

// ready is how many replicas answer.
func (p *pass) ready() int { return answering(p.pods) }

// answering counts the pods that are ready.
func answering(pods []*corev1.Pod) (n int) {
	for _, pod := range pods {
		if condition(pod, corev1.PodReady).Status == corev1.ConditionTrue {
			n++
		}
	}
	return n
}
