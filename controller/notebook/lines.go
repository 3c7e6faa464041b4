package notebook

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
)

// settleLines is how long lines may change before those whose place is another are
// looked at again: a burst is one change.
const settleLines = time.Second

// lines are the notebooks that wait and those that hold what they wait for.
type lines struct {
	mu     sync.Mutex
	filled bool
	lines  *reasons.Lines
	moved  chan struct{} // has one while lines have changed
}

func newLines() *lines { return &lines{lines: reasons.NewLines(), moved: make(chan struct{}, 1)} }

// fill reads all pods of notebooks once, so the first pass after a start knows
// the whole line: without those of which their notebook says that waiting will not
// help.
func (l *lines) fill(ctx context.Context, c client.Reader, o *Options, s *clusterCache) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.filled {
		return nil
	}
	var list corev1.PodList
	if err := c.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		pod := &list.Items[i]
		m := memberOf(pod, pod.Labels[api.LabelNotebook])
		if m.Name == "" {
			continue
		}
		if m.Waits {
			var nb kubeflow.Notebook
			if err := c.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Name}, &nb); err != nil {
				continue
			}
			if is := conditionOf(&nb.Status, kubeflow.ConditionReady); is.Reason != string(reasons.Queued) {
				continue
			}
			nodes, err := s.nodes(ctx, time.Time{})
			if err != nil {
				return fmt.Errorf("list nodes: %w", err)
			}
			made, _ := build(&nb, o, "") // of one that cannot be built the pod itself tells
			m.Reach = explain.ReachOf(made.podOr(pod), nodes)
		}
		l.lines.Put(m)
	}
	l.lines.Changed() // their notebooks are all looked at now
	l.filled = true
	return nil
}

func (l *lines) put(m reasons.Member) {
	l.mu.Lock()
	changed := l.lines.Put(m)
	l.mu.Unlock()
	if changed {
		l.move()
	}
}

func (l *lines) drop(id string) {
	l.mu.Lock()
	changed := l.lines.Drop(id)
	l.mu.Unlock()
	if changed {
		l.move()
	}
}

func (l *lines) move() {
	select {
	case l.moved <- struct{}{}:
	default:
	}
}

func (l *lines) place(id, namespace, resource string) (reasons.Place, reasons.Rivals) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.lines.Rivals(namespace, resource)
	held.Are = "notebooks"
	return l.lines.Place(id), held
}

// run sends the notebooks whose place has changed to again, until ctx ends.
func (l *lines) run(ctx context.Context, again chan<- event.GenericEvent) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.moved:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settleLines):
		}
		l.mu.Lock()
		changed := l.lines.Changed()
		l.mu.Unlock()
		for _, id := range changed {
			namespace, name, _ := strings.Cut(id, "/")
			if !look(ctx, again, namespace, name) {
				return nil
			}
		}
	}
}
