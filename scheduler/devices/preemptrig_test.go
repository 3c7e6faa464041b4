package devices_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	policyinformers "k8s.io/client-go/informers/policy"
	policyv1informers "k8s.io/client-go/informers/policy/v1"
	"k8s.io/client-go/kubernetes/fake"
	policylisters "k8s.io/client-go/listers/policy/v1"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/scheduler/devices"
)

// making is a rig with the plugin that makes room. A pod that is deleted stays,
// terminating, until the test lets it go by remove.
type making struct {
	*rig
	room      *devices.Preemption
	budgets   cache.Indexer
	pdbs      handlers
	evicted   []string          // in order
	keeps     map[string]error  // pods that the API server does not delete
	answers   map[string]string // by pod, what the last PostFilter said
	nominated map[string]string
	asked     int  // times that the other filters were asked
	still     bool // the test counts what is read of nodes: leave them alone
	refuses   func(pod *v1.Pod, n *info) bool
	// reserveAfter is after how long there are reservations, in the plugin's arguments.
	reserveAfter string
	leaves       func(name string) // called with each eviction; may be nil
}

// newMaking makes it, of nodes with so many T4 each.
func newMaking(t *testing.T, nodes ...int) *making {
	t.Helper()
	m := &making{
		rig: newRig(t, nodes...), keeps: map[string]error{}, answers: map[string]string{}, nominated: map[string]string{},
		budgets: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
		refuses: func(*v1.Pod, *info) bool { return false },
	}
	m.client.(*fake.Clientset).PrependReactor("delete", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		name := a.(k8stesting.DeleteAction).GetName()
		if err := m.keeps[name]; err != nil {
			return true, nil, err
		}
		m.evicted = append(m.evicted, name)
		m.update(types.UID(name), func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} })
		m.change(m.pods[types.UID(name)])
		if m.leaves != nil {
			m.leaves(name)
		}
		return true, nil, nil
	})
	m.restart()
	return m
}

// restart makes a scheduler that has seen nothing yet.
func (m *making) restart() {
	m.handler, m.pdbs, m.active, m.permit = nil, nil, nil, map[types.UID]*waits{}
	makers := devices.Plugins()
	made := func(name string) fwk.Plugin {
		var args runtime.Object
		if name == devices.PreemptionName && m.reserveAfter != "" {
			args = &runtime.Unknown{Raw: fmt.Appendf(nil, `{"reserveAfter":%q}`, m.reserveAfter)}
		}
		p, err := makers[name](m.t.Context(), args, m)
		if err != nil {
			m.t.Fatal(err)
		}
		return p
	}
	m.lines = made(devices.WaitingName).(*devices.Waiting)
	m.devs, m.gangs, m.plans = made(devices.Name).(*devices.Plugin), made(devices.GangsName).(*devices.Gangs), made(devices.GangPlansName).(*devices.GangPlans)
	m.boundTo = func(pod *v1.Pod, node string) { m.room.PostBind(m.t.Context(), nil, pod, node) }
	m.room, m.post = made(devices.PreemptionName).(*devices.Preemption), m.postFilter
	for _, uid := range slices.Sorted(maps.Keys(m.pods)) {
		m.meet(m.pods[uid])
	}
}

// postFilter asks the plugins as the framework does, and waits for what they do.
func (m *making) postFilter(s *state, pod *v1.Pod, status *fwk.Status) {
	of := statuses{status}
	var said *fwk.Status
	var result *fwk.PostFilterResult
	for _, p := range []fwk.PostFilterPlugin{m.plans, m.devs, m.room} {
		if result, said = p.PostFilter(m.t.Context(), s, pod, of); said.Code() != fwk.Unschedulable {
			break
		}
	}
	if result != nil {
		m.nominated[pod.Name] = result.NominatedNodeName
	}
	m.answers[pod.Name] = said.Message()
	if err := m.room.Close(); err != nil {
		m.t.Error(err)
	}
	if m.still {
		return
	}
	if drift := m.room.Drift(m.t.Context()); drift != "" {
		m.t.Errorf("after pod %s: what is kept of the nodes has drifted: %s", pod.Name, drift)
	}
}

// statuses is what PreFilter said of all nodes, or Filter of the one that it left.
type statuses struct{ all *fwk.Status }

func (s statuses) Get(string) *fwk.Status { return s.all }
func (s statuses) NodesForStatusCode(fwk.NodeInfoLister, fwk.Code) ([]fwk.NodeInfo, error) {
	return nil, nil
}

