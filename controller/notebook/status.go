package notebook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	reasons "berth.dev/berth/core/explain"
	rules "berth.dev/berth/core/notebook"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/request"
)

// fill gathers what the status of the notebook shows.
func (p *pass) fill(ctx context.Context) error {
	f := &p.facts
	f.Namespace, f.Name = p.nb.Namespace, p.nb.Name
	_, f.Stopped = p.nb.Annotations[api.AnnotationStopped]
	f.Returns = !f.Stopped && p.nb.Annotations[api.AnnotationNotebookGaveWay] == api.NotebookReturns
	f.Others = "another notebook"
	if p.made != nil {
		f.GPUs, f.Claims = explain.AmountsOf(p.made.pod), p.made.claims
	}
	f.StoppedFor = rules.StoppedMessage(p.nb.Namespace, p.nb.Name, p.nb.Annotations[api.AnnotationNotebookStoppedFor], f.Claims)
	if p.pod != nil {
		f.Pod = explain.PodFacts(p.pod, p.events)
		p.change()
		if err := p.inUse(ctx); err != nil {
			return err
		}
	} else if f.Refusal == nil && p.set != nil && !f.Stopped {
		f.Refusal = p.heardRefusal()
	}
	if p.pod != nil && f.Refusal != nil {
		_, f.Waits = f.Explain(f.Refusal.Message)
		f.Refusal = nil
	}
	if err := p.queue(ctx); err != nil {
		return err
	}
	return p.retryNow(ctx)
}

// untilJoined is how often a notebook is looked at again for which an autoscaler makes a node.
const untilJoined = 30 * time.Second

// queue puts the notebook into the line that it stands in, or among those that hold
// what others wait for, and notes where it stands.
func (p *pass) queue(ctx context.Context) error {
	f, m := &p.facts, reasons.Member{Namespace: p.nb.Namespace, Name: p.nb.Name}
	if p.pod != nil {
		m = memberOf(p.pod, p.nb.Name)
	}
	if p.pod != nil && len(f.GPUs) > 0 && request.Unscheduled(p.pod) != nil && p.pod.DeletionTimestamp == nil {
		pod := p.made.podOr(p.pod)
		verdict, nodes, err := p.cluster.judge(ctx, refusedAt(p.pod), pod) // no older than what the scheduler has seen
		if err != nil {
			return fmt.Errorf("list nodes and pods: %w", err)
		}
		m.Reach = explain.ReachOf(pod, nodes)
		if f.Joining = explain.Joining(pod, nodes, p.now()); f.Joining != "" || f.Pod.NodeComes() {
			p.later(untilJoined) // nothing says of a node without GPUs that it is there
		}
		if f.Verdict = verdict; !reasons.InLine(f) {
			m = reasons.Member{Namespace: p.nb.Namespace, Name: p.nb.Name}
		}
	}
	p.lines.put(m)
	if len(f.GPUs) > 0 && (p.pod == nil || p.pod.Spec.NodeName == "") {
		f.Place, f.Rivals = p.lines.place(p.id(), p.nb.Namespace, f.GPUs[0].Resource)
	}
	return nil
}

// inUse notes who uses a volume that keeps the pod from every node. The pods of the
// namespace are read for that: those of the cache have no volumes.
func (p *pass) inUse(ctx context.Context) error {
	if !p.facts.Pod.ExcludedFromVolume() {
		return nil
	}
	var list corev1.PodList
	if err := p.reader.List(ctx, &list, client.InNamespace(p.nb.Namespace), fromCache()); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID == p.pod.UID || other.Spec.NodeName == "" || request.Ended(other) {
			continue
		}
		for _, claim := range explain.ClaimsOf(other) {
			if slices.Contains(p.facts.Claims, claim) {
				user := "pod " + other.Name
				if name := other.Labels[api.LabelNotebook]; name != "" {
					user = "notebook " + name
				}
				p.facts.InUse = "volume claim " + claim + " is used by " + user
				return nil
			}
		}
	}
	return nil
}

// podOr is the pod as the notebook says it, or another where it says none.
func (c *children) podOr(pod *corev1.Pod) *corev1.Pod {
	if c == nil {
		return pod
	}
	return c.pod
}

