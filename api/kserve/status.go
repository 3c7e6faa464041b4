package kserve

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The types of conditions that Berth writes. GPUQueued is its own; the others are KServe's.
const (
	ConditionReady            = "Ready"
	ConditionPredictorReady   = "PredictorReady"
	ConditionTransformerReady = "TransformerReady"
	ConditionIngressReady     = "IngressReady"
	ConditionStopped          = "Stopped"
	// ConditionGPUQueued is True while a replica waits for GPUs; its message says for what.
	ConditionGPUQueued = "GPUQueued"
	// ConditionCanary is True while a new revision answers a share of the requests; it is Berth's, too.
	ConditionCanary = "Canary"
)

// Status has KServe's shape (pkg/apis/serving/v1beta1/inference_service_status.go).
type Status struct {
	ObservedGeneration        int64                `json:"observedGeneration,omitempty"`
	Conditions                []Condition          `json:"conditions,omitempty"` // in order of their types
	Address                   *Address             `json:"address,omitempty"`
	URL                       string               `json:"url,omitempty"`
	Components                map[string]Component `json:"components,omitempty"`
	ModelStatus               *ModelStatus         `json:"modelStatus,omitempty"`
	DeploymentMode            string               `json:"deploymentMode,omitempty"`
	ServingRuntimeName        string               `json:"servingRuntimeName,omitempty"`
	ClusterServingRuntimeName string               `json:"clusterServingRuntimeName,omitempty"`
}

// Condition is one of Knative's conditions.
type Condition struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	Severity           string                 `json:"severity,omitempty"` // "" is an error, "Info" has no part in Ready
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitempty"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message,omitempty"`
}

// Address is where a service is reached inside of the cluster.
type Address struct {
	URL string `json:"url,omitempty"`
}

// Component is the state of the predictor, whose revisions are names of ControllerRevisions, or of the transformer, which has none.
type Component struct {
	LatestCreatedRevision     string   `json:"latestCreatedRevision,omitempty"`
	LatestReadyRevision       string   `json:"latestReadyRevision,omitempty"`
	LatestRolledoutRevision   string   `json:"latestRolledoutRevision,omitempty"`   // to which a rollout was complete last
	PreviousRolledoutRevision string   `json:"previousRolledoutRevision,omitempty"` // and the one before
	URL                       string   `json:"url,omitempty"`
	Address                   *Address `json:"address,omitempty"`
	// Traffic is how requests are divided between two revisions; none is that they are not.
	Traffic []Traffic `json:"traffic,omitempty"`
}

// Traffic is the share of one revision. Its first fields are those of Knative's TrafficTarget, as KServe has them; the others are Berth's.
type Traffic struct {
	RevisionName   string `json:"revisionName"`
	LatestRevision bool   `json:"latestRevision"`
	Percent        int    `json:"percent"`
	Tag            string `json:"tag,omitempty"` // TagLatest or TagPrevious

	Answers int    `json:"answers"`       // over the last five minutes, with errors
	Errors  int    `json:"errors"`        // of them
	P95     string `json:"p95,omitempty"` // of those without an error, such as 120ms
}

// The tags of revisions.
const (
	TagLatest   = "latest"
	TagPrevious = "prev"
)

// ModelStatus says whether the model of the spec is the one that is served.
type ModelStatus struct {
	TransitionStatus string       `json:"transitionStatus"`
	States           *ModelStates `json:"states,omitempty"`
	LastFailureInfo  *FailureInfo `json:"lastFailureInfo,omitempty"`
	Copies           *ModelCopies `json:"copies,omitempty"`
}

// ModelStates are the states of the model that is served and of the one that will be.
type ModelStates struct {
	ActiveModelState string `json:"activeModelState"`
	TargetModelState string `json:"targetModelState,omitempty"`
}

// FailureInfo is why a model cannot be loaded.
type FailureInfo struct {
	Location string       `json:"location,omitempty"` // the pod
	Reason   string       `json:"reason,omitempty"`
	Message  string       `json:"message,omitempty"`
	Time     *metav1.Time `json:"time,omitempty"`
	ExitCode int32        `json:"exitCode,omitempty"`
}

// ModelCopies counts replicas.
type ModelCopies struct {
	FailedCopies int `json:"failedCopies"`
	TotalCopies  int `json:"totalCopies,omitempty"`
}

// Condition returns the condition of a type, or nil.
func (s *Status) Condition(of string) *Condition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == of {
			return &s.Conditions[i]
		}
	}
	return nil
}
