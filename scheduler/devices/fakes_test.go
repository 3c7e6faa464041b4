package devices_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	kubedevices "berth.dev/berth/kube/devices"
	"berth.dev/berth/scheduler/devices"
)

// info is a NodeInfo of pods that a test has put there.
type info struct {
	fwk.NodeInfo
	node       *v1.Node
	pods       []*v1.Pod
	generation int64
	read       *int // counts how often its pods were asked for
}

type podInfo struct {
	fwk.PodInfo
	pod *v1.Pod
}

func (p podInfo) GetPod() *v1.Pod { return p.pod }

// resources are what pods ask for together.
type resources struct {
	fwk.Resource
	list v1.ResourceList
}

func (r resources) GetMilliCPU() int64 { return r.list.Cpu().MilliValue() }
func (r resources) GetMemory() int64   { return r.list.Memory().Value() }
func (r resources) GetScalarResources() map[v1.ResourceName]int64 {
	out := map[v1.ResourceName]int64{}
	for name, q := range r.list {
		if strings.Contains(string(name), "/") {
			out[name] = q.Value()
		}
	}
	return out
}

func (i *info) Node() *v1.Node       { return i.node }
func (i *info) GetGeneration() int64 { return i.generation }
func (i *info) GetRequested() fwk.Resource {
	sum := v1.ResourceList{}
	for _, p := range i.pods {
		for _, c := range p.Spec.Containers {
			list := v1.ResourceList{}
			maps.Copy(list, c.Resources.Limits)
			maps.Copy(list, c.Resources.Requests)
			for name, q := range list {
				was := sum[name]
				was.Add(q)
				sum[name] = was
			}
		}
	}
	return resources{list: sum}
}

func (i *info) GetPods() []fwk.PodInfo {
	if i.read != nil {
		*i.read++
	}
	var out []fwk.PodInfo
	for _, p := range i.pods {
		if p.Spec.NodeName == "" {
			p.Spec.NodeName = i.node.Name // as the scheduler's cache has it of every pod of a node
		}
		out = append(out, podInfo{pod: p})
	}
	return out
}

// state is a CycleState.
type state struct {
	fwk.CycleState
	data map[fwk.StateKey]fwk.StateData
	skip sets.Set[string] // plugins that no node is filtered by
}

func (s *state) GetSkipFilterPlugins() sets.Set[string]     { return s.skip }
func (s *state) SetSkipFilterPlugins(skip sets.Set[string]) { s.skip = skip }

func (s *state) Write(k fwk.StateKey, d fwk.StateData) { s.data[k] = d }
func (s *state) Read(k fwk.StateKey) (fwk.StateData, error) {
	if d, ok := s.data[k]; ok {
		return d, nil
	}
	return nil, errors.New("not there")
}

// handle is what a plugin gets of the scheduler: nodes, a client and an informer
// whose handler a test calls.
type handle struct {
	fwk.Handle
	client    kubernetes.Interface
	dry       func(*v1.Binding) error // the API server's answer to a binding without effect; nil accepts all
	dryMu     sync.Mutex              // guards what dry uses: several are asked at once
	nodes     []*info
	handler   handlers
	byName    map[string]*info // nodes by name, where there are many
	activated map[types.UID]bool
	clock     int64           // generations given by schedule
	gone      map[string]bool // pods that the watch has seen to be deleted, by name
	warned    []string
}

// warnings is a recorder that keeps what pods are warned of.
type warnings struct {
	events.EventRecorderLogger
	h *handle
}

func (w warnings) WithLogger(klog.Logger) events.EventRecorderLogger { return w }
func (w warnings) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	w.h.warned = append(w.h.warned, regarding.(*v1.Pod).Name+" "+reason+" "+fmt.Sprintf(note, args...))
}

// EventRecorder records warnings.
func (h *handle) EventRecorder() events.EventRecorderLogger { return warnings{h: h} }

// Activate notes pods that are to be tried at once.
func (h *handle) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	if h.activated == nil {
		h.activated = map[types.UID]bool{}
	}
	for _, p := range pods {
		h.activated[p.UID] = true
	}
}

// list is what PreFilter is given.
func (h *handle) list() []fwk.NodeInfo {
	var out []fwk.NodeInfo
	for _, n := range h.nodes {
		out = append(out, n)
	}
	return out
}

// feasible runs a scheduling cycle of a pod as far as Filter, on the nodes that
// PreFilter leaves, and again at once where PostFilter says so. It gives the
// nodes that passed, or why there are none.
func (h *handle) feasible(t *testing.T, plugin *devices.Plugin, s *state, pod *v1.Pod) ([]*info, *fwk.Status) {
	t.Helper()
	for {
		left, status := plugin.PreFilter(t.Context(), s, pod, h.list())
		if !status.IsSuccess() {
			return nil, status
		}
		var out []*info
		for _, n := range h.nodes {
			if left.AllNodes() || left.NodeNames.Has(n.node.Name) {
				if status = plugin.Filter(t.Context(), s, pod, n); status.IsSuccess() {
					out = append(out, n)
				}
			}
		}
		if len(out) > 0 {
			return out, nil
		}
		plugin.PostFilter(t.Context(), s, pod, nil)
		if !h.activated[pod.UID] {
			return nil, status
		}
		delete(h.activated, pod.UID)
	}
}

