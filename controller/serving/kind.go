package serving

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/controller/runtime"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// Name is the controller's name: in metrics, logs, and as the field manager and source of events.
const Name = "berth-serving"

// upstream is how the image of KServe's controller ends.
const upstream = "kserve-controller"

// Options is what the controller needs to know; the zero value will do.
type Options struct {
	// Domain is the cluster's DNS domain, for URLs; "" is cluster.local.
	Domain string
	// FetchImage is the image that downloads models, such as one with berth-fetch; "" is KServe's storage initializer.
	FetchImage string
	// Outside is how services are reached from outside of the cluster.
	Outside objects.Outside
	// Traffic returns what is known of the requests for a service; ok is false where not all of them are seen. Nil knows
	// nothing: services then have at least one replica, and their status says so.
	Traffic func(namespace, name string) (t rules.Traffic, ok bool)
	// Wake, if not nil, names services without ready replicas for which a request came.
	Wake <-chan types.NamespacedName
	// Activators has all requests of services whose replicas follow them go through pods of `berth activator`, where these
	// are, which say what Traffic and Wake do not.
	Activators bool
	// behind reports whether there are any; nil is that nothing goes through them.
	behind func() (behind, known bool)
	// activators is how many activators there are; nil is one, if there is Traffic.
	activators func() int
	// gone is called when a service is gone; nil is not.
	gone func(namespace, name string)
}

// Kind returns InferenceServices for the process of the controllers. setting is runtime.Auto or a mode; "" is Auto.
func Kind(setting string, o Options) runtime.Kind {
	return runtime.Kind{
		Name: kserve.Kind, Setting: setting, Upstream: upstream, Scheme: kserve.AddToScheme, Rules: append(Rules(), RouteRules(&o.Outside)...),
		Cache: func() cache.Options {
			shared := true
			by := cache.ByObject{Transform: slimMeta, UnsafeDisableDeepCopy: &shared}
			return cache.Options{ByObject: map[client.Object]cache.ByObject{&kserve.InferenceService{}: by, &kserve.ServingRuntime{}: by, &kserve.ClusterServingRuntime{}: by}}
		},
		Add: func(mgr manager.Manager, m runtime.ModeSource) error { return add(mgr, o, m) },
	}
}
