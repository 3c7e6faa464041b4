package report

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/devices"
)

// WriteConditions has s write what a refused pod waits for into its condition, and why
// into that and its event: see explain.Refusals. The framework has one reason for every
// refusal, Unschedulable, for which autoscalers buy nodes.
func WriteConditions(s *scheduler.Scheduler, client kubernetes.Interface, waits *devices.Waits, why *Sentences) {
	handle := s.FailureHandler
	s.FailureHandler = func(ctx context.Context, f framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		t := &withConditions{Framework: f, ctx: ctx, client: client, refused: refusedBy(status)}
		if status.IsRejected() {
			t.wait = waitOf(waits, t.refused, pod.Pod, nominating)
			t.sentence = why.of(pod.Pod, t.wait, &t.refused, status.Message())
		}
		handle(ctx, t, pod, status, nominating, start)
		waits.Failed(pod.Pod)
	}
}

// waitOf is what a pod waits for that was refused so.
func waitOf(waits *devices.Waits, r queue.Refused, pod *v1.Pod, nominating *fwk.NominatingInfo) queue.Wait {
	r.Nominated = pod.Status.NominatedNodeName != ""
	if nominating.Mode() == fwk.ModeOverride {
		r.Nominated = nominating.NominatedNodeName != ""
	}
	return waits.Of(pod, r)
}

// refusedBy is what the framework says of a refusal.
func refusedBy(status *fwk.Status) queue.Refused {
	var r queue.Refused
	var fit *framework.FitError
	if !errors.As(status.AsError(), &fit) {
		return r
	}
	d := &fit.Diagnosis
	if d.PreFilterMsg != "" {
		for name := range d.UnschedulablePlugins {
			r.By = name // one alone refuses so
		}
		return r
	}
	if d.NodeToStatus != nil {
		d.NodeToStatus.ForEachExplicitNode(func(_ string, s *fwk.Status) { r.Reasons = append(r.Reasons, s.Reasons()...) })
	}
	return r
}

// withConditions is a framework for one refusal, whose writes of the pod's status are its
// own.
type withConditions struct {
	framework.Framework
	ctx     context.Context //nolint:containedctx // it lives for one call
	client  kubernetes.Interface
	refused queue.Refused
	// wait and sentence are of a pod that was refused, and not of one that met an error.
	wait     queue.Wait
	sentence string
}

// EventRecorder implements framework.Framework.
func (t *withConditions) EventRecorder() events.EventRecorderLogger {
	return &sentenceRecorder{t.Framework.EventRecorder(), t}
}

// sentenceRecorder reports a refusal in its sentence. A pod that is tried again at once
// gets no event.
type sentenceRecorder struct {
	events.EventRecorderLogger
	of *withConditions
}

// Eventf implements events.EventRecorder.
func (r *sentenceRecorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	if reason == reasonFailed && r.of.wait == queue.Retry {
		return
	}
	if reason == reasonFailed && r.of.sentence != "" {
		note, args = "%s", []any{cutNote(r.of.sentence)}
	}
	r.EventRecorderLogger.Eventf(regarding, related, eventtype, reason, action, note, args...)
}

// WithLogger implements events.EventRecorderLogger.
func (r *sentenceRecorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return &sentenceRecorder{r.EventRecorderLogger.WithLogger(logger), r.of}
}

// mostNote is how many bytes the API server takes of an event's note.
const mostNote = 1024

// cutNote cuts a note to what the API server takes.
func cutNote(note string) string {
	if len(note) <= mostNote {
		return note
	}
	const more = " ..."
	return strings.ToValidUTF8(note[:mostNote-len(more)], "") + more
}

// APICacher implements framework.Framework.
func (t *withConditions) APICacher() fwk.APICacher { return &patcher{t} }

// patcher is the fwk.APICacher of a telling.
type patcher struct{ *withConditions }

// PatchPodStatus implements fwk.APICacher. A pod that is tried again at once keeps the
// condition that it has.
func (p *patcher) PatchPodStatus(pod *v1.Pod, condition *v1.PodCondition, nominating *fwk.NominatingInfo) (<-chan error, error) {
	if condition != nil && condition.Reason == v1.PodReasonUnschedulable {
		if p.wait == queue.Retry {
			condition = nil
		} else {
			condition.Reason, condition.Message = request.WaitCondition(p.wait, cmp.Or(p.sentence, condition.Message))
		}
	}
	if inner := p.Framework.APICacher(); inner != nil {
		return inner.PatchPodStatus(pod, condition, nominating)
	}
	now := pod.Status.DeepCopy()
	changed := condition != nil && podutil.UpdatePodCondition(now, condition)
	if nominating.Mode() == fwk.ModeOverride && now.NominatedNodeName != nominating.NominatedNodeName {
		now.NominatedNodeName, changed = nominating.NominatedNodeName, true
	}
	if !changed {
		return nil, nil
	}
	return nil, util.PatchPodStatus(p.ctx, p.client, pod.Name, pod.Namespace, &pod.Status, now)
}

// BindPod implements fwk.APICacher. Nothing is bound where a refusal is handled.
func (p *patcher) BindPod(binding *v1.Binding) (<-chan error, error) {
	if inner := p.Framework.APICacher(); inner != nil {
		return inner.BindPod(binding)
	}
	return nil, errors.New("bind a pod: it was refused")
}

// WaitOnFinish implements fwk.APICacher.
func (p *patcher) WaitOnFinish(ctx context.Context, done <-chan error) error {
	if inner := p.Framework.APICacher(); inner != nil {
		return inner.WaitOnFinish(ctx, done)
	}
	return nil
}
