package meter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/controller/proxy"
	"berth.dev/berth/controller/readings"
	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/core/usage"
	"berth.dev/berth/internal/pause"
	"berth.dev/berth/kube/price"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/ledger"
)

const (
	gather    = 500 * time.Millisecond // how long changes are gathered before they are written
	heartbeat = 30 * time.Second       // how often it is written that the meter is there
	again     = 5 * time.Second        // after how long a write that failed is tried again

	servedAgain = time.Minute // until Kueue runs, how often it is asked whether it does
)

// Options says what a meter keeps, and what it counts as stranded.
type Options struct {
	Keep     time.Duration // facts that are older are removed; 0 is never
	Export   string        // a folder for a CSV file of each day that is closed; "" is none
	Smallest usage.Room    // CPU and memory that the smallest pod with a GPU needs
	Outside  readings.Outside

	UsageDays int // of how many last days there are GPUUsageDays, where these are defined; 0 is none
}

// Meter follows one cluster.
type Meter struct {
	o       Options
	book    *ledger.Book
	tally   *tally
	mu      sync.Mutex // of tally
	writing sync.Mutex // of batches
	wake    chan struct{}
	copies  client.Client // of GPUUsageDays
	gauges  *proxy.Gauges // under mu; nil is that the cluster has not been read
	written atomic.Int64  // when the book was last written, in milliseconds; 0 is never

	again    time.Duration // recallAgain
	followed func()        // is called when all that is there has been seen, and written if that is possible; nil is not
}

// New returns a meter that writes to a book.
func New(book *ledger.Book, o Options) *Meter {
	return &Meter{o: o, book: book, wake: make(chan struct{}, 1), again: recallAgain}
}

// Run follows the cluster of cfg until ctx ends. It returns an error if it cannot begin, and if the file of the book is found to be
// damaged: opening the book again salvages it.
func (m *Meter) Run(ctx context.Context, cfg *rest.Config) error {
	if s := m.book.Salvaged(); s != nil {
		klog.FromContext(ctx).Error(nil, "The ledger was damaged", "found", s.String())
	}
	source, err := newSource(cfg)
	if err != nil {
		return fmt.Errorf("watch the cluster: %w", err)
	}
	m.copies = source.writer
	if err := m.restore(ctx); err != nil {
		return fmt.Errorf("restore the ledger from GPUUsageDays: %w", err)
	}
	state, err := m.book.State(ctx)
	if err != nil {
		return err
	}
	m.tally = newTally(state, func() time.Time { return time.Now().Truncate(time.Millisecond).UTC() })
	m.tally.smallest = m.o.Smallest
	m.tally.owners = func(namespace string, ref *metav1.OwnerReference) metav1.Object {
		return source.owners.Of(ctx, namespace, ref)
	}
	m.tally.had = func(pod string) bool {
		ended, err := m.book.Ended(ctx, pod)
		return err == nil && ended
	}
	go func() {
		if err := source.cache.Start(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "The cluster is not watched any longer")
		}
	}()
	// Nodes and queues come first, as who holds what is read by them.
	if err := m.first(ctx, source); err != nil {
		return err
	}
	err = follow(ctx, m, source, &v1.Pod{}, m.tally.pod, m.tally.gone)
	if err != nil {
		return err
	}
	if !state.Began.IsZero() {
		m.recall(ctx, source.gauges)
	}
	m.mu.Lock()
	m.tally.missed()
	m.gauges = source.gauges
	m.mu.Unlock()
	// A meter that is killed right after it says that it is ready is asked what it missed: the book has to say that it began.
	if err := m.flush(ctx); ledger.Damaged(err) {
		return err // write logs others, and tries again
	}
	if m.followed != nil {
		m.followed()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var beside sync.WaitGroup
	var damaged error
	beside.Go(func() { m.watch(ctx, source.gauges) })
	beside.Go(func() {
		if damaged = m.closeDays(ctx); damaged != nil {
			stop()
		}
	})
	if source.queues {
		beside.Go(func() { m.watchBudgets(ctx, source.writer) })
	}
	err = m.write(ctx)
	stop()
	beside.Wait()
	return errors.Join(err, damaged)
}

// closeDays closes days as they end, until ctx ends. An error is that the file is damaged.
func (m *Meter) closeDays(ctx context.Context) error {
	for news := true; ; {
		closed, err := m.book.CloseDay(ctx, m.tally.now())
		if err == nil && !closed && news {
			news, err = false, m.keepBooks(ctx)
		}
		switch {
		case ledger.Damaged(err):
			return err
		case err != nil && ctx.Err() == nil:
			klog.FromContext(ctx).Error(err, "A day of the ledger cannot be added up, exported, copied, or removed; reports take longer until it is")
			news = true
		case closed:
			news = true
			continue
		}
		if !pause.For(ctx, heartbeat) {
			return nil
		}
	}
}

