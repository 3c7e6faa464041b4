package explain

import (
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/queue"
)

// heldBack is what keeps a pod without a node back, beside what nodes lack: a queue, room
// that is being made, a claim, an autoscaler.
func (f *Facts) heldBack() diagnosis {
	p := f.Pod
	c := p.condition(ConditionScheduled)
	text := ""
	if c != nil && c.Status == False {
		text = c.Message
	}
	if d := f.inOtherQueue(text); d.code != "" {
		return d
	}
	if d := f.lacksQuota(text); d.code != "" {
		return d
	}
	if d := f.claimed(text); d.code != "" {
		return d
	}
	if kept := keptFor(text); kept != "" {
		return diagnosis{CodeKept, Queued, "waits for " + f.wants() + "; " + kept}
	}
	switch v := f.Verdict; {
	case f.waitsFor() == queue.Preemption:
		return diagnosis{CodePreempting, Queued, "waits for " + f.wants() + "; pods of lower priority are being stopped for it, and it starts when they have ended"}
	case f.waitsFor() == queue.Turn:
		return diagnosis{code: CodeTurn}
	case strings.Contains(text, "fit, but not within one "):
		return diagnosis{code: CodeClique}
	case gang.Elsewhere(text): // another pod of the gang says why
		if d := f.ganged(text); d.code == CodeGangTooLarge {
			return d
		}
		return diagnosis{code: CodeGang}
	case f.waitsFor() == queue.Gang || f.grouped() != "" || strings.Contains(text, "gang ") && (strings.Contains(text, "how many pods it has") || strings.Contains(text, "its size is not set")):
		return f.ganged(text)
	case v.Binding() != nil && v.Code() == CodeNodeName:
		return diagnosis{}
	}
	return f.scaling()
}

// keptFor is what Berth's scheduler says of GPUs that it keeps for another pod; "" is that
// it keeps none that this one would get.
func keptFor(text string) string {
	_, kept, found := strings.Cut(text, " reservation: GPUs are being kept for ")
	if !found {
		_, kept, found = strings.Cut(text, "; GPUs are being kept for ")
	}
	who, _, longer := strings.Cut(kept, ", which has waited longer")
	if !found || !longer {
		return ""
	}
	return "GPUs are being kept for " + who + ", which has waited longer"
}

// kueueGate is the scheduling gate of pods that Kueue has not admitted.
const kueueGate = "kueue.x-k8s.io/admission"

// inOtherQueue is what another queueing system says of the pod: Kueue by the condition of the
// pod's Workload, KAI by the condition of the pod.
func (f *Facts) inOtherQueue(text string) diagnosis {
	if d := admission(f.Queue.Reason, f.Queue.Message); d.code != "" {
		return d
	}
	switch {
	case slices.Contains(f.Gates, kueueGate):
		return diagnosis{CodeQueueQuota, Queued, "waits until its Kueue queue admits it: " + f.gated("")}
	case strings.Contains(text, "is over quota") && strings.Contains(text, "quota is"):
		return diagnosis{CodeFairShare, Queued, "its queue is over its quota: " + schedulerSays(text)}
	}
	return diagnosis{}
}

// admission is what the condition QuotaReserved or Admitted of a Workload of Kueue says;
// its code is "" if nothing holds it.
//
// Source: Kueue's workload conditions, and the messages of its flavor assigner.
func admission(reason, message string) diagnosis {
	d := diagnosis{reason: Queued, text: "its Kueue queue has not admitted it: " + message}
	switch {
	case reason == "":
		return diagnosis{}
	case strings.Contains(message, "LocalQueue") && (strings.Contains(message, "doesn't exist") || strings.Contains(message, "inactive")),
		strings.Contains(message, "ClusterQueue") && (strings.Contains(message, "doesn't exist") || strings.Contains(message, "inactive")), reason == "Misconfigured":
		d.code, d.text = CodeQueueMissing, d.text+"; name a queue of kubectl get localqueues in the label kueue.x-k8s.io/queue-name"
	case reason == "ExceedsMaxQuota", strings.Contains(message, "maximum capacity"), strings.Contains(message, "insufficient quota for"):
		d.code, d.text = CodeQueueNever, d.text+"; ask for less, or ask an administrator for a larger quota: waiting does not help"
	case reason == "NoMatchingFlavor", strings.Contains(message, "flavor") && (strings.Contains(message, "doesn't match") || strings.Contains(message, "untolerated taint")):
		d.code, d.text = CodeQueueFlavor, d.text+"; change the node selector or add the toleration that the message names"
	case reason == "PendingEvaluation", strings.Contains(message, "checks"), strings.Contains(message, "admission check"):
		d.code = CodeQueueCheck
	default:
		d.code, d.text = CodeQueueQuota, d.text+"; it starts when others of its queue end"
	}
	return d
}

