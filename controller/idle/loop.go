package idle

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/queue"
	"berth.dev/berth/controller/runtime"
	rules "berth.dev/berth/core/idle"
	"berth.dev/berth/internal/pause"
	words "berth.dev/berth/kube/idle"
)

const (
	workers = 8                      // notebooks looked at at once
	settle  = 250 * time.Millisecond // for changes of notebooks to gather
	standby = time.Minute            // until it is asked again whether the kind is off
	// slowest is how many periods lie between two looks at a notebook that could not
	// be asked for long: it cannot be stopped, and asking is in vain.
	slowest = 10
)

// loop looks at all notebooks that a policy may stop, each once in its period.
// Where no notebook has such a policy it waits for a change, and sends no requests.
type loop struct {
	reader   client.Reader // of the cache
	writer   client.Client
	events   events.EventRecorder
	informer cache.Cache
	hubs     client.Reader // of the pods of JupyterHubs' users; nil is none
	jobs     *Jobs         // nil is notebooks
	o        Options
	prober   Prober

	wake    chan struct{}
	later   time.Duration                   // until notebooks that gave way are looked at again; 0 is none
	entries map[types.NamespacedName]*entry // of the goroutine of Start
}

// entry is what the loop knows of one notebook that it looks at.
type entry struct {
	pod      types.UID // of which the rest is
	track    rules.Track
	looked   time.Time // the last look; zero is none
	next     time.Time // the next
	failures int       // looks without an answer, one after another
	warned   bool      // an event reported the current warning
	reported string    // problems of its policy that an event reported
	unknown  string    // why its use is not known, as an event reported

	idle time.Duration // for how long nothing had happened in it at the last look; see rules.Decision
	way  queue.Way     // what it gives way to; zero is none

	// Of a pod of a JupyterHub; a Notebook has them in annotations.
	activity, stopsAt time.Time
}

// subject is one notebook at one pass.
type subject struct {
	*kubeflow.Notebook
	pod    *corev1.Pod
	policy rules.Policy
	entry  *entry
	hub    bool     // it is a pod of a JupyterHub, and Notebook has its metadata
	job    *jobPods // it is a training job, and Notebook has its metadata; nil is not
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (l *loop) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable: it runs until ctx ends.
func (l *loop) Start(ctx context.Context) error {
	if err := l.watch(ctx); err != nil {
		return err
	}
	var room <-chan struct{}
	if l.o.Room != nil {
		room = l.o.Room.Changed()
	}
	for {
		var timer <-chan time.Time
		if wait := l.pass(ctx); wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer:
			continue
		case <-l.wake:
		case <-room:
		}
		select { // let what belongs together arrive
		case <-ctx.Done():
			return nil
		case <-time.After(settle):
		}
	}
}

// watch has the loop woken by changes of notebooks and of namespaces.
func (l *loop) watch(ctx context.Context) error {
	poke := func() {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { poke() },
		UpdateFunc: func(any, any) { poke() },
	}
	for _, o := range l.watched() {
		if err := follow(ctx, l.informer, o, handler); err != nil {
			return err
		}
	}
	if hubs, ok := l.hubs.(cache.Cache); ok {
		return follow(ctx, hubs, &corev1.Pod{}, handler)
	}
	return nil
}

// follow has a handler called for the objects of a kind.
func follow(ctx context.Context, in cache.Cache, o client.Object, handler toolscache.ResourceEventHandler) error {
	informer, err := in.GetInformer(ctx, o)
	if err == nil {
		_, err = informer.AddEventHandler(handler)
	}
	if err != nil {
		return fmt.Errorf("watch for idle notebooks: %w", err)
	}
	return nil
}

// pass looks at what is due, and says how long it may be until the next pass; 0 is
// until something changes.
func (l *loop) pass(ctx context.Context) time.Duration {
	if l.o.Mode != nil && l.o.Mode() == runtime.Off {
		clear(l.entries)
		return standby
	}
	due, err := l.survey(ctx)
	if err != nil {
		return standby // the cache has ended, and with it this process
	}
	slots := make(chan struct{}, workers)
	var wg sync.WaitGroup
	for _, s := range due {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			l.look(ctx, s)
		})
	}
	wg.Wait()
	return l.wait()
}

// wait is the time until the first look that is due.
func (l *loop) wait() time.Duration {
	var first time.Time
	for _, e := range l.entries {
		if first.IsZero() || e.next.Before(first) {
			first = e.next
		}
	}
	if first.IsZero() {
		return l.later
	}
	return pause.Shorter(max(first.Sub(l.o.Now()), time.Millisecond), l.later)
}

// survey returns the workloads to look at now, by node: one scrape then serves its neighbors.
func (l *loop) survey(ctx context.Context) ([]subject, error) {
	now := l.o.Now()
	all, returns, err := l.subjects(ctx)
	if err != nil {
		return nil, err
	}
	seen, due := l.track(ctx, all), []subject(nil)
	if l.jobs == nil {
		l.ways(all, returns)
	}
	for _, s := range all {
		if s.entry != nil && !s.entry.next.After(now) {
			due = append(due, s)
		}
	}
	for key := range l.entries {
		if !seen[key] {
			delete(l.entries, key)
		}
	}
	slices.SortStableFunc(due, func(a, b subject) int { return cmp.Compare(a.pod.Spec.NodeName, b.pod.Spec.NodeName) })
	return due, nil
}

