package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/controller/crd"
	"berth.dev/berth/controller/notebook"
	"berth.dev/berth/kube/view"
)

// Auto lets Berth look whether another controller runs a kind: then it governs, else
// it owns.
const Auto = "auto"

// keeper knows in which mode notebooks are, and follows the cluster where it is to.
type keeper struct {
	setting string        // Auto or a mode
	reader  client.Reader // of the cache
	client  kubernetes.Interface
	events  events.EventRecorder
	in      client.ObjectKey // of the record
	poke    chan struct{}    // something may have changed
	changed chan event.GenericEvent

	mu  sync.Mutex
	now *standing // nil until it was looked
}

// standing is a mode and why.
type standing struct {
	mode  notebook.Mode
	rival rival // "" where there is none
}

// why says why the mode is what it is; "" is that there is nothing to say.
func (s standing) why(setting string) string {
	switch {
	case setting != Auto && s.rival.name != "" && s.mode == notebook.Own:
		return fmt.Sprintf("although %s is running: both write the same objects", s.rival)
	case s.rival.name != "":
		return fmt.Sprintf("%s is running", s.rival)
	}
	return ""
}

// newKeeper adds a keeper to a manager.
func newKeeper(mgr manager.Manager, cfg *rest.Config, o Options) (*keeper, error) {
	k := &keeper{
		setting: o.Notebooks, reader: mgr.GetCache(), events: mgr.GetEventRecorder(Name),
		poke: make(chan struct{}, 1), changed: make(chan event.GenericEvent, 1),
	}
	if k.setting == "" {
		k.setting = Auto
	}
	k.in.Namespace, k.in.Name = recordIn(o.Lease)
	var err error
	if k.client, err = kubernetes.NewForConfigAndClient(cfg, mgr.GetHTTPClient()); err != nil {
		return nil, err
	}
	deployments, err := mgr.GetCache().GetInformer(context.Background(), &appsv1.Deployment{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	if _, err := deployments.AddEventHandler(k); err != nil {
		return nil, err
	}
	return k, mgr.Add(k)
}

// recordIn is where the record of the modes is: beside the lease.
func recordIn(l *Lease) (namespace, name string) {
	if l == nil {
		return Namespace, Name
	}
	return l.Namespace, l.Name
}

// Mode gives the mode in which notebooks are now. It blocks until the deployments of
// the cluster have been seen.
func (k *keeper) Mode() notebook.Mode {
	if k.setting != Auto {
		return notebook.Mode(k.setting)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now == nil {
		s, err := k.look(context.Background())
		if err != nil {
			return notebook.Off // the cache has ended, and with it the process
		}
		k.now = &s
	}
	return k.now.mode
}

// look looks at the cluster.
func (k *keeper) look(ctx context.Context) (standing, error) {
	var list appsv1.DeploymentList
	if err := k.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return standing{}, fmt.Errorf("list deployments: %w", err)
	}
	s := standing{rival: findRival(list.Items)}
	switch {
	case k.setting != Auto:
		s.mode = notebook.Mode(k.setting)
	case s.rival.name != "":
		s.mode = notebook.Govern
	default:
		s.mode = notebook.Own
	}
	return s, nil
}

// OnAdd implements cache.ResourceEventHandler.
func (k *keeper) OnAdd(o any, initial bool) { k.nudge(o) }

// OnUpdate implements cache.ResourceEventHandler.
func (k *keeper) OnUpdate(before, after any) {
	k.nudge(before)
	k.nudge(after)
}

// OnDelete implements cache.ResourceEventHandler.
func (k *keeper) OnDelete(o any) {
	if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	k.nudge(o)
}

// nudge has the keeper look again if a deployment could matter.
func (k *keeper) nudge(o any) {
	if d, ok := o.(*appsv1.Deployment); !ok || !isRival(d) {
		return
	}
	select {
	case k.poke <- struct{}{}:
	default:
	}
}

// writeAgain is how long after a failure it is tried again to write the mode down:
// an API server that has just started may not know this process's roles yet.
const writeAgain = 2 * time.Second

// Start implements manager.Runnable: it follows the cluster, and writes down and
// tells what has changed. Only the process that leads does so.
func (k *keeper) Start(ctx context.Context) error {
	var told *standing
	written := false
	for {
		s, err := k.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // told to stop: what look says then is of that
		case err != nil:
			return err
		}
		if told == nil || *told != s {
			k.adopt(s)
			k.tell(s, told)
			told, written = &s, false
		}
		var again <-chan time.Time
		if !written {
			if err := k.record(ctx, s); err == nil {
				written = true
			} else if ctx.Err() == nil {
				klog.ErrorS(err, "Could not record the mode of notebooks", "configMap", k.in.String(), "triedAgainAfter", writeAgain)
				again = time.After(writeAgain)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.poke:
		case <-again:
		}
	}
}

// adopt makes s what Mode gives, and has every notebook looked at if that is news.
func (k *keeper) adopt(s standing) {
	k.mu.Lock()
	news := k.now != nil && k.now.mode != s.mode
	k.now = &s
	k.mu.Unlock()
	if !news {
		return
	}
	select {
	case k.changed <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{}}:
	default: // one is on its way
	}
}

// tell logs the mode, and tells of a change in an event of the record and of the
// deployment that is the cause.
func (k *keeper) tell(s standing, before *standing) {
	klog.InfoS("Notebooks", "mode", s.mode, "why", s.why(k.setting))
	if before == nil && s.rival.name == "" {
		return
	}
	kind, reason, note := corev1.EventTypeNormal, "NotebooksOwned", "Berth runs notebooks: no other notebook controller is running"
	switch {
	case s.mode == notebook.Govern:
		reason, note = "NotebooksGoverned", fmt.Sprintf("Berth yields to %s: it does not create or change objects of notebooks", s.rival)
	case s.rival.name != "":
		kind, reason, note = corev1.EventTypeWarning, "TwoNotebookControllers", fmt.Sprintf("Berth is configured to run notebooks although %s is running: scale one of them to 0", s.rival)
	}
	var about runtime.Object = &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: k.in.Namespace, Name: k.in.Name}}
	if s.rival.name != "" {
		about = &appsv1.Deployment{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
			ObjectMeta: metav1.ObjectMeta{Namespace: s.rival.namespace, Name: s.rival.name, UID: s.rival.uid},
		}
	}
	k.events.Eventf(about, nil, kind, reason, "Notebooks", "%s", note)
}

// record writes the mode down, for `berth status`.
func (k *keeper) record(ctx context.Context, s standing) error {
	m := corev1apply.ConfigMap(k.in.Name, k.in.Namespace).
		WithData(map[string]string{view.NotebooksMode: string(s.mode), view.NotebooksWhy: s.why(k.setting)})
	_, err := k.client.CoreV1().ConfigMaps(k.in.Namespace).Apply(ctx, m, metav1.ApplyOptions{FieldManager: crd.FieldManager, Force: true})
	return err
}
