package gang

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
)

// Members say what they wait for when nothing has changed for quietFor: while the
// pods of a gang are being made, each would say another number. Where something
// always changes they do after atLatest.
const (
	quietFor = time.Second
	atLatest = 5 * time.Second
)

// conditions writes, for members that are held back, what they wait for: the
// condition PodScheduled of each, once for each change, and one event for the
// gang. The scheduler itself says nothing of pods that it never tries.
type conditions struct {
	ctx     context.Context //nolint:containedctx // the life of what a timer writes
	manager *Manager
	client  kubernetes.Interface
	events  events.EventRecorderLogger

	mu      sync.Mutex
	timer   *time.Timer // nil: nothing to say
	first   time.Time   // when there was something to say, and nothing was said since
	talking bool
	more    bool              // something has changed while it talked
	told    map[string]string // the last event of each gang
}

func newConditions(ctx context.Context, b *Manager, h fwk.Handle) *conditions {
	return &conditions{ctx: ctx, manager: b, client: h.ClientSet(), events: h.EventRecorder(), told: map[string]string{}}
}

// changed notes that somebody has something else to say. It may be called with
// Manager.mu held.
func (v *conditions) changed() {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.timer == nil:
		v.first, v.timer = time.Now(), time.AfterFunc(quietFor, v.talk)
	case time.Since(v.first) < atLatest:
		v.timer.Reset(quietFor)
	}
}

// retell is how long after a write that failed the next is tried: also a
// scheduler that does not lead has something to say, and may not.
const retell = 10 * time.Second

// later has it talk again after a while.
func (v *conditions) later(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.timer == nil {
		v.first, v.timer = time.Now(), time.AfterFunc(d, v.talk)
	}
}

// remark is what one member has to say.
type remark struct {
	pod          *v1.Pod
	gang         string
	reason, text string // of the condition
	says         string // the sentence alone, for an event
}

// remark is what a member has to say now, with mu held; false leaves its condition
// as it is.
func (b *Manager) remark(uid types.UID) (remark, bool) {
	sentence, wait := b.machine.Waits(string(uid))
	pod := b.pods[uid]
	if sentence == "" || pod == nil {
		return remark{}, false
	}
	if b.state != nil {
		wait = b.state.Waits.Judge(pod, queue.Refused{Noted: wait})
	}
	spec, _ := b.machine.Gang(string(uid))
	r := remark{pod: pod, gang: spec.Key, says: sentence}
	r.reason, r.text = request.WaitCondition(wait, sentence)
	return r, true
}

// written reports whether a pod's condition says the same.
func (r *remark) written(pod *v1.Pod) bool {
	c := request.Unscheduled(pod)
	return c != nil && c.Reason == r.reason && c.Message == r.text
}

// talk writes what is to be said now; one goroutine at a time.
func (v *conditions) talk() {
	v.mu.Lock()
	v.timer = nil
	if v.talking || v.ctx.Err() != nil {
		v.more = true
		v.mu.Unlock()
		return
	}
	v.talking, v.more = true, false
	v.mu.Unlock()
	again := time.Duration(0)
	for _, r := range v.manager.remarks() {
		if !v.manager.still(&r) {
			again = quietFor
			continue
		}
		if err := v.write(r); err != nil {
			again = retell
			klog.FromContext(v.ctx).V(2).Info("A member's condition was not written", "pod", klog.KObj(r.pod), "reason", err.Error())
			break
		}
	}
	v.mu.Lock()
	if v.talking = false; v.more && again == 0 {
		again = quietFor
	}
	v.mu.Unlock()
	if again > 0 {
		v.later(again)
	}
}

// remarks lists what members have to say and their conditions do not, by gang
// and name.
func (b *Manager) remarks() []remark {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []remark
	for _, uid := range b.machine.HeldBack() {
		if r, says := b.remark(types.UID(uid)); says && !r.written(r.pod) {
			out = append(out, r)
		}
	}
	return out
}

// still reports whether a member has the same to say now.
func (b *Manager) still(r *remark) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, says := b.remark(r.pod.UID)
	return says && now.says == r.says && now.reason == r.reason && now.text == r.text
}

// write writes one remark, and an event if its gang has not said the same last.
func (v *conditions) write(r remark) error {
	condition := map[string]any{"type": v1.PodScheduled, "status": v1.ConditionFalse, "reason": r.reason, "message": r.text}
	if request.Unscheduled(r.pod) == nil {
		condition["lastTransitionTime"] = metav1.Now()
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": r.pod.UID}, "status": map[string]any{"conditions": []any{condition}}})
	if err != nil {
		return err
	}
	_, err = v.client.CoreV1().Pods(r.pod.Namespace).Patch(v.ctx, r.pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsInvalid(err):
		return nil // it has gone, or is another of the name
	case err != nil:
		return err
	}
	v.mu.Lock()
	news := v.told[r.gang] != r.says
	if len(v.told) > 1<<12 {
		clear(v.told)
	}
	v.told[r.gang] = r.says
	v.mu.Unlock()
	if news && v.events != nil {
		v.events.Eventf(r.pod, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", r.says)
	}
	return nil
}
