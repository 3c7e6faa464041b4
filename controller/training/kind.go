package training

import (
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/runtime"
	rules "berth.dev/berth/core/training"
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
			Name: string(k.kind), Setting: setting, Upstream: "training-operator", Scheme: kubeflow.AddTrainingToScheme, Rules: k.rules(),
			Cache: func() cache.Options {
				shared := true
				return cache.Options{ByObject: map[client.Object]cache.ByObject{k.object(): {Transform: slimJob, UnsafeDisableDeepCopy: &shared}}}
			},
			Add: func(mgr manager.Manager, m runtime.ModeSource) error { return add(mgr, k, o, m) },
		})
	}
	return out
}

// kind is one kind of job, with how its objects are made.
type kind struct {
	kind   rules.Kind
	object func() kubeflow.TrainingJob
	list   func() client.ObjectList
}

// plural returns the resource of the kind, such as "tfjobs".
func (k *kind) plural() string { return strings.ToLower(string(k.kind)) + "s" }

//nolint:gochecknoglobals // a constant
var kinds = []kind{
	{rules.TFJob, func() kubeflow.TrainingJob { return &kubeflow.TFJob{} }, func() client.ObjectList { return &kubeflow.TFJobList{} }},
	{rules.PyTorchJob, func() kubeflow.TrainingJob { return &kubeflow.PyTorchJob{} }, func() client.ObjectList { return &kubeflow.PyTorchJobList{} }},
}
