// Package trainer is the kinds of trainer.kubeflow.org/v1alpha1, of Kubeflow Trainer 2: TrainJobs, and the training
// runtimes that they name. The fields are those of versions 2.0 to 2.2, which differ.
package trainer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Group is the API group.
const Group = "trainer.kubeflow.org"

// GroupVersion is the one version of the group.
var GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}

// The kinds.
const (
	KindTrainJob       = "TrainJob"
	KindClusterRuntime = "ClusterTrainingRuntime"
	KindRuntime        = "TrainingRuntime"
)

// The resources of the kinds.
var (
	TrainJobs       = GroupVersion.WithResource("trainjobs")
	ClusterRuntimes = GroupVersion.WithResource("clustertrainingruntimes")
	Runtimes        = GroupVersion.WithResource("trainingruntimes")
)

// LabelStep says which step of a TrainJob the pods of a replicatedJob are: of those that Berth runs, StepTrainer.
const (
	LabelStep   = "trainer.kubeflow.org/trainjob-ancestor-step"
	StepTrainer = "trainer"
)

// ManagedByTrainer is the value of spec.managedBy, beside none, of TrainJobs that this controller runs.
const ManagedByTrainer = "trainer.kubeflow.org/trainjob-controller"

// The reasons of conditions that are not JobSet's.
const (
	ReasonSuspended    = "Suspended"
	ReasonResumed      = "Resumed"
	ReasonDeadline     = "DeadlineExceeded"
	ReasonNotSupported = "TrainingRuntimeNotSupported"
)

// TrainJob is a training job that names a runtime, which has the template of its pods.
type TrainJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TrainJobSpec   `json:"spec,omitempty"`
	Status TrainJobStatus `json:"status,omitempty"`
}

// JobKind returns KindTrainJob.
func (*TrainJob) JobKind() string { return KindTrainJob }

// TrainJobSpec is what the user writes.
type TrainJobSpec struct {
	RuntimeRef  RuntimeRef            `json:"runtimeRef"`
	Initializer *runtime.RawExtension `json:"initializer,omitempty"`
	Trainer     *Trainer              `json:"trainer,omitempty"`

	// What is changed of the runtime, as JSON in the spellings of versions 2.2, 2.1, and 2.0.
	RuntimePatches       []runtime.RawExtension `json:"runtimePatches,omitempty"`
	PodTemplateOverrides []runtime.RawExtension `json:"podTemplateOverrides,omitempty"`
	PodSpecOverrides     []runtime.RawExtension `json:"podSpecOverrides,omitempty"`

	Suspend               *bool   `json:"suspend,omitempty"`
	ActiveDeadlineSeconds *int64  `json:"activeDeadlineSeconds,omitempty"` // from version 2.2 on
	ManagedBy             *string `json:"managedBy,omitempty"`
}

// RuntimeRef names a runtime.
type RuntimeRef struct {
	Name     string  `json:"name"`
	APIGroup *string `json:"apiGroup,omitempty"` // by default Group
	Kind     *string `json:"kind,omitempty"`     // by default KindClusterRuntime
}

// Trainer is what the container that trains runs, beside or instead of what the runtime says.
type Trainer struct {
	Image            *string                `json:"image,omitempty"`
	Command          []string               `json:"command,omitempty"`
	Args             []string               `json:"args,omitempty"`
	Env              []runtime.RawExtension `json:"env,omitempty"` // EnvVars as JSON
	NumNodes         *int32                 `json:"numNodes,omitempty"`
	ResourcesPerNode *runtime.RawExtension  `json:"resourcesPerNode,omitempty"`
	NumProcPerNode   *intstr.IntOrString    `json:"numProcPerNode,omitempty"`
}

// TrainJobStatus has upstream's shape.
type TrainJobStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	JobsStatus []JobStatus        `json:"jobsStatus,omitempty"`
	// TrainerStatus is what the program reports, as JSON: progress and metrics.
	TrainerStatus *runtime.RawExtension `json:"trainerStatus,omitempty"`
}

// JobStatus counts the Jobs of a replicatedJob, of which a TrainJob has one.
type JobStatus struct {
	Name      string `json:"name"`
	Ready     int32  `json:"ready"`
	Succeeded int32  `json:"succeeded"`
	Failed    int32  `json:"failed"`
	Active    int32  `json:"active"`
	Suspended int32  `json:"suspended"`
}

// TrainJobList is a list of TrainJobs.
type TrainJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []TrainJob `json:"items"`
}

// AddToScheme registers TrainJobs.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &TrainJob{}, &TrainJobList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
