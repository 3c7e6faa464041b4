package idle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/queue"
	rules "berth.dev/berth/core/idle"
	"berth.dev/berth/internal/pause"
)

// Room says who waits for what idle notebooks hold: see queue.Room.
type Room interface {
	GivesWay(*corev1.Pod) bool
	Ways(idle []*corev1.Pod, leave func(*corev1.Pod) bool) map[string]queue.Way
	Stands(workload string) queue.Stand
	Changed() <-chan struct{}
}

// unused is how long a notebook that has given way stays stopped while the workload that it
// was stopped for still waits: then it stands in line again.
const unused = 10 * time.Minute

// ways asks who waits for what idle notebooks hold, and has those looked at now that are newly
// wanted. Notebooks that have given way and return do not make others give way.
func (l *loop) ways(all []subject, returns map[types.NamespacedName]bool) {
	if l.o.Room == nil {
		return
	}
	var idle []subject
	for _, s := range all {
		if s.entry != nil && !s.hub && s.policy.GiveWay > 0 && s.entry.idle >= s.policy.GiveWay {
			idle = append(idle, s)
		}
	}
	slices.SortFunc(idle, func(a, b subject) int {
		return cmp.Or(cmp.Compare(b.entry.idle, a.entry.idle), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	pods := make([]*corev1.Pod, len(idle))
	for i := range idle {
		pods[i] = idle[i].pod
	}
	ways := l.o.Room.Ways(pods, func(p *corev1.Pod) bool {
		return returns[types.NamespacedName{Namespace: p.Namespace, Name: p.Labels[api.LabelNotebook]}]
	})
	for _, s := range all {
		if s.entry == nil {
			continue
		}
		way := ways[string(s.pod.UID)]
		if way.Workload != "" && s.entry.way.Workload == "" || way.Workload == "" && s.entry.way.Workload != "" {
			s.entry.next = time.Time{}
		}
		s.entry.way = way
	}
}

// wayBack takes the next step with a notebook that has given way, and reports whether it is on its
// way back: started again, and not running yet.
func (l *loop) wayBack(ctx context.Context, n *kubeflow.Notebook, pod *corev1.Pod) bool {
	mark := n.Annotations[api.AnnotationNotebookGaveWay]
	stopped, isStopped := n.Annotations[api.AnnotationStopped]
	if mark == "" {
		return false
	}
	at, workload, _ := strings.Cut(mark, " ")
	switch {
	case mark == api.NotebookReturns && !isStopped:
		if pod == nil || pod.Spec.NodeName == "" {
			return true
		}
		l.mark(ctx, n, map[string]any{api.AnnotationNotebookGaveWay: nil, api.AnnotationNotebookStoppedFor: nil})
	case !isStopped || stopped != at:
		// Its user has started it, or has stopped it for good.
		l.mark(ctx, n, map[string]any{api.AnnotationNotebookGaveWay: nil})
	case l.o.Room == nil:
	default:
		why := ""
		since, err := time.Parse(time.RFC3339, at)
		switch l.o.Room.Stands(workload) {
		case queue.Runs:
			why = "the workload that it gave way to runs"
		case queue.Gone:
			why = "the workload that it gave way to is gone"
		case queue.Waits:
			if err != nil || l.o.Now().Sub(since) >= unused {
				why = fmt.Sprintf("the workload that it gave way to has not used what it left for %s", unused)
			}
		case queue.Unknown:
		}
		if why == "" {
			l.later = pause.Shorter(l.later, unused)
			return false
		}
		if l.mark(ctx, n, map[string]any{api.AnnotationNotebookGaveWay: api.NotebookReturns, api.AnnotationStopped: nil}) {
			s := subject{Notebook: n}
			l.event(s, corev1.EventTypeNormal, eventReturns, "started again: "+why+"; it runs as soon as its queue has quota for it")
		}
		return true
	}
	return false
}

// mark sets annotations of a notebook that gives way, and reports whether it did.
func (l *loop) mark(ctx context.Context, n *kubeflow.Notebook, set map[string]any) bool {
	err := l.annotate(ctx, n, set)
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		klog.ErrorS(err, "A notebook that gave way could not be marked", "notebook", klog.KObj(n))
	}
	if err != nil {
		l.later = pause.Shorter(l.later, time.Second)
	}
	return err == nil
}

// gaveWay returns the annotations of the stop of a notebook that gives way.
func gaveWay(s subject, d rules.Decision, now time.Time) map[string]any {
	at := now.UTC().Format(time.RFC3339)
	return map[string]any{
		api.AnnotationStopped: at, api.AnnotationNotebookGaveWay: at + " " + s.entry.way.Workload,
		api.AnnotationNotebookStoppedFor: "gave way: " + d.Why + "; it starts again by itself, in its turn",
	}
}