func (h *handle) ClientSet() kubernetes.Interface        { return dryClient{h.client, h} }
func (h *handle) SnapshotSharedLister() fwk.SharedLister { return lister{h: h} }
func (h *handle) SharedInformerFactory() informerFactory { return factory{h: h} }

type (
	informerFactory = informers.SharedInformerFactory
	lister          struct {
		fwk.SharedLister
		h *handle
	}
	nodeLister struct {
		fwk.NodeInfoLister
		h *handle
	}
	factory struct {
		informers.SharedInformerFactory
		h *handle
	}
	group struct {
		coreinformers.Interface
		h *handle
	}
	version struct {
		corev1informers.Interface
		h *handle
	}
	podInformer struct {
		corev1informers.PodInformer
		h *handle
	}
	informer struct {
		cache.SharedIndexInformer
		h *handle
	}
	store struct {
		cache.Store
		h *handle
	}
)

func (l lister) NodeInfos() fwk.NodeInfoLister            { return nodeLister{h: l.h} }
func (f factory) Core() coreinformers.Interface           { return group{h: f.h} }
func (g group) V1() corev1informers.Interface             { return version{h: g.h} }
func (v version) Pods() corev1informers.PodInformer       { return podInformer{h: v.h} }
func (p podInformer) Informer() cache.SharedIndexInformer { return informer{h: p.h} }
func (i informer) GetStore() cache.Store                  { return store{h: i.h} }
func (s store) GetByKey(key string) (any, bool, error) {
	_, name, _ := strings.Cut(key, "/")
	return nil, !s.h.gone[name], nil
}

// deletes has the watch see that a pod is deleted, and tells who listens.
func (h *handle) deletes(pod *v1.Pod) {
	if h.gone == nil {
		h.gone = map[string]bool{}
	}
	h.gone[pod.Name] = true
	h.handler.OnDelete(pod)
}

func (i informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.h.handler = append(i.h.handler, h)
	return nil, nil
}

// handlers are told of everything, one after the other.
type handlers []cache.ResourceEventHandler

func (h handlers) OnAdd(obj any, first bool) {
	for _, one := range h {
		one.OnAdd(obj, first)
	}
}

func (h handlers) OnUpdate(old, now any) {
	for _, one := range h {
		one.OnUpdate(old, now)
	}
}

func (h handlers) OnDelete(obj any) {
	for _, one := range h {
		one.OnDelete(obj)
	}
}

func (l nodeLister) List() ([]fwk.NodeInfo, error) { return l.h.list(), nil }

func (l nodeLister) Get(name string) (fwk.NodeInfo, error) {
	if n := l.h.byName[name]; n != nil {
		return n, nil
	}
	for _, n := range l.h.nodes {
		if n.node.Name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("no node %s", name)
}

// t4Node is a node with n T4 that publishes them.
func t4Node(t *testing.T, name string, n int, s gpu.Sharing) *v1.Node {
	t.Helper()
	p, ok := gpu.Find("Tesla T4")
	if !ok {
		t.Fatal("no Tesla T4")
	}
	var list []kubedevices.InventoryGPU
	for _, g := range gpu.New(name, p, n) {
		list = append(list, kubedevices.InventoryGPU{Index: g.Index, UUID: g.UUID, Product: g.Product, MemoryBytes: g.MemoryBytes, Healthy: true})
	}
	inventory, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		api.AnnotationInventory: string(inventory), api.AnnotationPluginConfig: string(plugin),
	}}}
	gpus := gpu.New(name, p, n)
	offered, err := sharing.Devices(gpus, s)
	if err != nil {
		t.Fatal(err)
	}
	amounts := sharing.Allocatable(offered)
	amounts[api.ResourceGPUMemory] = sharing.MemoryGiB(gpus, s)
	amounts["cpu"], amounts["memory"], amounts["pods"] = 64, 256<<30, 110
	node.Status.Allocatable = v1.ResourceList{}
	for name, amount := range amounts {
		node.Status.Allocatable[v1.ResourceName(name)] = *resource.NewQuantity(amount, resource.DecimalSI)
	}
	return node
}

// newPlugin makes the plugin on h.
func newPlugin(t *testing.T, h *handle) *devices.Plugin {
	t.Helper()
	p, err := devices.Factory()(t.Context(), nil, h)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*devices.Plugin)
}

// client is a clientset whose bindings bind decides, and whose pods get gives.
func client(bind func(*v1.Binding) error, get func(name string) *v1.Pod) kubernetes.Interface {
	c := &fake.Clientset{}
	c.AddReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, bind(a.(k8stesting.CreateAction).GetObject().(*v1.Binding))
	})
	c.AddReactor("get", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		name := a.(k8stesting.GetAction).GetName()
		if p := get(name); p != nil {
			return true, p, nil
		}
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
	})
	return c
}
