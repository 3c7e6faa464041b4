package queue

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/internal/pause"
	"berth.dev/berth/kube/queues"
)

// Name is the controller's name, as the field manager and source of events.
const Name = "berth-queue"

// Changes are gathered before they are counted: for so long, and where counting takes long, for so
// many times as long as it took last, up to a limit.
const (
	gather     = time.Second
	gatherPart = 50
	gatherMost = 5 * time.Second
)

// Options is what the controller needs to know; the zero value will do.
type Options struct {
	// Room learns what is counted, for others of the process that ask it; nil is none.
	Room *Room
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Kind returns Queues for the process of the controllers. No other controller runs them.
func Kind(o Options) runtime.Kind {
	return runtime.Kind{
		Name: v1alpha1.KindQueue, Setting: string(runtime.Own), Scheme: v1alpha1.AddToScheme, Rules: Rules(),
		Cache: func() cache.Options {
			shared := true
			return cache.Options{ByObject: map[client.Object]cache.ByObject{
				&v1alpha1.Queue{}: {Transform: cache.TransformStripManagedFields(), UnsafeDisableDeepCopy: &shared},
			}}
		},
		Add: func(mgr manager.Manager, _ runtime.ModeSource) error {
			asks, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
			if err != nil {
				return fmt.Errorf("ask what is served: %w", err)
			}
			return mgr.Add(newController(mgr, asks.ServerResourcesForGroupVersion, o))
		},
	}
}

// controller counts what queues hold, in one goroutine.
type controller struct {
	informers cache.Cache // with Queues
	open      func() (cache.Cache, error)
	served    func(groupVersion string) (*metav1.APIResourceList, error) // by the API server
	client    client.Client
	events    events.EventRecorder
	now       func() time.Time
	room      *Room
	wake      chan struct{}
	feed      *feed // nil: there are no Queues, and nothing else is watched
	tally     *tally
	took      time.Duration // that the last count took

	owners  *runtime.Owners
	said    map[types.UID]said      // what was written of each Queue
	late    map[types.UID]time.Time // since when what was written is not so
	spent   queue.Spent             // of what pace allows
	writes  queue.Writes
	retry   map[string]time.Time    // when an eviction is tried again, by workload
	warned  map[string]quota.Ending // by workload
	blocked map[string]bool         // workloads that an event reported to be held by a budget
	counted map[string]bool         // queues with metrics of evictions
	given   given
}

func newController(mgr manager.Manager, served func(groupVersion string) (*metav1.APIResourceList, error), o Options) *controller {
	c := &controller{
		informers: mgr.GetCache(), client: mgr.GetClient(), events: mgr.GetEventRecorder(Name), now: o.Now, served: served, room: cmp.Or(o.Room, NewRoom()),
		wake: make(chan struct{}, 1), owners: runtime.NewOwners(mgr.GetAPIReader()),
		open: func() (cache.Cache, error) {
			return cache.New(mgr.GetConfig(), cache.Options{
				HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), ByObject: counted(),
			})
		},
	}
	if c.now == nil {
		c.now = time.Now
	}
	register()
	c.reset()
	return c
}

// reset forgets all that was counted and written.
func (c *controller) reset() {
	c.tally = newTally()
	c.forget(nil)
	c.late, c.spent = map[types.UID]time.Time{}, queue.Spent{}
	c.said, c.retry, c.warned, c.blocked = map[types.UID]said{}, map[string]time.Time{}, map[string]quota.Ending{}, map[string]bool{}
	c.counted = map[string]bool{}
	c.room.set(nil)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (c *controller) NeedLeaderElection() bool { return true }

// gathers is how long changes are gathered before they are counted.
func (c *controller) gathers() time.Duration { return max(gather, min(gatherPart*c.took, gatherMost)) }

// poke has the next pass come.
func (c *controller) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Start implements manager.Runnable: it runs until ctx ends.
func (c *controller) Start(ctx context.Context) error {
	informer, err := c.informers.GetInformer(ctx, &v1alpha1.Queue{})
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { c.poke() }, DeleteFunc: func(any) { c.poke() },
			UpdateFunc: func(old, now any) {
				if differs(old, now) {
					c.poke()
				}
			},
		})
	}
	if err != nil {
		return fmt.Errorf("watch queues: %w", err)
	}
	defer func() {
		if c.feed != nil {
			c.feed.stop()
		}
	}()
	for wait := time.Duration(0); ; {
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer:
		case <-c.wake:
			select { // let what belongs together arrive
			case <-ctx.Done():
				return nil
			case <-time.After(c.gathers()):
			}
		}
		if wait, err = c.pass(ctx); err != nil {
			return err
		}
	}
}

// differs reports whether a Queue has changed otherwise than in its status, or holds new work now and did not before.
func differs(old, now any) bool {
	was, ok := old.(*v1alpha1.Queue)
	is, also := now.(*v1alpha1.Queue)
	return !ok || !also || was.UID != is.UID || was.Generation != is.Generation || queues.Holds(was) != queues.Holds(is)
}

// pass counts what has changed, and does what follows. It returns how long it may be until
// the next pass; 0 is until something changes.
func (c *controller) pass(ctx context.Context) (time.Duration, error) {
	var list v1alpha1.QueueList
	if err := c.informers.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list queues: %w", err)
	}
	if len(list.Items) == 0 {
		if c.feed != nil {
			c.feed.stop()
			c.feed = nil
			c.reset()
		}
		return c.giveClasses(ctx, c.now()), nil
	}
	if c.feed == nil {
		f, err := c.follow(ctx)
		if err != nil {
			return 0, err
		}
		c.feed = f
	}
	now, began := c.now(), time.Now()
	c.room.mu.Lock()
	c.tally.owners = func(namespace string, ref *metav1.OwnerReference) metav1.Object {
		return c.owners.Of(ctx, namespace, ref)
	}
	c.tally.read(list.Items)
	c.feed.drain(c.tally)
	c.tally.settle(now)
	next := c.tally.standing()
	c.room.mu.Unlock()
	c.took = time.Since(began)
	c.room.set(c.tally)

	wait := pause.Shorter(c.giveClasses(ctx, now), c.write(ctx, list.Items, next, now))
	return c.end(ctx, now, wait), nil
}
