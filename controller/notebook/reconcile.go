package notebook

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/runtime"
	rules "berth.dev/berth/core/notebook"
)

// How long until a notebook is looked at again for what no watch tells.
const (
	roomAgain    = 10 * time.Second // a change that waits for room
	refusedAgain = 30 * time.Second // a StatefulSet or Service that is refused
	takenAgain   = time.Minute      // a name that another object has
	earlierAgain = time.Second      // an earlier notebook of the name that is being removed
	staleAgain   = time.Second      // a write that came too late; mostly a watch is quicker
	noIstioFor   = time.Minute      // that the cluster has no VirtualServices
	passing      = time.Second      // how long a state that passes by itself may go untold
)

// Reconciler brings one notebook at a time to what its spec says. Nothing that it
// keeps in memory is needed to be right, only to write and ask less.
type Reconciler struct {
	o       Options
	client  client.Client // reads from the cache
	reader  client.Reader // reads from the API server
	now     func() time.Time
	cluster *clusterCache
	lines   *lines

	mu      sync.Mutex
	notes   map[string]*memory // by ID
	retry   map[string]bool    // by ID: a quota has changed, so try again
	unsure  map[string]bool    // by ID: its VirtualService was changed or deleted
	noIstio time.Time          // when the cluster had no VirtualServices; zero is that it has

	routable chan struct{} // has one when it has VirtualServices after it had none
}

// memory is what is kept of one notebook between passes. Only the pass over it
// touches it, and there is never more than one.
type memory struct {
	uid     types.UID // of the notebook
	set     types.UID // of its StatefulSet, of which generation settled is as it should be
	settled int64
	said    *said              // nil is nothing
	since   time.Time          // when there last was a pod, or a new StatefulSet
	held    time.Time          // since when a status that passes is not written; zero is that none is
	retold  map[types.UID]bool // warnings of children that were reissued
	evicted types.UID          // the pod of which it was told last that it is preempted
	routed  string             // hash of its VirtualService, if that is as it should be
}

// said is a status that was written, until the cache has it.
type said struct {
	before string // resource version of the notebook that it was written over
	status kubeflow.NotebookStatus
}

// NewReconciler makes a Reconciler. c reads from a cache with CacheOptions, reader
// from the API server.
func NewReconciler(c client.Client, reader client.Reader, o Options, now func() time.Time) *Reconciler {
	return &Reconciler{
		o: o, client: c, reader: reader, now: now, cluster: &clusterCache{reader: reader, now: now}, lines: newLines(),
		notes: map[string]*memory{}, retry: map[string]bool{}, unsure: map[string]bool{}, routable: make(chan struct{}, 1),
	}
}

// remember returns what is kept of a notebook; of an earlier one of its name nothing
// is.
func (r *Reconciler) remember(nb *kubeflow.Notebook) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := nb.Namespace + "/" + nb.Name
	m := r.notes[id]
	if m == nil || m.uid != nb.UID {
		m = &memory{uid: nb.UID}
		r.notes[id] = m
	}
	return m
}

// forget drops what is kept of a notebook that is gone.
func (r *Reconciler) forget(id string) {
	r.lines.drop(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.notes, id)
	delete(r.retry, id)
	delete(r.unsure, id)
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if r.o.Mode != nil && r.o.Mode() != runtime.Own {
		return reconcile.Result{}, nil
	}
	if err := r.lines.fill(ctx, r.client, &r.o, r.cluster); err != nil {
		return reconcile.Result{}, err
	}
	nb := &kubeflow.Notebook{}
	if err := r.client.Get(ctx, req.NamespacedName, nb); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.forget(req.Namespace + "/" + req.Name)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, err
	}
	if nb.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // its children go with it
	}
	p := &pass{Reconciler: r, nb: nb, mem: r.remember(nb)}
	if err := p.run(ctx); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: p.again}, nil
}

// run is one pass: read, bring about, say.
func (p *pass) run(ctx context.Context) error {
	if err := p.look(ctx); err != nil {
		return err
	}
	invalid, err := p.build()
	if err != nil {
		return err
	}
	if p.pod != nil {
		p.mem.since = p.now() // what the API server rejected before is not news
	}
	if invalid != nil {
		p.facts.Invalid = invalid.Error()
		if err := p.halt(ctx); err != nil {
			return err
		}
	} else if err := p.bring(ctx); err != nil {
		return err
	}
	if err := p.fill(ctx); err != nil {
		return err
	}
	if err := p.retell(ctx); err != nil {
		return err
	}
	return p.say(ctx)
}

// bring makes the children what they should be. Where one is refused or its name
// taken, it notes that and does no more.
func (p *pass) bring(ctx context.Context) error {
	if ok, err := p.serve(ctx); !ok || err != nil {
		return err
	}
	if err := p.route(ctx); err != nil {
		return err
	}
	room, why := rules.RoomUnknown, ""
	for {
		switch rules.Next(p.made.want, p.setNow(), p.running(), room) {
		case rules.Create:
			return p.createSet(ctx)
		case rules.Update:
			return p.updateSet(ctx)
		case rules.AskRoom:
			room, why = p.room(ctx)
			continue
		case rules.Hold:
			p.facts.Waits = why
			p.later(roomAgain)
		case rules.Replace:
			return p.replace(ctx)
		case rules.Keep:
		}
		return nil
	}
}
