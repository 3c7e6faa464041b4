package training

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/core/checkpoint"
	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/training"
)

// PodOf reads a pod of a job of the kind. It reports false for one whose labels do not
// say which member it is.
func PodOf(kind training.Kind, p *corev1.Pod) (training.Pod, bool) {
	m, ok := member(kind, p.Labels)
	if !ok && kind == training.TrainJob {
		m, ok = ofJobSet(p.Labels)
	}
	out := training.Pod{
		Member: m, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName, Phase: training.Phase(p.Status.Phase), Deleting: p.DeletionTimestamp != nil,
		Created: p.CreationTimestamp.Time, Round: round(p), Interrupted: interrupted(kind, p),
	}
	out.Saves = Saves(p)
	for i := range p.Spec.Containers {
		n := p.Spec.Containers[i].Resources.Limits[api.ResourceGPU]
		out.MilliGPUs += 1000 * n.Value()
	}
	if t := p.Status.StartTime; t != nil {
		out.Start = t.Time
	}
	if out.Deleting {
		out.Killed = p.DeletionTimestamp.Time
		out.Asked = asked(p)
	}
	if s := p.Status.Reason; s == "Evicted" || s == "NodeLost" || s == "Preempting" || s == "UnexpectedAdmissionError" {
		out.Disrupted, out.Why = true, s
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			out.Disrupted, out.Why = true, c.Reason
		}
	}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range list {
			out.Restarts += int(c.RestartCount)
			if t := c.State.Terminated; c.Name == kind.Container() && t != nil {
				code := int(t.ExitCode)
				out.Exit = &code
				if at := checkpoint.Reported(t.Message, t.FinishedAt.Time); at.After(out.Saves.Last) {
					out.Saves.Last = at
				}
			}
		}
	}
	return out, ok
}

// round reads the annotation berth.dev/round; a pod without it is of round 0.
func round(p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Annotations[api.AnnotationRound])
	if err != nil {
		return 0
	}
	return n
}

// interrupted reports whether the program of a pod that is being deleted ended after it was asked to, or may have.
func interrupted(kind training.Kind, p *corev1.Pod) bool {
	if p.DeletionTimestamp == nil || p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
		return false
	}
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; c.Name == kind.Container() && t != nil && or(p.DeletionGracePeriodSeconds, 0) > 0 {
			return !t.FinishedAt.Time.Before(asked(p))
		}
	}
	return true
}

// asked returns when a pod that is being deleted was asked to stop.
func asked(p *corev1.Pod) time.Time {
	return p.DeletionTimestamp.Add(-time.Duration(or(p.DeletionGracePeriodSeconds, 0)) * time.Second)
}

// notices are the taints of nodes that will be gone soon, whatever runs there. Those of Karpenter and of Cluster Autoscaler are not among
// them: both evict what is on the node, and may also give up before.
//
// Source: aws-node-termination-handler, Google Kubernetes Engine.
var notices = []string{
	api.TaintLeaving, "aws-node-termination-handler/spot-itn", "aws-node-termination-handler/asg-lifecycle-termination", "cloud.google.com/impending-node-termination",
}

// Notice returns the key of a taint which says that a node will be gone soon, or "".
func Notice(n *corev1.Node) string {
	for i := range n.Spec.Taints {
		if key := n.Spec.Taints[i].Key; slices.Contains(notices, key) {
			return key
		}
	}
	return ""
}

// ServiceOf reads a Service of a job of the kind, as PodOf reads a pod.
func ServiceOf(kind training.Kind, s *corev1.Service) (training.Service, bool) {
	m, ok := member(kind, s.Labels)
	if kind == training.TrainJob {
		m, ok = training.Whole, true
	}
	return training.Service{Member: m, Name: s.Name, UID: string(s.UID)}, ok
}

// member reads from labels which member of a job an object belongs to.
func member(kind training.Kind, labels map[string]string) (training.Member, bool) {
	t := kind.TypeOf(labels[kubeflow.LabelReplicaType])
	i, err := strconv.Atoi(labels[kubeflow.LabelReplicaIndex])
	return training.Member{Type: t, Index: i}, t != "" && err == nil && i >= 0
}

// Labeled reports whether labels say that an object is a member of a TFJob or PyTorchJob of a name.
func Labeled(kind training.Kind, job string, labels map[string]string) bool {
	_, ok := member(kind, labels)
	return ok && labels[kubeflow.LabelOperatorName] == kind.Operator() && labels[kubeflow.LabelJobName] == job
}

// ofJobSet reads which member of a TrainJob a pod is that upstream's trainer has made by a JobSet: its Jobs are one named node, whose
// pods are those of core/training, and others such as launcher and dataset-initializer.
func ofJobSet(labels map[string]string) (training.Member, bool) {
	m := training.Member{Type: labels[labelReplicated]}
	if m.Type == "node" {
		m.Type = training.Node
	}
	i, err := strconv.Atoi(labels[labelIndex])
	m.Index = i
	return m, m.Type != "" && err == nil && i >= 0
}

// Queued returns what the scheduler says of a job's pods that have no node yet: all members of a
// gang wait for the same, and one of them says what that is. If several say it, the first by name counts.
func Queued(pods []*corev1.Pod) training.Queued {
	var says *corev1.Pod
	var out training.Queued
	for _, p := range pods {
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
			continue
		}
		for _, c := range p.Status.Conditions {
			if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse {
				continue
			}
			names, named := gang.Elsewhere(c.Message), gang.Elsewhere(out.Message)
			if says == nil || named && !names || named == names && p.Name < says.Name {
				says, out = p, training.Queued{Waits: true, Reason: c.Reason, Message: c.Message}
			}
		}
	}
	if says == nil {
		return training.Queued{Reason: "Placed", Message: "all pods have a node"}
	}
	return out
}

// OwnerOf reports whether an object belongs to a training job, and returns the job's
// kind and name.
func OwnerOf(o metav1.Object) (kind, name string, ok bool) {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil || !slices.Contains(Kinds(), ref.Kind) || !strings.HasPrefix(ref.APIVersion, ResourceOf(ref.Kind).Group+"/") {
		return "", "", false
	}
	return ref.Kind, ref.Name, true
}