// The handle, as far as a rig has not what Preemption asks it for.

func (m *making) GetPodInPreBind(types.UID) fwk.PodInPreBind { return nil }
func (m *making) EventRecorder() events.EventRecorderLogger  { return loud{recorder{r: m.rig}} }
func (m *making) SharedInformerFactory() informers.SharedInformerFactory {
	return budgetFactory{factory{h: m.handle}, m}
}

func (m *making) RunPreFilterExtensionRemovePod(_ context.Context, _ fwk.CycleState, _ *v1.Pod, _ fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return nil
}

func (m *making) RunFilterPlugins(_ context.Context, _ fwk.CycleState, pod *v1.Pod, n fwk.NodeInfo) *fwk.Status {
	if m.refuses(pod, n.(*info)) {
		return fwk.NewStatus(fwk.Unschedulable, "another filter")
	}
	return nil
}

func (m *making) RunFilterPluginsWithNominatedPods(c context.Context, s fwk.CycleState, pod *v1.Pod, n fwk.NodeInfo) *fwk.Status {
	if m.asked++; m.refuses(pod, n.(*info)) {
		return fwk.NewStatus(fwk.Unschedulable, "another filter")
	}
	if s.GetSkipFilterPlugins().Has(devices.Name) {
		return nil
	}
	return m.devs.Filter(c, s, pod, n)
}

// loud is a recorder that has a log.
type loud struct{ recorder }

func (l loud) WithLogger(klog.Logger) events.EventRecorderLogger { return l }

// budgetFactory has disruption budgets beside pods.
type (
	budgetFactory struct {
		factory
		m *making
	}
	budgetGroup struct {
		policyinformers.Interface
		m *making
	}
	budgetVersion struct {
		policyv1informers.Interface
		m *making
	}
	budgetInformer struct{ m *making }
	budgetStore    struct {
		cache.SharedIndexInformer
		m *making
	}
)

func (f budgetFactory) Policy() policyinformers.Interface { return budgetGroup{m: f.m} }
func (g budgetGroup) V1() policyv1informers.Interface     { return budgetVersion{m: g.m} }
func (v budgetVersion) PodDisruptionBudgets() policyv1informers.PodDisruptionBudgetInformer {
	return budgetInformer{v.m}
}
func (i budgetInformer) Informer() cache.SharedIndexInformer { return budgetStore{m: i.m} }

func (i budgetInformer) Lister() policylisters.PodDisruptionBudgetLister {
	return policylisters.NewPodDisruptionBudgetLister(i.m.budgets)
}

func (s budgetStore) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	s.m.pdbs = append(s.m.pdbs, h)
	return nil, nil
}

// protect makes or changes a budget for pods with a label app.
func (m *making) protect(name, app string, allowed int32) {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(allowed)},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
	old, there, err := m.budgets.Get(b)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.budgets.Add(b); err != nil {
		m.t.Fatal(err)
	}
	if there {
		m.pdbs.OnUpdate(old, b)
	} else {
		m.pdbs.OnAdd(b, false)
	}
}

// Snapshot and RemovePod make a copy of a NodeInfo that pods can be taken off.
func (i *info) Snapshot() fwk.NodeInfo {
	out := *i
	out.pods, out.generation = slices.Clone(i.pods), 1_000_000+i.generation
	return &out
}

func (i *info) RemovePod(_ klog.Logger, pod *v1.Pod) error {
	i.pods = slices.DeleteFunc(i.pods, func(p *v1.Pod) bool { return p.UID == pod.UID })
	i.generation += 1_000
	return nil
}

func (s *state) Clone() fwk.CycleState {
	return &state{CycleState: s.CycleState, data: maps.Clone(s.data), skip: s.skip.Clone()}
}

// ranked is a pod of a priority, with GPUs as in asking.
func ranked(name string, priority int32, wants ...string) *v1.Pod {
	p := asking(name, "", wants...)
	p.Spec.Priority, p.Spec.SchedulerName = &priority, "default-scheduler"
	p.Status.StartTime, p.Annotations = &metav1.Time{}, map[string]string{}
	return p
}

// on says where pods are bound, as "pod@node", sorted.
func (m *making) on() []string {
	var out []string
	for _, p := range m.pods {
		if p.Spec.NodeName != "" {
			out = append(out, p.Name+"@"+p.Spec.NodeName)
		}
	}
	slices.Sort(out)
	return out
}
