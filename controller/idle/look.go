package idle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	rules "berth.dev/berth/core/idle"
	"berth.dev/berth/kube/view"
)

// The reasons of the events on Notebooks.
const (
	eventWarned  = "IdleWarning"        // it is stopped soon
	eventCleared = "IdleWarningCleared" // it is not
	eventStopped = "StoppedIdle"        // it has been
	eventUnknown = "IdleUnknown"        // its policy cannot be followed
	eventPolicy  = "IdlePolicy"         // its policy cannot be read
	eventGives   = "GivesWayWarning"    // it is stopped soon, for a workload that waits
	eventGave    = "GaveWay"            // it has been
	eventReturns = "Returns"            // it is started again
	eventEnding  = "SessionEnding"      // its session ends soon
	eventEnded   = "SessionEnded"       // it has been stopped for that

	eventSuspended = "SuspendedIdle" // a training job has been suspended
)

// look looks at one notebook and takes the step that follows.
func (l *loop) look(ctx context.Context, s subject) {
	ready, since := readySince(s.pod)
	state := s.state(ready, since)
	var read rules.Readings
	state.Wanted = s.entry.way.Why
	if ready && (!s.policy.Never || s.policy.GiveWay > 0) {
		read = l.ask(ctx, s)
		countProbes(read)
	}
	if ctx.Err() != nil {
		return // what was asked has been cut off
	}
	now := l.o.Now()
	if !s.entry.looked.IsZero() {
		state.Elapsed = now.Sub(s.entry.looked)
	}
	d := rules.Decide(now, s.policy, state, read)
	d.Forget = d.Forget && l.keeps(s.entry)
	s.entry.track, s.entry.looked = d.Track, now
	s.entry.failures++
	if read.Server.Result != rules.Failed && read.GPUs.Result != rules.Failed {
		s.entry.failures = 0
	}
	s.entry.next = s.entry.after(now, s.Namespace+"/"+s.Name, s.policy)
	s.entry.idle = d.Idle
	if d.GiveWay && d.StopsAt.After(now) && d.StopsAt.Before(s.entry.next) {
		s.entry.next = d.StopsAt
	}
	l.tellUnknown(s, read)
	if err := l.write(ctx, s, d, now); err != nil {
		if !lost(err) {
			klog.ErrorS(err, "An idle workload could not be warned or stopped", "kind", s.about().GetObjectKind().GroupVersionKind().Kind, "name", klog.KObj(s.Notebook))
		}
		return // the next look sees what is there
	}
	l.tell(s, d, now)
}

// ask reads what the notebook's server, its CPU and its GPUs say.
func (l *loop) ask(ctx context.Context, s subject) rules.Readings {
	var r rules.Readings
	if s.job != nil {
		return l.askJob(ctx, s.job)
	}
	if s.hub {
		r.Server = rules.Server{At: l.o.Now(), Result: rules.Absent, Said: hubServer}
		r.GPUs = l.prober.GPUs(ctx, s.pod)
		return r
	}
	r.Server = l.prober.Server(ctx, Target{
		Namespace: s.Namespace, Name: s.Name, Token: view.NotebookToken(&s.pod.Spec),
		Type: s.Annotations[api.AnnotationServerType], Rewrite: s.Annotations[api.AnnotationRewrite],
	})
	if r.Server.Result == rules.OK && r.Server.NeedsCPU() {
		r.CPU = l.prober.CPU(ctx, s.Namespace, s.pod.Name)
	}
	r.GPUs = l.prober.GPUs(ctx, s.pod)
	return r
}

// lost reports whether a write came too late: the object has changed, or is gone.
func lost(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }

// timeOf reads a time in an annotation; what cannot be read is none.
func timeOf(annotations map[string]string, name string) time.Time {
	t, err := time.Parse(time.RFC3339, annotations[name])
	if err != nil {
		return time.Time{}
	}
	return t
}

// write writes what is decided as annotations, in one patch of the object that was
// looked at. What changes nothing is not written.
func (l *loop) write(ctx context.Context, s subject, d rules.Decision, now time.Time) error {
	if s.unwritten() {
		return l.stopUnwritten(ctx, s, d)
	}
	set := map[string]any{}
	if (d.Record || d.Do != rules.Nothing) && !d.Activity.IsZero() {
		set[api.AnnotationLastActivity] = d.Activity.UTC().Format(time.RFC3339)
		set[api.AnnotationActivityCheck] = now.UTC().Format(time.RFC3339)
	}
	if d.Forget {
		set[api.AnnotationLastActivity], set[api.AnnotationActivityCheck] = nil, nil
	}
	switch d.Do {
	case rules.Nothing:
	case rules.Warn, rules.Move:
		set[api.AnnotationNotebookStopsAt] = d.StopsAt.UTC().Format(time.RFC3339)
	case rules.Clear:
		set[api.AnnotationNotebookStopsAt] = nil
	case rules.Stop:
		set[api.AnnotationStopped] = now.UTC().Format(time.RFC3339)
		set[api.AnnotationNotebookStoppedFor] = stoppedFor(d)
		set[api.AnnotationNotebookStopsAt] = nil
		set[api.AnnotationLastActivity], set[api.AnnotationActivityCheck] = nil, nil
		if d.GiveWay {
			maps.Copy(set, gaveWay(s, d, now))
		}
	}
	if d.Do != rules.Stop {
		set[api.AnnotationNotebookStoppedFor] = nil // it runs
	}
	return l.annotate(ctx, s.Notebook, set)
}

