package ledger

import (
	"errors"
	"slices"
	"strings"

	"berth.dev/berth/agent/allocation/notice"
	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

// Reserve returns the record that a pod is to have from now on, and counts its
// devices as held. The caller writes the CDI specs and then calls Confirm, or
// Cancel if it could not. On an error nothing is held that was not held before.
func (l *Ledger) Reserve(q *Request) (*Record, error) {
	before := l.records[q.uid()]
	if before == nil {
		return l.decide(q)
	}
	r := before.clone()
	changed := r.setEntries(q.All)
	switch {
	case r.Committed && !matches(r, q.Committed):
		return nil, notice.Refuse(notice.ReasonMalformed, "the devices committed in %s to pod %s/%s have changed since it first started%s",
			api.AnnotationDevices, r.Namespace, r.Pod, notice.Reschedule)
	case !r.Committed && changed:
		// The kubelet has chosen again. Where it kept its choice, the pod keeps its device.
		l.devices.Release(r.PodUID)
		decided, err := l.decide(q)
		if err != nil {
			l.Recount()
		}
		return decided, err
	}
	return r, nil
}

// Cancel undoes Reserve for a pod that had no record before.
func (l *Ledger) Cancel(uid string) {
	if l.records[uid] == nil {
		l.devices.Release(uid)
	}
}

// Confirm makes a record that Reserve returned the pod's record. It returns the
// nonces of the pod's CDI specs that are outdated now.
func (l *Ledger) Confirm(r *Record) (outdated []string) {
	if before := l.records[r.PodUID]; before == nil {
		l.notePicked(r)
	} else {
		outdated = l.releaseReplaced(before, r)
	}
	l.records[r.PodUID] = r
	l.holdPlaceholders(r)
	return outdated
}

// Release frees all that a pod holds, and returns the record that it had, or nil.
func (l *Ledger) Release(uid string) *Record {
	r := l.records[uid]
	if r == nil {
		return nil
	}
	delete(l.records, uid)
	l.ended[uid] = true
	for i := range r.Containers {
		for _, e := range r.Containers[i].Entries {
			l.placeholders.Release(e.Resource, e.DeviceIDs)
		}
	}
	if l.devices != nil {
		l.devices.Release(uid)
	}
	if len(l.displaced) > 0 {
		l.Recount()
	}
	// The kubelet may have allocated IDs of the pod to another one before this call.
	ids := r.ids()
	for _, other := range l.UIDs() {
		if l.records[other].hasAnyOf(ids) {
			l.holdPlaceholders(l.records[other])
		}
	}
	return r
}

// matches reports whether a commitment is still what the record has.
func matches(r *Record, committed map[string][]sharing.Named) bool {
	for i := range r.Containers {
		c := &r.Containers[i]
		same := slices.EqualFunc(c.Devices, committed[c.Name], func(d Device, w sharing.Named) bool {
			return d.UUID == w.UUID && d.MilliGPU == w.MilliGPU && d.MemoryBytes == w.MemoryBytes
		})
		if !same {
			return false
		}
	}
	return true
}

// decide chooses what a pod gets and holds it, or holds nothing and returns why.
func (l *Ledger) decide(q *Request) (*Record, error) {
	r := &Record{PodUID: q.uid(), Namespace: q.Pod.Namespace, Pod: q.Pod.Name, Committed: q.Committed != nil}
	parts := request.Parts(q.Pod)
	var devices [][]sharing.Device
	var err error
	if r.Committed {
		devices, err = l.commit(r.PodUID, parts, q.Committed)
	} else {
		devices, err = l.choose(r.PodUID, parts, q)
	}
	if err != nil {
		l.devices.Release(r.PodUID)
		return nil, err
	}
	for i := range parts {
		r.Containers = append(r.Containers, Container{Name: parts[i].Name, Devices: l.recordDevices(devices[i])})
	}
	r.setEntries(q.All)
	return r, nil
}

// commit holds the devices that the scheduler has committed to a pod.
func (l *Ledger) commit(uid string, parts []sharing.Part, committed map[string][]sharing.Named) ([][]sharing.Device, error) {
	got, err := l.devices.Commit(uid, parts, committed)
	if err != nil {
		return nil, notice.Refuse(reasonOf(err), "the devices committed in %s cannot be allocated: %w%s", api.AnnotationDevices, l.withPodNames(err), notice.Reschedule)
	}
	for i := range parts {
		for j, d := range got[i] {
			want := committed[parts[i].Name][j]
			switch {
			case !d.Healthy && !(l.draining[d.UUID] && l.mayDrain[uid]):
				return nil, notice.Refuse(notice.ReasonUnhealthy, "device %s, committed in %s, is unhealthy: the container starts automatically once it is healthy%s",
					d.UUID, api.AnnotationDevices, notice.Reschedule)
			case d.MilliGPU != want.MilliGPU || d.MemoryBytes != want.MemoryBytes:
				return nil, notice.Refuse(notice.ReasonMalformed, "device %s was committed in %s with %d milli-GPUs and %d bytes, and this node offers it with %d and %d%s",
					d.UUID, api.AnnotationDevices, want.MilliGPU, want.MemoryBytes, d.MilliGPU, d.MemoryBytes, notice.Reschedule)
			}
		}
	}
	return got, nil
}

// notePicked sets what the kubelet's choice stands for, before the pod's IDs come
// to stand for what it got, and counts where the two differ.
func (l *Ledger) notePicked(r *Record) {
	for i := range r.Containers {
		c := &r.Containers[i]
		for _, e := range c.Entries {
			if e.Resource == sharing.ResourceMemory {
				continue // its IDs stand for no particular GPU
			}
			var picked []string
			for _, id := range e.DeviceIDs {
				if t, ok := l.placeholders.Of(e.Resource, id); ok && !t.Gone {
					picked = append(picked, t.Device.UUID)
				}
			}
			c.Picked = append(c.Picked, picked...)
			var got []string
			for _, d := range c.Devices {
				if d.Resource == e.Resource {
					got = append(got, d.UUID)
				}
			}
			slices.Sort(got)
			slices.Sort(picked)
			if r.Committed && len(got) > 0 && !slices.Equal(got, picked) {
				l.differences++
			}
		}
	}
}

// releaseReplaced frees the placeholder IDs that a pod had before and has no
// longer, and returns the nonces that the kubelet no longer names.
func (l *Ledger) releaseReplaced(before, now *Record) (outdated []string) {
	for i := range before.Containers {
		for _, old := range before.Containers[i].Entries {
			stays := false
			var kept []string
			for j := range now.Containers {
				for _, e := range now.Containers[j].Entries {
					stays = stays || e.Nonce == old.Nonce
					if e.Resource == old.Resource {
						kept = append(kept, e.DeviceIDs...)
					}
				}
			}
			l.placeholders.Release(old.Resource, slices.DeleteFunc(slices.Clone(old.DeviceIDs), func(id string) bool { return slices.Contains(kept, id) }))
			if !stays && old.Nonce != "" {
				outdated = append(outdated, old.Nonce)
			}
		}
	}
	return outdated
}

// reasonOf returns the reason of an error of sharing.Ledger.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, sharing.ErrNotOffered):
		return notice.ReasonUnknown
	case errors.Is(err, sharing.ErrTaken):
		return notice.ReasonTaken
	}
	return notice.ReasonMalformed
}

// withPodNames replaces UIDs, by which sharing.Ledger calls its owners, with the
// names of pods in an error's text.
func (l *Ledger) withPodNames(err error) error {
	text := err.Error()
	for uid, r := range l.records {
		text = strings.ReplaceAll(text, uid, "pod "+r.Namespace+"/"+r.Pod)
	}
	if text == err.Error() {
		return err
	}
	return renamed{err, text}
}

// renamed is an error with another text.
type renamed struct {
	error
	text string
}

func (r renamed) Error() string { return r.text }
func (r renamed) Unwrap() error { return r.error }
