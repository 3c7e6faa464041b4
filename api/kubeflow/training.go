package kubeflow

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The kinds of training jobs, which are served in version v1 only.
const (
	KindTFJob      = "TFJob"
	KindPyTorchJob = "PyTorchJob"
)

// TFJobs and PyTorchJobs are the resources of training jobs.
var (
	TFJobs      = GroupVersion.WithResource("tfjobs")
	PyTorchJobs = GroupVersion.WithResource("pytorchjobs")
)

// The labels of the pods and Services of training jobs, compatible with training-operator
// (pkg/apis/kubeflow.org/v1/common_types.go).
const (
	LabelJobName      = "training.kubeflow.org/job-name"
	LabelOperatorName = "training.kubeflow.org/operator-name"
	LabelReplicaType  = "training.kubeflow.org/replica-type" // in lower case
	LabelReplicaIndex = "training.kubeflow.org/replica-index"
	LabelJobRole      = "training.kubeflow.org/job-role" // master, on one pod
)

// Training is a TFJob or a PyTorchJob. Both have one shape here: each uses its own fields
// of the spec.
type Training struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TrainingSpec   `json:"spec,omitempty"`
	Status TrainingStatus `json:"status,omitempty"`
}

// TFJob is a TensorFlow training job.
type TFJob struct {
	Training `json:",inline"`
}

// PyTorchJob is a PyTorch training job.
type PyTorchJob struct {
	Training `json:",inline"`
}

// TrainingJob is a *TFJob or a *PyTorchJob.
type TrainingJob interface {
	metav1.Object
	runtime.Object
	// Job returns what both kinds share: the object itself, not a copy.
	Job() *Training
	// JobKind returns KindTFJob or KindPyTorchJob; an object from a cache does not say it.
	JobKind() string
}

// Job implements TrainingJob.
func (t *Training) Job() *Training { return t }

// JobKind implements TrainingJob.
func (*TFJob) JobKind() string { return KindTFJob }

// JobKind implements TrainingJob.
func (*PyTorchJob) JobKind() string { return KindPyTorchJob }

// TrainingSpec is what the user writes. Nothing of Berth's writes it back.
type TrainingSpec struct {
	RunPolicy RunPolicy `json:"runPolicy,omitempty"`

	// Of a TFJob. The keys are types of replicas, in any case.
	TFReplicaSpecs      map[string]ReplicaSpec `json:"tfReplicaSpecs,omitempty"`
	SuccessPolicy       *string                `json:"successPolicy,omitempty"` // "" or AllWorkers
	EnableDynamicWorker bool                   `json:"enableDynamicWorker,omitempty"`

	// Of a PyTorchJob.
	PyTorchReplicaSpecs map[string]ReplicaSpec `json:"pytorchReplicaSpecs,omitempty"`
	NprocPerNode        *string                `json:"nprocPerNode,omitempty"`
	ElasticPolicy       *ElasticPolicy         `json:"elasticPolicy,omitempty"`
}

// ReplicaSpec is the pods of one type.
type ReplicaSpec struct {
	Replicas *int32 `json:"replicas,omitempty"`
	// Template is a PodTemplateSpec as JSON, byte for byte what the user wrote, so fields
	// newer than this program reach the pod.
	Template      runtime.RawExtension `json:"template,omitempty"`
	RestartPolicy string               `json:"restartPolicy,omitempty"`
}

// RunPolicy is how a job runs and ends.
type RunPolicy struct {
	CleanPodPolicy          *string           `json:"cleanPodPolicy,omitempty"`
	TTLSecondsAfterFinished *int32            `json:"ttlSecondsAfterFinished,omitempty"`
	ActiveDeadlineSeconds   *int64            `json:"activeDeadlineSeconds,omitempty"`
	BackoffLimit            *int32            `json:"backoffLimit,omitempty"`
	SchedulingPolicy        *SchedulingPolicy `json:"schedulingPolicy,omitempty"`
	Suspend                 *bool             `json:"suspend,omitempty"`
	ManagedBy               *string           `json:"managedBy,omitempty"`
}

// SchedulingPolicy is how the pods of a job are placed together.
type SchedulingPolicy struct {
	MinAvailable           *int32 `json:"minAvailable,omitempty"`
	Queue                  string `json:"queue,omitempty"`
	PriorityClass          string `json:"priorityClass,omitempty"`
	ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`
}

// ElasticPolicy is between which numbers of workers a PyTorchJob runs, and how they find
// each other.
type ElasticPolicy struct {
	MinReplicas  *int32          `json:"minReplicas,omitempty"`
	MaxReplicas  *int32          `json:"maxReplicas,omitempty"`
	RDZVBackend  *string         `json:"rdzvBackend,omitempty"`
	RDZVPort     *int32          `json:"rdzvPort,omitempty"`
	RDZVHost     *string         `json:"rdzvHost,omitempty"`
	RDZVID       *string         `json:"rdzvId,omitempty"` //nolint:tagliatelle // as Kubeflow has it
	RDZVConf     []RendezvousKey `json:"rdzvConf,omitempty"`
	Standalone   *bool           `json:"standalone,omitempty"`
	NProcPerNode *int32          `json:"nProcPerNode,omitempty"` // deprecated: spec.nprocPerNode
	MaxRestarts  *int32          `json:"maxRestarts,omitempty"`
	// Metrics are those of a HorizontalPodAutoscaler, as JSON.
	Metrics []runtime.RawExtension `json:"metrics,omitempty"`
}

// RendezvousKey is a setting of the rendezvous.
type RendezvousKey struct {
	Key   string `json:"key,omitempty"`
	Value string `json:"value,omitempty"`
}

// TrainingStatus has upstream's shape.
type TrainingStatus struct {
	Conditions        []TrainingCondition      `json:"conditions,omitempty"`
	ReplicaStatuses   map[string]ReplicaStatus `json:"replicaStatuses,omitempty"`
	StartTime         *metav1.Time             `json:"startTime,omitempty"`
	CompletionTime    *metav1.Time             `json:"completionTime,omitempty"`
	LastReconcileTime *metav1.Time             `json:"lastReconcileTime,omitempty"`
}

// TrainingCondition is a condition of a job. The last one of the list is the job's state.
type TrainingCondition struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message,omitempty"`
	LastUpdateTime     metav1.Time            `json:"lastUpdateTime,omitempty"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitempty"`
}

// ReplicaStatus counts the pods of one type.
type ReplicaStatus struct {
	Active    int32 `json:"active,omitempty"`
	Succeeded int32 `json:"succeeded,omitempty"`
	Failed    int32 `json:"failed,omitempty"`
	// Selector is of the pods of the type, for the scale subresource.
	Selector string `json:"selector,omitempty"`
}

// TFJobList is a list of TFJobs.
type TFJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []TFJob `json:"items"`
}

// PyTorchJobList is a list of PyTorchJobs.
type PyTorchJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PyTorchJob `json:"items"`
}

// AddTrainingToScheme registers the kinds of training jobs.
func AddTrainingToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &TFJob{}, &TFJobList{}, &PyTorchJob{}, &PyTorchJobList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