// stoppedFor returns why a notebook was stopped, to go after "stopped: ".
func stoppedFor(d rules.Decision) string {
	if d.Session {
		return d.Why
	}
	return "idle: " + d.Why + ", since " + d.Activity.UTC().Format(time.RFC3339)
}

// forget takes the loop's annotations from a notebook that does not run.
func (l *loop) forget(ctx context.Context, n *kubeflow.Notebook) {
	set := map[string]any{api.AnnotationLastActivity: nil, api.AnnotationActivityCheck: nil, api.AnnotationNotebookStopsAt: nil}
	err := l.annotate(ctx, n, set)
	if err != nil && !lost(err) && ctx.Err() == nil {
		klog.ErrorS(err, "The annotations of a notebook that does not run could not be removed", "notebook", klog.KObj(n))
	}
}

// annotate sets annotations, or takes those away that are nil, if the notebook is
// still as it was read. Those that are as they should be are left out; if all are,
// nothing is written.
func (l *loop) annotate(ctx context.Context, n *kubeflow.Notebook, set map[string]any) error {
	for name, value := range set {
		if is, there := n.Annotations[name]; value == nil && !there || there && value == is {
			delete(set, name)
		}
	}
	if len(set) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": n.UID, "resourceVersion": n.ResourceVersion, "annotations": set,
	}})
	if err != nil {
		return fmt.Errorf("write a patch of notebook %s/%s: %w", n.Namespace, n.Name, err)
	}
	into := &kubeflow.Notebook{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: n.Name}}
	return l.writer.Patch(ctx, into, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(Name))
}

// tell makes the event of a step. Of a warning that this process finds it tells, too:
// one that has died may have written it without an event.
func (l *loop) tell(s subject, d rules.Decision, now time.Time) {
	warned := s.entry.warned
	s.entry.warned = !d.StopsAt.IsZero() || warned && d.Do == rules.Nothing
	if s.job != nil {
		l.tellJob(s, d, warned)
		return
	}
	switch d.Do {
	case rules.Nothing, rules.Move, rules.Warn:
		if d.StopsAt.IsZero() || warned && d.Do != rules.Warn {
			return
		}
		if d.GiveWay {
			l.event(s, corev1.EventTypeWarning, eventGives, fmt.Sprintf(
				"stops at %s unless it is used, to make room: %s; its volumes are kept, the contents of memory are lost, and it starts again by itself in its turn; to keep it running, use it, or: kubectl annotate --overwrite notebook %s -n %s %s=never",
				d.StopsAt.UTC().Format(time.RFC3339), d.Why, s.Name, s.Namespace, api.AnnotationNotebookGivesWayAfter))
			return
		}
		if d.Session {
			l.event(s, corev1.EventTypeWarning, eventEnding, fmt.Sprintf(
				"stops at %s, used or not: %s (annotation %s of the notebook or its namespace); its volumes are kept, the contents of memory are lost",
				d.StopsAt.UTC().Format(time.RFC3339), d.Why, api.AnnotationMaxSession))
			return
		}
		l.event(s, corev1.EventTypeWarning, eventWarned, fmt.Sprintf(
			"stops at %s unless it is used: %s; its volumes are kept, the contents of memory are lost; to keep it running, use it, or: %s",
			d.StopsAt.UTC().Format(time.RFC3339), d.Why, s.keep()))
	case rules.Clear:
		l.event(s, corev1.EventTypeNormal, eventCleared, "no longer stops: "+d.Why)
	case rules.Stop:
		if d.GiveWay {
			gaveWayTotal.Inc()
			l.event(s, corev1.EventTypeWarning, eventGave, "stopped to make room: "+d.Why+"; its volumes are kept; it starts again by itself in its turn, or "+strings.TrimPrefix(s.restart(), "to "))
			return
		}
		if d.Session {
			sessionsEnded.Inc()
			l.event(s, corev1.EventTypeWarning, eventEnded, fmt.Sprintf("stopped: %s; its volumes are kept; %s", d.Why, s.restart()))
			return
		}
		l.event(s, corev1.EventTypeWarning, eventStopped, fmt.Sprintf("stopped as %s; its volumes are kept; %s", stoppedFor(d), s.restart()))
		culledTotal.Inc()
		if s.hub {
			return
		}
		kubeflowCulled.WithLabelValues(s.Namespace, s.Name).Inc()
		kubeflowCulledAt.WithLabelValues(s.Namespace, s.Name).Set(float64(now.Unix()))
	}
}

// tellPolicy makes an event of what cannot be read of a policy, once for each text.
func (l *loop) tellPolicy(s subject, problems string) {
	e := s.entry
	if problems != e.reported && problems != "" {
		l.event(s, corev1.EventTypeWarning, eventPolicy, strings.TrimSuffix(problems, "; "))
	}
	e.reported = problems
}

// tellUnknown makes an event where a policy asks for a stop and nobody can tell
// whether the notebook is used: once for each cause.
func (l *loop) tellUnknown(s subject, r rules.Readings) {
	if r.Server.Result != rules.Absent || s.policy.By == rules.ByGPU && r.GPUs.Result != rules.Absent {
		return
	}
	why := r.Server.Said
	if s.policy.By == rules.ByGPU && r.GPUs.Said != "" {
		why += ", and " + r.GPUs.Said
	}
	if why != s.entry.unknown {
		l.event(s, corev1.EventTypeNormal, eventUnknown, "never stopped as idle, because its activity is unknown: "+why)
	}
	s.entry.unknown = why
}

func (l *loop) event(s subject, kind, reason, note string) {
	l.events.Eventf(s.about(), nil, kind, reason, "Idle", "%s", note)
}