// change notes what the next pod will have that this one has not, while a
// StatefulSet that has been written again waits for it to go.
func (p *pass) change() {
	if p.made == nil || p.facts.Waits != "" || p.made.want.Replicas == 0 || p.set == nil {
		return
	}
	set, pod := p.setNow(), p.running()
	if set.Mark != p.made.want.Mark || pod.Ended || !rules.Outdated(set, pod) {
		return
	}
	image := ""
	if len(p.pod.Spec.Containers) > 0 {
		image = p.pod.Spec.Containers[0].Image
	}
	p.facts.Change = rules.Changed(explain.AmountsOf(p.pod), explain.AmountsOf(p.made.pod), image, p.made.image)
}

// heardRefusal is why the StatefulSet's controller could make no pod, if it has said
// so since there was one and since the StatefulSet is as it is.
func (p *pass) heardRefusal() *reasons.Refusal {
	since := p.mem.since.Truncate(time.Second) // as events keep times
	for i := len(p.events) - 1; i >= 0; i-- {
		e := &p.events[i]
		if e.InvolvedObject.Kind == "StatefulSet" && e.Reason == "FailedCreate" && !last(e).Before(since) {
			return &reasons.Refusal{Reason: e.Reason, Message: e.Message}
		}
	}
	return nil
}

// retryNow has the StatefulSet's controller, which waits longer each time that it
// was refused, try at once after a quota has changed: any write makes it.
func (p *pass) retryNow(ctx context.Context) error {
	p.mu.Lock()
	now := p.retry[p.id()]
	delete(p.retry, p.id())
	p.mu.Unlock()
	if !now || p.pod != nil || p.set == nil || p.facts.Stopped {
		return nil
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationNotebookRetry, p.now().UTC().Format(time.RFC3339))
	return client.IgnoreNotFound(p.client.Patch(ctx, bare(p.set), client.RawPatch(types.MergePatchType, []byte(patch)), owner))
}

// old is the status that the API server has: what was written last, if the cache
// has not got that far.
func (p *pass) old() *kubeflow.NotebookStatus {
	if s := p.mem.said; s != nil && s.before == p.nb.ResourceVersion {
		return &s.status
	}
	p.mem.said = nil
	return &p.nb.Status
}

// say writes the status if anything in it but the times of probes has changed, and
// before that the events that go with the change: they are named after what they
// tell, so none is told twice when the write has to be tried again.
func (p *pass) say(ctx context.Context) error {
	old, now := p.old(), p.status()
	if equalStatus(old, now) {
		p.mem.held = time.Time{}
		return nil
	}
	if p.hold(old, now) {
		return nil
	}
	if err := p.tellChange(ctx, old, now); err != nil {
		return err
	}
	patch, err := statusPatch(p.nb.UID, now)
	if err != nil {
		return err
	}
	target := &kubeflow.Notebook{ObjectMeta: metav1.ObjectMeta{Namespace: p.nb.Namespace, Name: p.nb.Name}}
	if err := p.client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), owner); err != nil {
		return client.IgnoreNotFound(err)
	}
	p.mem.said = &said{before: p.nb.ResourceVersion, status: *now}
	return nil
}

// hold reports whether a status need not be written yet: it says that the notebook
// starts or pulls, which is usually over before it is read. It is written
// after a second. That one is ready no longer is written at once.
func (p *pass) hold(old, now *kubeflow.NotebookStatus) bool {
	reason := reasons.Reason(conditionOf(now, kubeflow.ConditionReady).Reason)
	passes := reason == reasons.Starting || reason == reasons.Pulling
	if !passes || conditionOf(old, kubeflow.ConditionReady).Status == corev1.ConditionTrue {
		p.mem.held = time.Time{}
		return false
	}
	if p.mem.held.IsZero() {
		p.mem.held = p.now()
	}
	if left := passing - p.now().Sub(p.mem.held); left > 0 {
		p.later(left)
		return true
	}
	p.mem.held = time.Time{}
	return false
}

