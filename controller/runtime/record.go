package runtime

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"berth.dev/berth/kube/view"
)

// recordRetry is the time between two tries to write the record of modes: an API
// server that has just started may not know this process's roles yet.
const recordRetry = 2 * time.Second

// Start implements manager.Runnable: it follows the cluster, and records and reports
// each change of mode. Only the leader runs it.
func (w *modeWatcher) Start(ctx context.Context) error {
	var reported *modeState
	recorded := false
	for {
		s, err := w.read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the manager stops: an error of read is due to that
		case err != nil:
			return err
		}
		if reported == nil || *reported != s {
			w.adopt(s)
			w.report(s, reported)
			reported, recorded = &s, false
		}
		var retry <-chan time.Time
		if !recorded {
			if err := w.record(ctx, s); err == nil {
				recorded = true
			} else if ctx.Err() == nil {
				klog.ErrorS(err, "Could not record the mode", "kind", w.kind.Name, "configMap", w.in.String(), "retryAfter", recordRetry)
				retry = time.After(recordRetry)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.look:
		case <-retry:
		}
	}
}

// adopt makes s the state that Mode returns. If the mode has changed, it has the
// kind's controllers reconcile all their objects.
func (w *modeWatcher) adopt(s modeState) {
	w.mu.Lock()
	news := w.now != nil && w.now.mode != s.mode
	w.now = &s
	w.mu.Unlock()
	if !news {
		return
	}
	select {
	case w.changed <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{}}:
	default: // the previous event has not been read yet
	}
}

// report logs the mode, and reports a change in an event about the Deployment that
// causes it, or about the record of modes if there is none.
func (w *modeWatcher) report(s modeState, before *modeState) {
	kind, kinds, setting := w.kind.Name, w.kind.plural(), w.kind.setting()
	klog.InfoS("Mode", "kind", kind, "mode", s.mode, "why", s.why(setting))
	if before == nil && s.other.name == "" {
		return
	}
	severity, reason, note := corev1.EventTypeNormal, kind+"sOwned", fmt.Sprintf("Berth runs %s: no other %s controller is running", kinds, strings.ToLower(kind))
	switch {
	case s.mode == Govern:
		reason, note = kind+"sGoverned", fmt.Sprintf("Berth yields to %s: it does not create or change objects of %s", s.other, kinds)
	case s.other.name != "":
		severity, reason, note = corev1.EventTypeWarning, "Two"+kind+"Controllers", fmt.Sprintf("Berth is configured to run %s although %s is running: scale one of them to 0", kinds, s.other)
	}
	var about runtime.Object = &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: w.in.Namespace, Name: w.in.Name}}
	if s.other.name != "" {
		about = &appsv1.Deployment{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
			ObjectMeta: metav1.ObjectMeta{Namespace: s.other.namespace, Name: s.other.name, UID: s.other.uid},
		}
	}
	w.events.Eventf(about, nil, severity, reason, kind+"s", "%s", note)
}

// record writes the mode into the record of modes, for `berth status`. Each kind
// is a field manager of its own there, so no kind removes the keys of another.
func (w *modeWatcher) record(ctx context.Context, s modeState) error {
	m := corev1apply.ConfigMap(w.in.Name, w.in.Namespace).
		WithData(map[string]string{w.kind.plural(): string(s.mode), w.kind.plural() + view.ModeWhy: s.why(w.kind.setting())})
	_, err := w.client.CoreV1().ConfigMaps(w.in.Namespace).Apply(ctx, m, metav1.ApplyOptions{FieldManager: "berth-" + w.kind.plural(), Force: true})
	return err
}
