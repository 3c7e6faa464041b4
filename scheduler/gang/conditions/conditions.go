// Package conditions writes, for members of gangs that are held back, what they wait
// for: the condition PodScheduled of each, once for each change, and one event for
// the gang. kube-scheduler itself writes nothing for pods that it never tries.
package conditions

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

	"berth.dev/berth/kube/request"
)

// Members say what they wait for when nothing has changed for quietFor: while the
// pods of a gang are being made, each would say another number. Where something
// always changes they do after atLatest.
const (
	quietFor = time.Second
	atLatest = 5 * time.Second
)

// Writer writes the conditions of the members of one scheduler.
type Writer struct {
	ctx     context.Context //nolint:containedctx // the life of what a timer writes
	client  kubernetes.Interface
	events  events.EventRecorderLogger
	remarks func() []Remark
	still   func(*Remark) bool

	mu      sync.Mutex
	timer   *time.Timer // nil: nothing to say
	first   time.Time   // when there was something to say, and nothing was said since
	talking bool
	more    bool              // something has changed while it talked
	told    map[string]string // the last event of each gang
}

// New returns a Writer that has written nothing; ctx is its life. remarks lists what
// members have to say and their conditions do not, and still reports whether a member
// has the same to say now. A Writer calls both without a lock held. recorder may be nil.
func New(ctx context.Context, client kubernetes.Interface, recorder events.EventRecorderLogger, remarks func() []Remark, still func(*Remark) bool) *Writer {
	return &Writer{ctx: ctx, client: client, events: recorder, remarks: remarks, still: still, told: map[string]string{}}
}

// Changed notes that some member has something else to say. It may be called with the
// locks held that remarks and still take, and does nothing for a nil Writer.
func (v *Writer) Changed() {
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
func (v *Writer) later(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.timer == nil {
		v.first, v.timer = time.Now(), time.AfterFunc(d, v.talk)
	}
}

// Remark is what one member has to say.
type Remark struct {
	Pod          *v1.Pod
	Gang         string // key
	Reason, Text string // of the condition
	Says         string // the sentence alone, for an event
}

// Written reports whether the condition of the pod says the same.
func (r *Remark) Written() bool {
	c := request.Unscheduled(r.Pod)
	return c != nil && c.Reason == r.Reason && c.Message == r.Text
}

// talk writes what is to be said now; one goroutine at a time.
func (v *Writer) talk() {
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
	for _, r := range v.remarks() {
		if !v.still(&r) {
			again = quietFor
			continue
		}
		if err := v.write(r); err != nil {
			again = retell
			klog.FromContext(v.ctx).V(2).Info("A member's condition was not written", "pod", klog.KObj(r.Pod), "reason", err.Error())
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

// write writes one remark, and an event if its gang has not said the same last.
func (v *Writer) write(r Remark) error {
	condition := map[string]any{"type": v1.PodScheduled, "status": v1.ConditionFalse, "reason": r.Reason, "message": r.Text}
	if request.Unscheduled(r.Pod) == nil {
		condition["lastTransitionTime"] = metav1.Now()
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": r.Pod.UID}, "status": map[string]any{"conditions": []any{condition}}})
	if err != nil {
		return err
	}
	_, err = v.client.CoreV1().Pods(r.Pod.Namespace).Patch(v.ctx, r.Pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsInvalid(err):
		return nil // it has gone, or is another of the name
	case err != nil:
		return err
	}
	v.mu.Lock()
	news := v.told[r.Gang] != r.Says
	if len(v.told) > 1<<12 {
		clear(v.told)
	}
	v.told[r.Gang] = r.Says
	v.mu.Unlock()
	if news && v.events != nil {
		v.events.Eventf(r.Pod, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", r.Says)
	}
	return nil
}
