package request

import "k8s.io/apimachinery/pkg/runtime/schema"

// Stamped is a resource whose objects are stamped with their user.
type Stamped struct {
	schema.GroupResource
	Kind string
}

// StampedResources are pods and what creates pods, directly or not, of Kubernetes and of projects
// that create pods with GPUs. A cluster need not serve all of them.
var StampedResources = []Stamped{
	{schema.GroupResource{Resource: "pods"}, "Pod"},
	{schema.GroupResource{Resource: "replicationcontrollers"}, "ReplicationController"},
	{schema.GroupResource{Group: "apps", Resource: "deployments"}, "Deployment"},
	{schema.GroupResource{Group: "apps", Resource: "replicasets"}, "ReplicaSet"},
	{schema.GroupResource{Group: "apps", Resource: "statefulsets"}, "StatefulSet"},
	{schema.GroupResource{Group: "apps", Resource: "daemonsets"}, "DaemonSet"},
	{schema.GroupResource{Group: "batch", Resource: "jobs"}, "Job"},
	{schema.GroupResource{Group: "batch", Resource: "cronjobs"}, "CronJob"},
	{schema.GroupResource{Group: "jobset.x-k8s.io", Resource: "jobsets"}, "JobSet"},
	{schema.GroupResource{Group: "leaderworkerset.x-k8s.io", Resource: "leaderworkersets"}, "LeaderWorkerSet"},
	{schema.GroupResource{Group: "kubeflow.org", Resource: "notebooks"}, "Notebook"},
	{schema.GroupResource{Group: "kubeflow.org", Resource: "tfjobs"}, "TFJob"},
	{schema.GroupResource{Group: "kubeflow.org", Resource: "pytorchjobs"}, "PyTorchJob"},
	{schema.GroupResource{Group: "kubeflow.org", Resource: "mpijobs"}, "MPIJob"},
	{schema.GroupResource{Group: "kubeflow.org", Resource: "xgboostjobs"}, "XGBoostJob"},
	{schema.GroupResource{Group: "kubeflow.org", Resource: "paddlejobs"}, "PaddleJob"},
	{schema.GroupResource{Group: "kubeflow.org", Resource: "jaxjobs"}, "JAXJob"},
	{schema.GroupResource{Group: "trainer.kubeflow.org", Resource: "trainjobs"}, "TrainJob"},
	{schema.GroupResource{Group: "serving.kserve.io", Resource: "inferenceservices"}, "InferenceService"},
	{schema.GroupResource{Group: "serving.knative.dev", Resource: "services"}, "Service"},
	{schema.GroupResource{Group: "serving.knative.dev", Resource: "configurations"}, "Configuration"},
	{schema.GroupResource{Group: "serving.knative.dev", Resource: "revisions"}, "Revision"},
	{schema.GroupResource{Group: "ray.io", Resource: "rayclusters"}, "RayCluster"},
	{schema.GroupResource{Group: "ray.io", Resource: "rayjobs"}, "RayJob"},
	{schema.GroupResource{Group: "ray.io", Resource: "rayservices"}, "RayService"},
}

// StampedKind returns the stamped resource of a kind, as an owner reference names it; ok is false
// if there is none.
func StampedKind(apiVersion, kind string) (resource schema.GroupVersionResource, ok bool) {
	at, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return resource, false
	}
	for _, s := range StampedResources {
		if s.Group == at.Group && s.Kind == kind {
			return at.WithResource(s.Resource), true
		}
	}
	return resource, false
}