// keepBooks does what there is to do when days have been closed: it adds up months, exports and copies days, and removes what is too old.
func (m *Meter) keepBooks(ctx context.Context) error {
	err := errors.Join(m.book.CloseMonths(ctx), m.exportDays(ctx), m.copyDays(ctx))
	if m.o.Keep > 0 && err == nil {
		err = m.book.Forget(ctx, m.tally.now().Add(-m.o.Keep))
	}
	return err
}

// first follows what pods are read by, and returns when it is known.
func (m *Meter) first(ctx context.Context, s *source) error {
	err := follow(ctx, m, s, &v1.Namespace{}, func(n *v1.Namespace) { m.tally.namespaces[n.Name] = n }, func(n *v1.Namespace) { delete(m.tally.namespaces, n.Name) })
	if err == nil {
		err = follow(ctx, m, s, &v1.Node{}, m.tally.node, m.tally.nodeGone)
	}
	if err == nil && s.queues {
		if certain, _ := s.kueue.Ask(); !certain {
			go s.kueue.Follow(ctx, func(time.Time) time.Duration { return servedAgain }, m.poke)
		}
		err = followAll(ctx, m, s, &v1alpha1.Queue{}, func(all []*v1alpha1.Queue) {
			m.tally.queues, m.tally.members = all, queues.NewMembers(all).In(queues.Around{Owners: m.tally.owners, Kueue: s.kueue.Runs})
			m.tally.offers.Count(all)
			m.tally.traceQueues(all)
		})
	}
	if err == nil && s.books {
		err = followAll(ctx, m, s, &v1alpha1.PriceBook{}, func(all []*v1alpha1.PriceBook) { m.tally.ruledBy(price.Rules(all)) })
	}
	return err
}

// followAll has all objects of a kind read when one of them has changed what it asks for.
func followAll[T client.Object](ctx context.Context, m *Meter, s *source, kind T, read func([]T)) error {
	list := map[string]T{}
	all := func() { read(slices.Collect(maps.Values(list))) }
	return follow(ctx, m, s, kind, func(o T) {
		was, has := list[o.GetName()]
		if list[o.GetName()] = o; !has || was.GetGeneration() != o.GetGeneration() || was.GetUID() != o.GetUID() {
			all()
		}
	}, func(o T) {
		delete(list, o.GetName())
		all()
	})
}

// follow has each object of a kind seen as it is, and when it is gone, and returns when those that are there have been.
func follow[T client.Object](ctx context.Context, m *Meter, s *source, kind T, seen, gone func(T)) error {
	informer, err := s.cache.GetInformer(ctx, kind)
	if err != nil {
		return fmt.Errorf("watch %T: %w", kind, err)
	}
	do := func(o any, what func(T)) {
		if lost, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = lost.Obj
		}
		if object, ok := o.(T); ok {
			m.mu.Lock()
			what(object)
			m.mu.Unlock()
			m.poke()
		}
	}
	registered, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { do(o, seen) }, UpdateFunc: func(_, o any) { do(o, seen) }, DeleteFunc: func(o any) { do(o, gone) },
	})
	if err != nil {
		return fmt.Errorf("watch %T: %w", kind, err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), registered.HasSynced) {
		return ctx.Err()
	}
	return nil
}

func (m *Meter) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// write writes what changes until ctx ends, and then what has changed last. It keeps what cannot be written, and tries
// again, except if the file is damaged.
func (m *Meter) write(ctx context.Context) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		wait := gather
		if err := m.flush(context.WithoutCancel(ctx)); err != nil {
			if ledger.Damaged(err) {
				return err
			}
			klog.FromContext(ctx).Error(err, "The ledger is behind: what has changed is kept, and written as soon as that is possible")
			wait = again
		}
		if ctx.Err() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			continue
		case <-beat.C:
		case <-m.wake:
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// flush writes what has changed. Batches are written one after the other.
func (m *Meter) flush(ctx context.Context) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	m.tally.settle()
	m.tally.use.settle(m.tally.now(), &m.tally.batch)
	batch, now := m.tally.batch, m.tally.now()
	m.tally.batch = ledger.Batch{}
	m.mu.Unlock()
	err := m.book.Write(ctx, &batch, now)
	if err != nil {
		m.mu.Lock()
		m.tally.batch = batch.With(&m.tally.batch)
		m.mu.Unlock()
		m.poke()
		return err
	}
	m.written.Store(now.UnixMilli())
	return nil
}

// source is where the meter reads from.
type source struct {
	cache  cache.Cache
	owners *runtime.Owners
	gauges *proxy.Gauges
	writer client.Client // of how budgets stand
	queues bool          // the API server has Queues
	books  bool          // and PriceBooks
	kueue  *queues.Kueue
}
