package runtime

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// modeWatcher knows the mode of one kind, and follows the cluster if the setting is
// Auto.
type modeWatcher struct {
	kind    Kind
	reader  client.Reader // of the cache
	client  kubernetes.Interface
	events  events.EventRecorder
	in      client.ObjectKey        // the record of modes
	look    chan struct{}           // a Deployment that matters has changed
	changed chan event.GenericEvent // see ModeSource.Changed

	mu  sync.Mutex
	now *modeState // nil until the cluster was read; guarded by mu
}

// modeState is a mode and its cause.
type modeState struct {
	mode  Mode
	other otherController // zero if there is none
}

// why returns the cause of the mode, or "" if there is nothing to say.
func (s modeState) why(setting string) string {
	switch {
	case setting != Auto && s.other.name != "" && s.mode == Own:
		return fmt.Sprintf("although %s is running: both write the same objects", s.other)
	case s.other.name != "":
		return fmt.Sprintf("%s is running", s.other)
	}
	return ""
}

// newModeWatcher adds a watcher of the mode of kind to a manager. c writes the record.
func newModeWatcher(mgr manager.Manager, c kubernetes.Interface, kind Kind, lease *Lease) (*modeWatcher, error) {
	w := &modeWatcher{
		kind: kind, reader: mgr.GetCache(), client: c, events: mgr.GetEventRecorder(Name),
		look: make(chan struct{}, 1), changed: make(chan event.GenericEvent, 1),
	}
	w.in.Namespace, w.in.Name = recordIn(lease)
	deployments, err := mgr.GetCache().GetInformer(context.Background(), &appsv1.Deployment{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	if _, err := deployments.AddEventHandler(w); err != nil {
		return nil, err
	}
	return w, mgr.Add(w)
}

// recordIn returns where the record of modes is: next to the lease.
func recordIn(l *Lease) (namespace, name string) {
	if l == nil {
		return Namespace, Name
	}
	return l.Namespace, l.Name
}

// Mode implements ModeSource.Now.
func (w *modeWatcher) Mode() Mode {
	if s := w.kind.setting(); s != Auto {
		return Mode(s)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil {
		s, err := w.read(context.Background())
		if err != nil {
			return Off // the cache has ended, and with it the process
		}
		w.now = &s
	}
	return w.now.mode
}

// read reads the mode from the setting and the cluster.
func (w *modeWatcher) read(ctx context.Context) (modeState, error) {
	var list appsv1.DeploymentList
	if err := w.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return modeState{}, fmt.Errorf("list deployments: %w", err)
	}
	s := modeState{other: w.kind.findOther(list.Items)}
	switch setting := w.kind.setting(); {
	case setting != Auto:
		s.mode = Mode(setting)
	case s.other.name != "":
		s.mode = Govern
	default:
		s.mode = Own
	}
	return s, nil
}

// OnAdd implements cache.ResourceEventHandler.
func (w *modeWatcher) OnAdd(o any, initial bool) { w.deploymentChanged(o) }

// OnUpdate implements cache.ResourceEventHandler.
func (w *modeWatcher) OnUpdate(before, after any) {
	w.deploymentChanged(before)
	w.deploymentChanged(after)
}

// OnDelete implements cache.ResourceEventHandler.
func (w *modeWatcher) OnDelete(o any) {
	if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	w.deploymentChanged(o)
}

// deploymentChanged has the mode read again if the Deployment could matter.
func (w *modeWatcher) deploymentChanged(o any) {
	if d, ok := o.(*appsv1.Deployment); !ok || !w.kind.isUpstream(d) {
		return
	}
	select {
	case w.look <- struct{}{}:
	default:
	}
}