// claimed is what the scheduler says of volume claims and resource claims.
//
// Source: kube-scheduler's plugins VolumeBinding, NodeVolumeLimits and DynamicResources.
func (f *Facts) claimed(text string) diagnosis {
	switch {
	case len(f.NoClaims) > 0:
		do, them := "does not exist", "it"
		if len(f.NoClaims) > 1 {
			do, them = "do not exist", "them"
		}
		return diagnosis{CodeResourceClaim, Queued, fmt.Sprintf("%s %s in namespace %s; create %s", strings.Join(f.NoClaims, " and "), do, f.Namespace, them)}
	case f.classless() && !f.claimMissing():
		return diagnosis{code: CodeStorageClass}
	case f.unprovided() && !f.claimMissing():
		return diagnosis{code: CodeClaimRefused}
	case f.claims() != "":
		return diagnosis{}
	case (strings.Contains(text, "persistentvolumeclaim") || strings.HasPrefix(text, "volume claim ")) && strings.Contains(text, "is being deleted"):
		return diagnosis{code: CodeClaimEnds}
	case strings.Contains(text, "unbound immediate PersistentVolumeClaims"), strings.HasPrefix(text, "its volume claim (") && strings.Contains(text, ") has no volume yet"):
		return diagnosis{code: CodeClaimUnbound}
	case f.Pod.ExcludedFromVolume():
		return diagnosis{code: CodeVolumeInUse}
	case strings.Contains(text, "didn't find available persistent volumes to bind"):
		return diagnosis{CodeClaimUnbound, MissingVolume, fmt.Sprintf("no PersistentVolume fits its volume claim (%s); kubectl describe pvc -n %s shows size, class, and access mode that are wanted", strings.Join(f.Claims, ", "), f.Namespace)}
	case strings.Contains(text, "exceed max volume count"):
		return diagnosis{CodeVolumesPerNode, Queued, "nodes have as many volumes attached as their driver allows; stop a pod with volumes there, or use fewer volumes"}
	case strings.Contains(text, "device class ") && strings.Contains(text, "does not exist"), strings.Contains(text, `deviceclass`) && strings.Contains(text, "not found"):
		return diagnosis{CodeDeviceClass, NoSuchGPU, "its resource claim names a DeviceClass that does not exist: " + schedulerSays(text) + "; name one of kubectl get deviceclasses"}
	case strings.Contains(text, "resourceclaim") && strings.Contains(text, "not found"), strings.Contains(text, "pod has resource claim") && strings.Contains(text, "not"),
		strings.Contains(text, "waiting for dynamic resource controller to create the resourceclaim"):
		return diagnosis{CodeResourceClaim, Queued, "its ResourceClaim, or the template for it, does not exist: " + schedulerSays(text) + "; create it in namespace " + f.Namespace}
	case strings.Contains(text, "cannot allocate all claims"), strings.Contains(text, "resourceclaim in use"), strings.Contains(text, "resourceclaim not available"):
		return diagnosis{CodeDRADevices, Queued, "no node has a free device that its ResourceClaim selects: " + schedulerSays(text) + "; kubectl get resourceslices lists devices and their attributes"}
	}
	return diagnosis{}
}

// classless reports whether a claim names a StorageClass that does not exist, unprovided
// whether a class could not provide it, and claimMissing whether a claim does not exist.
func (f *Facts) classless() bool {
	return slices.ContainsFunc(f.BadClaims, func(c Claim) bool { return c.Class != "" })
}

func (f *Facts) unprovided() bool {
	return slices.ContainsFunc(f.BadClaims, func(c Claim) bool { return c.Said != "" })
}

func (f *Facts) claimMissing() bool {
	return slices.ContainsFunc(f.BadClaims, func(c Claim) bool { return c.Missing })
}

// ganged tells apart why a gang does not start.
func (f *Facts) ganged(text string) diagnosis {
	g := f.Group
	switch {
	case strings.Contains(text, "how many pods it has"), strings.Contains(text, "how many it has"), strings.Contains(text, "its size is not set"):
		return diagnosis{code: CodeGangInvalid}
	case g != nil && g.Total > 0 && g.Needed > g.Total:
		return diagnosis{code: CodeGangTooLarge}
	case strings.Contains(text, " exist)"), g != nil && g.Members > g.Placed+g.Waiting:
		return diagnosis{code: CodeGangMissing}
	}
	return diagnosis{}
}
