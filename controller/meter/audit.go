package meter

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/audit"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/internal/visible"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// trail is what pods and queues were like when they were last seen.
type trail struct {
	pods   map[types.UID]audit.Pod
	queues map[types.UID]audit.Queue
}

// trace notes what has happened to a pod.
func (t *tally) trace(p *v1.Pod) {
	was, known := t.trail.pods[p.UID]
	is := lookAt(p)
	if known {
		if is == was {
			return
		}
	} else {
		t.batch.Askers = append(t.batch.Askers, t.who(p))
	}
	t.trail.pods[p.UID] = is
	t.batch.Records = append(t.batch.Records, audit.Next(&was, &is, t.now())...)
}

// traceGone notes that a pod is deleted.
func (t *tally) traceGone(p *v1.Pod) {
	was, known := t.trail.pods[p.UID]
	if !known {
		return
	}
	delete(t.trail.pods, p.UID)
	is := lookAtGone(p, t.now())
	t.batch.Records = append(t.batch.Records, audit.Next(&was, &is, t.now())...)
}

// lookAtGone reads a pod that was gone at a time.
func lookAtGone(p *v1.Pod, at time.Time) audit.Pod {
	is := lookAt(p)
	if is.Ended.IsZero() {
		is.Ended, is.EndedHow = at, "Deleted"
	}
	return is
}

// who returns the holder that a pod is for.
func (t *tally) who(p *v1.Pod) cost.Pod {
	by := request.OwnerOf(p)
	return cost.Pod{
		UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Kind: by.Kind, Owner: by.Name,
		User: request.UserOf(p, t.owners), Queue: t.members.QueueOf(p, t.namespaces[p.Namespace]),
		Labels: cost.NewLabels(labelsOf(t.namespaces[p.Namespace]), p.Labels),
	}
}

// lookAt reads a pod.
func lookAt(p *v1.Pod) audit.Pod {
	out := audit.Pod{UID: string(p.UID), Asks: asks(p), Created: p.CreationTimestamp.UTC(), Node: p.Spec.NodeName, Devices: short(devices.HeldDevices(p))}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		switch {
		case c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue:
			out.Bound = c.LastTransitionTime.UTC()
		case c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse:
			sentence, wait := queue.Marked(c.Message)
			out.WaitsSince, out.WaitsFor, out.WaitsText, out.ForQuota = c.LastTransitionTime.UTC(), wait.Code(), text(sentence), wait == queue.Quota
			if out.WaitsFor == "" {
				out.WaitsFor = c.Reason
			}
		case c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue:
			out.Disrupted, out.DisruptedBy, out.Disrupter = c.LastTransitionTime.UTC(), c.Reason, text(c.Message)
			out.ForRoom = c.Reason == v1.PodReasonPreemptionByScheduler || c.Reason == quota.ReasonReclaimed
		}
	}
	if request.Ended(p) {
		out.Ended, out.EndedHow, out.EndText = saidEnd(p).UTC(), string(p.Status.Phase), ending(p)
		if p.DeletionTimestamp != nil {
			out.EndedHow = "Deleted"
		}
		if out.Ended.Unix() <= 0 {
			out.Ended = out.Created
			if at := out.Bound; at.After(out.Ended) {
				out.Ended = at
			}
		}
	}
	return out
}

// asks is what a pod asks for, by its own names.
func asks(p *v1.Pod) string {
	of := request.Of(p)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf("%d %s", of[name], name))
	}
	return strings.Join(out, ", ")
}

// short names devices by the beginnings of their UUIDs.
func short(uuids []string) string {
	out := make([]string, len(uuids))
	for i, uuid := range uuids {
		out[i] = uuid[:min(len(uuid), 12)]
	}
	return strings.Join(out, ", ")
}

// ending is how a pod ended that did not succeed: "exit code 137 (OOMKilled)".
func ending(p *v1.Pod) string {
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			if s := list[i].State.Terminated; s != nil && s.ExitCode != 0 {
				if s.Reason == "" || s.Reason == "Error" {
					return fmt.Sprintf("exit code %d", s.ExitCode)
				}
				return text(fmt.Sprintf("exit code %d (%s)", s.ExitCode, s.Reason))
			}
		}
	}
	return ""
}

// mostText is the most characters of a text of others that the ledger keeps.
const mostText = 300

func text(s string) string { return visible.Short(s, mostText) }

// traceQueues notes what has happened to queues, of which these are all.
func (t *tally) traceQueues(all []*v1alpha1.Queue) {
	there := map[types.UID]bool{}
	for _, q := range all {
		there[q.UID] = true
		is := queueNow(q)
		var before *audit.Queue
		if was, known := t.trail.queues[q.UID]; known {
			before = &was
		} else {
			t.batch.Askers = append(t.batch.Askers, cost.Pod{UID: string(q.UID), Kind: v1alpha1.KindQueue, Owner: q.Name, Queue: q.Name})
		}
		t.trail.queues[q.UID] = is
		t.batch.Records = append(t.batch.Records, audit.NextQueue(before, &is, t.now())...)
	}
	for uid := range t.trail.queues {
		if !there[uid] {
			delete(t.trail.queues, uid)
			t.batch.Records = append(t.batch.Records, audit.Record{At: t.now(), Subject: string(uid), Act: audit.Deleted})
		}
	}
}

// queueNow reads a queue.
func queueNow(q *v1alpha1.Queue) audit.Queue {
	out := audit.Queue{UID: string(q.UID), Name: q.Name, Created: q.CreationTimestamp.UTC(), Generation: q.Generation}
	for _, m := range q.ManagedFields {
		if m.Subresource == "" && m.Time != nil && !m.Time.Time.Before(out.Changed) {
			out.Changed, out.By = m.Time.UTC(), m.Manager
		}
	}
	if raw, err := json.Marshal(q.Spec); err == nil {
		out.Rules = text(string(raw))
	}
	return out
}

// slimQueue keeps of what wrote a queue only when and which program.
func slimQueue(q *v1alpha1.Queue) *v1alpha1.Queue {
	for i := range q.ManagedFields {
		q.ManagedFields[i] = metav1.ManagedFieldsEntry{Manager: q.ManagedFields[i].Manager, Time: q.ManagedFields[i].Time, Subresource: q.ManagedFields[i].Subresource}
	}
	return q
}