// status returns what the notebook's status should be. A container that waits without
// a message gets that of Ready: Kubeflow's web app shows it, and fails where there is
// none (process_status in its status.py).
func (p *pass) status() *kubeflow.NotebookStatus {
	var out kubeflow.NotebookStatus
	old := p.old()
	switch {
	case p.pod != nil && p.facts.Waits != "":
		out.GPUs = request.GPUsText(p.pod) // which it keeps until the change has room
	case p.made != nil:
		out.GPUs = request.GPUsText(p.made.pod)
	}
	before := make([]reasons.Condition, len(old.Conditions))
	for i := range old.Conditions {
		before[i] = Condition(&old.Conditions[i])
	}
	for _, c := range rules.Conditions(&p.facts, before, p.now()) {
		out.Conditions = append(out.Conditions, kubeflow.NotebookCondition{
			Type: c.Type, Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			LastProbeTime: timeOf(c.Probed), LastTransitionTime: timeOf(c.Since),
		})
	}
	if p.pod == nil {
		return &out
	}
	if slices.ContainsFunc(p.pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) {
		out.ReadyReplicas = 1 // as the StatefulSet will say a moment later
	}
	out.ContainerState = containerState(p.pod, p.nb.Name)
	if w := out.ContainerState.Waiting; w != nil && w.Message == "" {
		w = w.DeepCopy()
		w.Message = out.Condition(kubeflow.ConditionReady).Message
		out.ContainerState.Waiting = w
	}
	return &out
}

// containerState returns that of the container with the notebook's name, else of the
// pod's first.
func containerState(pod *corev1.Pod, name string) corev1.ContainerState {
	first := ""
	if len(pod.Spec.Containers) > 0 {
		first = pod.Spec.Containers[0].Name
	}
	var out corev1.ContainerState
	for i := range pod.Status.ContainerStatuses {
		switch s := &pod.Status.ContainerStatuses[i]; s.Name {
		case name:
			return s.State
		case first:
			out = s.State
		}
	}
	return out
}

// Condition is a condition of a Notebook's status as package core/notebook has it.
func Condition(c *kubeflow.NotebookCondition) reasons.Condition {
	out := reasons.Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message}
	if c.LastProbeTime != nil {
		out.Probed = c.LastProbeTime.Time
	}
	if c.LastTransitionTime != nil {
		out.Since = c.LastTransitionTime.Time
	}
	return out
}

func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	out := metav1.NewTime(t)
	return &out
}

// equalStatus reports whether now says nothing that was not said: nothing differs but when
// it was looked at, or GPUs where there are none yet. The API server may drop those, and
// they do not justify a write each time.
func equalStatus(was, now *kubeflow.NotebookStatus) bool {
	return (was.GPUs == "" || was.GPUs == now.GPUs) && was.ReadyReplicas == now.ReadyReplicas && equality.Semantic.DeepEqual(was.ContainerState, now.ContainerState) &&
		slices.EqualFunc(was.Conditions, now.Conditions, func(x, y kubeflow.NotebookCondition) bool {
			return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason && x.Message == y.Message &&
				x.LastTransitionTime.Equal(y.LastTransitionTime)
		})
}

// statusPatch is a merge patch that sets all of a status, of the notebook with the
// UID and no later one of its name.
func statusPatch(uid types.UID, s *kubeflow.NotebookStatus) ([]byte, error) {
	state := map[string]any{"waiting": s.ContainerState.Waiting, "running": s.ContainerState.Running, "terminated": s.ContainerState.Terminated}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid},
		"status":   map[string]any{"conditions": s.Conditions, "readyReplicas": s.ReadyReplicas, "containerState": state, "gpus": s.GPUs},
	})
}

// devices are the GPUs that a pod holds, as Berth's scheduler chose them: " with
// GPU-..." or "".
func devices(pod *corev1.Pod) string {
	named, err := commit.Committed(pod)
	if err != nil || len(named) == 0 {
		return ""
	}
	var out []string
	for _, list := range named {
		for _, d := range list {
			out = append(out, d.UUID)
		}
	}
	slices.Sort(out)
	return " with " + strings.Join(slices.Compact(out), ", ")
}
