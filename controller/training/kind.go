package training

import (
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/controller/runtime"
	rules "berth.dev/berth/core/training"
	objects "berth.dev/berth/kube/training"
)

// Name is the controllers' name: in metrics, logs, and as the field manager and source of
// events.
const Name = "berth-training"

// Options is what the controllers need to know; the zero value will do.
type Options struct {
	// Domain is the cluster's DNS domain, which is added to the names in TF_CONFIG; "" leaves it
	// out, as upstream does unless CUSTOM_CLUSTER_DOMAIN is set.
	Domain string
}

// Kinds returns the kinds of training jobs for the process of the controllers. setting is
// runtime.Auto or a mode, for all of them; "" is Auto.
func Kinds(setting string, o Options) []runtime.Kind {
	var out []runtime.Kind
	for _, k := range kinds {
		out = append(out, runtime.Kind{
			Name: string(k.kind), Setting: setting, Upstream: k.upstream, Scheme: k.scheme, Rules: k.rules(),
			Cache: func() cache.Options {
				shared := true
				return cache.Options{ByObject: map[client.Object]cache.ByObject{k.object(): {Transform: slimJob, UnsafeDisableDeepCopy: &shared}}}
			},
			Add: func(mgr manager.Manager, m runtime.ModeSource) error { return add(mgr, k, o, m) },
		})
	}
	return out
}

// kind is one kind of job.
type kind struct {
	kind     rules.Kind
	upstream string // the name of the other controller of the kind
	scheme   func(*k8sruntime.Scheme) error
	list     func() client.ObjectList
}

// object returns an empty object of the kind.
func (k *kind) object() objects.Object { return objects.New(k.kind) }

// plural returns the resource of the kind, such as "tfjobs".
func (k *kind) plural() string { return objects.ResourceOf(string(k.kind)).Resource }

// kinds are those of the jobs that are trained.
var kinds = []kind{
	{rules.TFJob, "training-operator", kubeflow.AddTrainingToScheme, func() client.ObjectList { return &kubeflow.TFJobList{} }},
	{rules.PyTorchJob, "training-operator", kubeflow.AddTrainingToScheme, func() client.ObjectList { return &kubeflow.PyTorchJobList{} }},
	{rules.TrainJob, "trainer-controller-manager", trainer.AddToScheme, func() client.ObjectList { return &trainer.TrainJobList{} }},
}
