package gang

import (
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/gang/conditions"
)

// remark is what a member has to say now, with mu held; false leaves its condition
// as it is.
func (b *Manager) remark(uid types.UID) (conditions.Remark, bool) {
	sentence, wait := b.machine.Waits(string(uid))
	pod := b.pods[uid]
	if sentence == "" || pod == nil {
		return conditions.Remark{}, false
	}
	if b.state != nil {
		wait = b.state.Waits.Judge(pod, queue.Refused{Noted: wait})
	}
	spec, _ := b.machine.Gang(string(uid))
	r := conditions.Remark{Pod: pod, Gang: spec.Key, Says: sentence}
	r.Reason, r.Text = request.WaitCondition(wait, sentence)
	return r, true
}

// remarks lists what members have to say and their conditions do not, by gang
// and name.
func (b *Manager) remarks() []conditions.Remark {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []conditions.Remark
	for _, uid := range b.machine.HeldBack() {
		if r, says := b.remark(types.UID(uid)); says && !r.Written() {
			out = append(out, r)
		}
	}
	return out
}

// still reports whether a member has the same to say now.
func (b *Manager) still(r *conditions.Remark) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, says := b.remark(r.Pod.UID)
	return says && now.Says == r.Says && now.Reason == r.Reason && now.Text == r.Text
}
