package evict

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"berth.dev/berth/core/quota"
)

// Released is the reason of the condition DisruptionTarget, and of events, of a pod that is
// evicted because its gang cannot go on.
const Released = "GangReleased"

// name names the cause in logs.
func (c *Cause) name() string {
	if c.Pod == nil {
		return "gang " + c.Gang
	}
	return c.Pod.Namespace + "/" + c.Pod.Name
}

// record writes what has happened to a victim to the log and as events, of the pod and of its
// controller. inMemory is that it was not bound.
func (c *Cause) record(to events.EventRecorder, log klog.Logger, v *Victim, inMemory bool) {
	reason, action := "Preempted", "Preempting"
	var said, ofOwner string
	owner := metav1.GetControllerOfNoCopy(v.Pod)
	if v.Reclaim != nil {
		log.V(2).Info("A pod is evicted to return quota", "claimant", klog.KObj(c.Pod), "from", v.Reclaim.From, "by", v.Reclaim.By, "pod", klog.KObj(v.Pod), "node", v.Node)
		reclaimed(to, v, owner)
		return
	}
	if c.Pod == nil {
		log.V(2).Info("A gang is released", "gang", c.Gang, "pod", klog.KObj(v.Pod), "node", v.Node)
		reason, action = Released, "Releasing"
		said = fmt.Sprintf("Evicted from node %s, because gang %s is released: %s", v.Node, c.Gang, c.Why)
		ofOwner = fmt.Sprintf("its pod %s was evicted from node %s, because gang %s is released: %s", v.Pod.Name, v.Node, c.Gang, c.Why)
		to.Eventf(v.Pod, nil, v1.EventTypeWarning, reason, action, "%s", said)
	} else {
		log.V(2).Info("Preemptor Pod preempted victim Pod", "preemptor", klog.KObj(c.Pod), "victim", klog.KObj(v.Pod), "node", v.Node)
		if said = fmt.Sprintf("Preempted by pod %v on node %v", c.Pod.UID, v.Node); inMemory {
			said += " (in kube-scheduler memory)"
		}
		forWhom := "pod " + inWords(c.Pod)
		ofOwner = fmt.Sprintf("its pod %s was preempted on node %s, for %s", v.Pod.Name, v.Node, forWhom)
		ofOwner = v.and(ofOwner)
		to.Eventf(v.Pod, c.Pod, v1.EventTypeNormal, reason, action, "%s", v.and(said+", for "+forWhom))
	}
	if owner == nil {
		return
	}
	of := referenceTo(v.Pod, owner)
	if c.Pod == nil {
		to.Eventf(of, nil, v1.EventTypeWarning, reason, action, "%s", ofOwner)
	} else {
		to.Eventf(of, c.Pod, v1.EventTypeNormal, reason, action, "%s", ofOwner)
	}
}

// reclaimed writes events of a victim that returns quota, and of its controller. They name queues
// alone: the workload that gets the quota may be of a namespace that its owner cannot see.
func reclaimed(to events.EventRecorder, v *Victim, owner *metav1.OwnerReference) {
	const action = "Reclaiming"
	said := v.and(v.Reclaim.OnNode(v.Node))
	to.Eventf(v.Pod, nil, v1.EventTypeNormal, quota.ReasonReclaimed, action, "%s", strings.ToUpper(said[:1])+said[1:])
	if owner != nil {
		to.Eventf(referenceTo(v.Pod, owner), nil, v1.EventTypeNormal, quota.ReasonReclaimed, action, "its pod %s was %s", v.Pod.Name, said)
	}
}

// and adds to a sentence about a victim what its eviction loses.
func (v *Victim) and(said string) string {
	if v.Loses == "" {
		return said
	}
	return said + "; " + v.Loses
}

// referenceTo is the controller of a pod as events name it.
func referenceTo(pod *v1.Pod, owner *metav1.OwnerReference) *v1.ObjectReference {
	return &v1.ObjectReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: pod.Namespace, Name: owner.Name, UID: owner.UID}
}

// disrupted is a patch of a victim's status with the condition DisruptionTarget; nil if it has
// it. For a preemption it has the stock scheduler's words and the name of the pod.
func (c *Cause) disrupted(v *Victim, now time.Time) []byte {
	victim := v.Pod
	is := v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: Released,
		Message:            fmt.Sprintf("%s: gang %s is released: %s", victim.Spec.SchedulerName, c.Gang, c.Why),
		ObservedGeneration: victim.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	switch {
	case v.Reclaim != nil:
		is.Reason, is.Message = quota.ReasonReclaimed, v.Reclaim.Message(victim.Spec.SchedulerName)
	case c.Pod != nil:
		is.Reason = v1.PodReasonPreemptionByScheduler
		is.Message = c.Pod.Spec.SchedulerName + ": preempting to accommodate a higher priority pod, " + inWords(c.Pod)
	}
	for _, has := range victim.Status.Conditions {
		if has.Type == is.Type && has.Status == is.Status && has.Reason == is.Reason && has.Message == is.Message {
			return nil
		}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": victim.UID}, // of another pod of its name nothing is changed
		"status":   map[string]any{"conditions": []v1.PodCondition{is}},
	})
	if err != nil {
		return nil // not reached: plain fields
	}
	return patch
}

// inWords names a pod that others go for: "team/train-0 of priority 1000".
func inWords(pod *v1.Pod) string {
	priority := int32(0)
	if pod.Spec.Priority != nil {
		priority = *pod.Spec.Priority
	}
	return fmt.Sprintf("%s/%s of priority %d", pod.Namespace, pod.Name, priority)
}

// Victim is one pod that is evicted, or to be.
type Victim struct {
	Pod     *v1.Pod
	Node    string
	Budgets map[types.UID]string // the resourceVersion, at the time, of each disruption budget that it counts on
	Reclaim *quota.Reclaim       // nil: it goes for another cause than the return of quota
	Loses   string               // what its eviction loses, as a part of a sentence about it; "" is nothing worth a word
	Evicted func()               // called when it has been evicted from its node; nil: no call
}

// Cause is why pods are evicted, in the words of conditions and events: for a pod that gets
// what they have, or because their gang cannot go on.
type Cause struct {
	Pod  *v1.Pod // that gets it; nil: none does
	Gang string  // the name of the gang, where Pod is nil
	Why  string  // "it runs with 3 of the 4 pods that it needs"
}
