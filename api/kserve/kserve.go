// Package kserve is the kinds of serving.kserve.io that Berth serves: InferenceService of v1beta1, and ServingRuntime and
// ClusterServingRuntime of v1alpha1. Specs are kept as the JSON that was written, so fields that this program does not know
// survive. It holds no behavior.
package kserve

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group.
const Group = "serving.kserve.io"

// The versions: of InferenceServices, and of runtimes.
var (
	GroupVersion        = schema.GroupVersion{Group: Group, Version: "v1beta1"}
	RuntimeGroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}
)

// The kinds.
const (
	Kind               = "InferenceService"
	KindRuntime        = "ServingRuntime"
	KindClusterRuntime = "ClusterServingRuntime"
)

// The resources of the kinds.
var (
	InferenceServices = GroupVersion.WithResource("inferenceservices")
	Runtimes          = RuntimeGroupVersion.WithResource("servingruntimes")
	ClusterRuntimes   = RuntimeGroupVersion.WithResource("clusterservingruntimes")
)

// Labels and annotations of KServe.
const (
	// LabelComponent says which component of a service an object belongs to: ComponentPredictor is the model server, and
	// ComponentTransformer what stands before it.
	LabelComponent       = "component"
	ComponentPredictor   = "predictor"
	ComponentTransformer = "transformer"
	// LabelVisibility, with VisibilityClusterLocal, has a service not be reached from outside of the cluster.
	LabelVisibility        = "networking.kserve.io/visibility"
	VisibilityClusterLocal = "cluster-local"
	// LabelApp is the label by which a Deployment and a Service of KServe select pods.
	LabelApp = "app"

	// AnnotationStop, with the value "true", stops a service.
	AnnotationStop = "serving.kserve.io/stop"
	// AnnotationDeploymentMode is Standard (before, RawDeployment) for a Deployment, Knative (before, Serverless), or ModelMesh.
	AnnotationDeploymentMode = "serving.kserve.io/deploymentMode"
	// AnnotationMetric and AnnotationTarget say by what replicas are counted.
	AnnotationMetric = "serving.kserve.io/metric"
	AnnotationTarget = "serving.kserve.io/targetUtilizationPercentage"
	// AnnotationServerType, on a runtime, is which server its container runs.
	AnnotationServerType = "serving.kserve.io/server-type"
	// AnnotationModelFormat is on the children of a service with a model.
	AnnotationModelFormat = "modelFormat"
	// AnnotationStorageReadonly, with the value "false", mounts the volume of a model writable.
	AnnotationStorageReadonly = "storage.kserve.io/readonly"
	// AnnotationStorageSecret names another Secret than storage-config for the field storage of a model.
	AnnotationStorageSecret = "serving.kserve.io/storageSecretName"
	// AnnotationMetricsPort and AnnotationMetricsPath, on pods, are where a server has metrics: KServe's runtimes set them. AnnotationPrometheusPort
	// and AnnotationPrometheusPath are Prometheus' usual ones.
	AnnotationMetricsPort    = "prometheus.kserve.io/port"
	AnnotationMetricsPath    = "prometheus.kserve.io/path"
	AnnotationPrometheusPort = "prometheus.io/port"
	AnnotationPrometheusPath = "prometheus.io/path"
)

// InferenceService is a model that is served over HTTP.
type InferenceService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   runtime.RawExtension `json:"spec,omitempty"` // as JSON
	Status Status               `json:"status,omitempty"`
}

// InferenceServiceList is a list of InferenceServices.
type InferenceServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []InferenceService `json:"items"`
}

// ServingRuntime says how models of some formats are served in one namespace.
type ServingRuntime struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec runtime.RawExtension `json:"spec,omitempty"` // as JSON
}

// ServingRuntimeList is a list of ServingRuntimes.
type ServingRuntimeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ServingRuntime `json:"items"`
}

// ClusterServingRuntime says how models of some formats are served in every namespace.
type ClusterServingRuntime struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec runtime.RawExtension `json:"spec,omitempty"` // as JSON
}

// ClusterServingRuntimeList is a list of ClusterServingRuntimes.
type ClusterServingRuntimeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterServingRuntime `json:"items"`
}

// AddToScheme registers the kinds.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &InferenceService{}, &InferenceServiceList{})
	s.AddKnownTypes(RuntimeGroupVersion, &ServingRuntime{}, &ServingRuntimeList{}, &ClusterServingRuntime{}, &ClusterServingRuntimeList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	metav1.AddToGroupVersion(s, RuntimeGroupVersion)
	return nil
}
