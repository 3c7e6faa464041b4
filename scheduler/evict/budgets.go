package evict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/kube/request"
)

// Budgets reads PodDisruptionBudgets from the scheduler's informers.
type Budgets struct {
	lister policylisters.PodDisruptionBudgetLister
	Any    atomic.Int64 // counts every change
	who    atomic.Int64 // counts the changes by which a budget may be about other pods
	listed []*policyv1.PodDisruptionBudget
	by     map[string][]selector // by namespace, as of was
	Was    int64                 // who
}

// selector says which pods a budget is about.
type selector struct {
	number    int // in listed
	pods      labels.Selector
	disrupted map[string]metav1.Time // pods that it has counted already, by name
}

// WatchBudgets makes budgets that follow the informer, and calls looser when one
// allows more than before, may be about fewer pods, or is gone.
func WatchBudgets(f informers.SharedInformerFactory, looser func()) (*Budgets, error) {
	informer := f.Policy().V1().PodDisruptionBudgets()
	b := &Budgets{lister: informer.Lister(), Was: -1}
	changed := func(any) {
		b.who.Add(1)
		b.Any.Add(1)
	}
	counts := func(obj any) bool {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		pdb, ok := obj.(*policyv1.PodDisruptionBudget)
		return !ok || !request.Yields(pdb)
	}
	_, err := informer.Informer().AddEventHandler(cache.FilteringResourceEventHandler{FilterFunc: counts, Handler: cache.ResourceEventHandlerFuncs{
		AddFunc: changed,
		DeleteFunc: func(obj any) {
			changed(obj)
			looser()
		},
		UpdateFunc: func(old, now any) {
			was, is, who := old.(*policyv1.PodDisruptionBudget), now.(*policyv1.PodDisruptionBudget), b.who.Load()
			if !equality.Semantic.DeepEqual(was.Spec.Selector, is.Spec.Selector) || !maps.Equal(was.Status.DisruptedPods, is.Status.DisruptedPods) {
				b.who.Add(1)
			}
			if b.Any.Add(1); b.who.Load() != who || is.Status.DisruptionsAllowed > was.Status.DisruptionsAllowed || is.Status.ExpectedPods < was.Status.ExpectedPods {
				looser()
			}
		},
	}})
	if err != nil {
		return nil, fmt.Errorf("watch disruption budgets: %w", err)
	}
	return b, nil
}

// list returns the budgets that count: not those that Berth writes by default.
func (b *Budgets) list() ([]*policyv1.PodDisruptionBudget, error) {
	all, err := b.lister.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list disruption budgets: %w", err)
	}
	return slices.DeleteFunc(all, request.Yields), nil
}

// Read lists the budgets, in an order that stays, and how many evictions each
// allows now: what its status allows, less those that e has begun since.
func (b *Budgets) Read(e *Evictor) ([]int, error) {
	who := b.who.Load()
	list, err := b.list()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(x, y *policyv1.PodDisruptionBudget) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	b.listed = list
	if who != b.Was {
		b.by, b.Was = map[string][]selector{}, who
		for i, pdb := range list {
			s, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
			if err != nil {
				s = labels.Nothing() // as the stock scheduler has it
			}
			b.by[pdb.Namespace] = append(b.by[pdb.Namespace], selector{number: i, pods: s, disrupted: pdb.Status.DisruptedPods})
		}
	}
	allowed := make([]int, len(list))
	for i, pdb := range list {
		allowed[i] = int(pdb.Status.DisruptionsAllowed) - e.pending(pdb.UID, pdb.ResourceVersion)
	}
	return allowed, nil
}

// Of gives the budgets that an eviction of pod counts on, by their numbers.
func (b *Budgets) Of(pod *v1.Pod) []int {
	var out []int
	for _, s := range b.by[pod.Namespace] {
		if _, counted := s.disrupted[pod.Name]; !counted && s.pods.Matches(labels.Set(pod.Labels)) {
			out = append(out, s.number)
		}
	}
	return out
}

// Versions gives the resourceVersions of budgets, by UID.
func (b *Budgets) Versions(numbers []int) map[types.UID]string {
	out := make(map[types.UID]string, len(numbers))
	for _, n := range numbers {
		out[b.listed[n].UID] = b.listed[n].ResourceVersion
	}
	return out
}

// Judge returns the first of pods whose eviction, beside that of those before it, a budget
// does not allow; nil is that all may be evicted together. versions are as Versions gives
// them, for each pod. Unlike Read it may be called at any time.
func (b *Budgets) Judge(e *Evictor, pods []*v1.Pod) (kept *v1.Pod, versions []map[types.UID]string, err error) {
	list, err := b.list()
	if err != nil {
		return nil, nil, err
	}
	asked := map[types.UID]int{}
	for _, pod := range pods {
		of := map[types.UID]string{}
		for _, pdb := range list {
			s, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
			_, counted := pdb.Status.DisruptedPods[pod.Name]
			if err != nil || counted || pdb.Namespace != pod.Namespace || !s.Matches(labels.Set(pod.Labels)) {
				continue
			}
			of[pdb.UID] = pdb.ResourceVersion
			if asked[pdb.UID]++; asked[pdb.UID] > int(pdb.Status.DisruptionsAllowed)-e.pending(pdb.UID, pdb.ResourceVersion) {
				return pod, nil, nil
			}
		}
		versions = append(versions, of)
	}
	return nil, versions, nil
}
