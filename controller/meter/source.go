package meter

import (
	"fmt"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeobject "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/controller/proxy"
	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/kube/exporter"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// newSource reads the cluster of cfg. Nothing is watched before it is asked for.
func newSource(cfg *rest.Config) (*source, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // API servers defend themselves by priority and fairness
	scheme := runtimeobject.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(cfg, web)
	if err != nil {
		return nil, err
	}
	s := &source{}
	if s.cache, err = newCache(cfg, web, scheme, mapper); err != nil {
		return nil, err
	}
	reader, err := client.New(cfg, client.Options{HTTPClient: web, Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	s.owners, s.writer = runtime.NewOwners(reader), reader
	if s.gauges, err = newGauges(cfg, web, reader); err != nil {
		return nil, err
	}
	for resource, has := range map[schema.GroupVersionResource]*bool{v1alpha1.Queues: &s.queues, v1alpha1.PriceBooks: &s.books} {
		_, err := mapper.KindFor(resource)
		if err != nil && !meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("ask whether the cluster has %s: %w", resource.Resource, err)
		}
		*has = err == nil
	}
	asks, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, web)
	if err != nil {
		return nil, fmt.Errorf("ask what is served: %w", err)
	}
	s.kueue = queues.NewKueue(asks.ServerResourcesForGroupVersion)
	return s, nil
}

// newGauges reads the exporters of GPUs.
func newGauges(cfg *rest.Config, web *http.Client, reader client.Reader) (*proxy.Gauges, error) {
	proxied, root, err := proxy.Through(web, cfg)
	if err != nil {
		return nil, err
	}
	typed, err := kubernetes.NewForConfigAndClient(cfg, web)
	if err != nil {
		return nil, fmt.Errorf("make a client for tokens: %w", err)
	}
	return &proxy.Gauges{
		Client: proxied, Root: root, Pods: reader, Now: time.Now, Longest: readPatience, Token: exporter.NewMetricsTokens(typed, time.Now).Get,
	}, nil
}

func newCache(cfg *rest.Config, web *http.Client, scheme *runtimeobject.Scheme, mapper meta.RESTMapper) (cache.Cache, error) {
	shared := true
	return cache.New(cfg, cache.Options{
		HTTPClient: web, Scheme: scheme, Mapper: mapper, DefaultUnsafeDisableDeepCopy: &shared,
		DefaultTransform: slim,
		ByObject: map[client.Object]cache.ByObject{
			&v1.Pod{}:  {Transform: slimPod(runtime.SlimPod(slimStatus)), UnsafeDisableDeepCopy: &shared},
			&v1.Node{}: {Transform: slimNode, UnsafeDisableDeepCopy: &shared},
		},
	})
}

// slimPod keeps of a pod without GPUs how much CPU and memory it takes of which node, and leaves others to gpus.
func slimPod(gpus toolscache.TransformFunc) toolscache.TransformFunc {
	return func(o any) (any, error) {
		p, ok := o.(*v1.Pod)
		if !ok || request.AsksForGPUs(p) {
			return gpus(o)
		}
		slim := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}}
		if p.Spec.NodeName != "" {
			slim.Spec.NodeName, slim.Status.Phase = p.Spec.NodeName, p.Status.Phase
			slim.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: listOf(request.Room(p))}}}
		}
		return slim, nil
	}
}

// slimStatus keeps of the status of a pod when it was bound, when its containers ended, and what they have.
func slimStatus(s *v1.PodStatus) v1.PodStatus {
	return v1.PodStatus{Phase: s.Phase, Conditions: s.Conditions, InitContainerStatuses: s.InitContainerStatuses, ContainerStatuses: s.ContainerStatuses}
}

// slim drops who owns which field, but of Queues keeps which program wrote them, and when.
func slim(o any) (any, error) {
	if q, ok := o.(*v1alpha1.Queue); ok {
		return slimQueue(q), nil
	}
	return cache.TransformStripManagedFields()(o)
}

// slimNode drops of a node what is large and says nothing of GPUs.
func slimNode(o any) (any, error) {
	if n, ok := o.(*v1.Node); ok {
		n.ManagedFields, n.Status.Images = nil, nil
	}
	return o, nil
}
