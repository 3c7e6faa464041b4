// Package kubeflow holds kinds of the API group kubeflow.org: Notebook, and the training jobs TFJob and PyTorchJob, as Kubeflow's
// users write it. Its versions v1, v1beta1 and v1alpha1 have the same shape, so
// there is one type for all. It is compatible with Kubeflow's notebook-controller
// (kubeflow/notebooks, components/notebook-controller/api), and not part of it.
package kubeflow

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of Notebook.
const Group = "kubeflow.org"

// Kind is the kind of a Notebook.
const Kind = "Notebook"

// Versions are those that are served, the stored one first.
var Versions = []string{"v1", "v1beta1", "v1alpha1"}

// GroupVersion is the stored version, in which Berth reads and writes.
var GroupVersion = schema.GroupVersion{Group: Group, Version: Versions[0]}

// Resource is notebooks in the stored version.
var Resource = GroupVersion.WithResource("notebooks")

// Notebook is an interactive session: one pod, kept by a StatefulSet, behind a
// Service of its name.
type Notebook struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NotebookSpec   `json:"spec,omitempty"`
	Status NotebookStatus `json:"status,omitempty"`
}

// NotebookSpec is what the user writes. Nothing of Berth's writes it back.
type NotebookSpec struct {
	Template NotebookTemplate `json:"template,omitempty"`
}

// NotebookTemplate has a PodSpec and nothing else: upstream gives it no metadata.
type NotebookTemplate struct {
	// Spec is a PodSpec as JSON, byte for byte what the user wrote, so that
	// fields newer than this program reach the pod.
	Spec runtime.RawExtension `json:"spec,omitempty"`
}

// NotebookStatus has upstream's shape, and one field of our own at its end.
type NotebookStatus struct {
	// Conditions are those of the pod, and GPUQueued before them. Where there is no
	// pod, Ready says why.
	Conditions []NotebookCondition `json:"conditions"`
	// ReadyReplicas is that of the StatefulSet: 0 or 1.
	ReadyReplicas int32 `json:"readyReplicas"`
	// ContainerState is that of the notebook container: the one of the Notebook's
	// name, else the first.
	ContainerState corev1.ContainerState `json:"containerState"`
	// GPUs is what the notebook asks for, or what it holds while a change of it waits for
	// room, as kubectl shows it in the column GPUS:
	// "2", "1x1g.5gb", "6GiB"; "-" is none. Where the definition of the kind is not
	// Berth's the API server drops it.
	GPUs string `json:"gpus,omitempty"`
}

// The conditions of a Notebook that are not taken over from its pod as they are.
const (
	// ConditionReady is True when the pod is Ready. While it is not, its reason and
	// message say why, for a person to act on.
	ConditionReady = "Ready"
	// ConditionGPUQueued is True while the notebook waits for a place, and False
	// when it has one or wants none. Its message is what kubectl shows in
	// the column PLACE: the node, or the place in line.
	ConditionGPUQueued = "GPUQueued"
)

// NotebookCondition has the fields of a pod's condition that upstream mirrors.
type NotebookCondition struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status,omitempty"`
	LastProbeTime      *metav1.Time           `json:"lastProbeTime,omitempty"`
	LastTransitionTime *metav1.Time           `json:"lastTransitionTime,omitempty"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message,omitempty"`
}

// NotebookList is a list of Notebooks.
type NotebookList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Notebook `json:"items"`
}

// AddToScheme registers the stored version.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Notebook{}, &NotebookList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// Condition returns the condition of a type, or nil.
func (s *NotebookStatus) Condition(kind string) *NotebookCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			return &s.Conditions[i]
		}
	}
	return nil
}