// subjects returns all that runs, and the notebooks that start again after they gave way.
func (l *loop) subjects(ctx context.Context) (all []subject, returns map[types.NamespacedName]bool, err error) {
	l.later = 0
	if l.jobs != nil {
		all, err = l.jobSubjects(ctx)
		return all, nil, err
	}
	var list kubeflow.NotebookList
	if err := l.reader.List(ctx, &list); err != nil {
		return nil, nil, fmt.Errorf("list notebooks: %w", err)
	}
	if all, err = l.hubSubjects(ctx); err != nil {
		return nil, nil, err
	}
	running := 0
	returns = map[types.NamespacedName]bool{}
	for i := range list.Items {
		n := &list.Items[i]
		if n.DeletionTimestamp != nil {
			continue
		}
		s := subject{Notebook: n, pod: l.podOf(ctx, n)}
		if l.wayBack(ctx, n, s.pod) {
			returns[client.ObjectKeyFromObject(n)] = true
			continue
		}
		_, stopped := n.Annotations[api.AnnotationStopped]
		if stopped || s.pod == nil {
			l.forget(ctx, n)
			continue
		}
		if ready, _ := readySince(s.pod); ready {
			running++
		}
		all = append(all, s)
	}
	runningNotebooks.Set(float64(running))
	return all, returns, nil
}

// track makes entries for those that a policy may stop, and returns which these are.
func (l *loop) track(ctx context.Context, all []subject) map[types.NamespacedName]bool {
	seen := make(map[types.NamespacedName]bool, len(l.entries))
	named := map[string]rules.Words{}
	for i := range all {
		s := &all[i]
		key := s.key()
		var problems string
		if s.job != nil {
			problems = s.job.problems
		} else {
			problems = l.policy(ctx, s, named)
		}
		e := l.entries[key]
		if s.policy.Never && s.policy.MaxSession == 0 && s.policy.GiveWay == 0 && problems == "" && (s.unwritten() || !l.left(s.Notebook, e)) {
			continue
		}
		if e == nil || e.pod != s.pod.UID {
			e = &entry{pod: s.pod.UID}
			l.entries[key] = e
		}
		seen[key], s.entry = true, e
		l.tellPolicy(*s, problems)
	}
	return seen
}

// left reports whether a notebook that is not looked at has annotations of the loop.
func (l *loop) left(n *kubeflow.Notebook, e *entry) bool {
	a := n.Annotations
	return a[api.AnnotationNotebookStopsAt] != "" || a[api.AnnotationNotebookStoppedFor] != "" ||
		(a[api.AnnotationLastActivity] != "" || a[api.AnnotationActivityCheck] != "") && l.keeps(e)
}

// keeps reports whether the record of activity on a notebook is the loop's to take away:
// where Kubeflow's controller runs notebooks, only while this process looks at it, as
// that controller may stop idle ones by the same record.
func (l *loop) keeps(e *entry) bool {
	return l.o.Mode == nil || l.o.Mode() == runtime.Own || e != nil && e.track.Seen
}

// podOf is the pod of a notebook, as the cache has it; nil is none that lives.
func (l *loop) podOf(ctx context.Context, n *kubeflow.Notebook) *corev1.Pod {
	pod := &corev1.Pod{}
	if err := l.reader.Get(ctx, client.ObjectKey{Namespace: n.Namespace, Name: n.Name + "-0"}, pod); err != nil {
		return nil
	}
	if pod.Labels[api.LabelNotebook] != n.Name || pod.DeletionTimestamp != nil {
		return nil
	}
	return pod
}

// policy fills in the policy of a notebook, and says what cannot be read of it. named
// remembers the words of namespaces.
func (l *loop) policy(ctx context.Context, s *subject, named map[string]rules.Words) (problems string) {
	of, known := named[s.Namespace]
	if !known {
		m := runtime.NamespaceMeta()
		if err := l.reader.Get(ctx, client.ObjectKey{Name: s.Namespace}, m); err == nil {
			of = words.NotebookWords(m.Annotations)
		}
		named[s.Namespace] = of
	}
	p := l.o.Default
	p.Never = p.Never || s.hub
	gives := !s.hub && l.o.Room != nil && l.o.Room.GivesWay(s.pod)
	if gives {
		p.GiveWay = rules.DefaultGiveWay
	}
	p, bad := p.With(of)
	for _, text := range bad {
		problems += "annotations of namespace " + s.Namespace + ": " + text + "; "
	}
	s.policy, bad = p.With(words.NotebookWords(s.Annotations))
	if !gives {
		s.policy.GiveWay = 0
	}
	for _, text := range bad {
		problems += "annotations: " + text + "; "
	}
	return problems
}

// readySince reports whether a pod is ready, and since when.
func readySince(pod *corev1.Pod) (bool, time.Time) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return false, time.Time{}
}

// after is when the next look is due: up to a tenth sooner than the period says,
// so that notebooks that started together do not stay together.
func (e *entry) after(now time.Time, name string, p rules.Policy) time.Time {
	h := fnv.New32a()
	fmt.Fprint(h, name, now.UnixNano())
	period := p.Fitted().Period
	if e.failures > 3 {
		period *= time.Duration(min(e.failures-2, slowest))
	}
	return now.Add(period - period/10*time.Duration(h.Sum32()%100)/100)
}
