// Package queueimport makes Queues of the objects by which other schedulers share GPUs: Kueue's ClusterQueues with what
// belongs to them, KAI's and Volcano's Queues, and ResourceQuotas. It lists the fields that it cannot carry over.
package queueimport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/api/v1alpha1"
)

// Note is something that a Queue does otherwise than the object that it was made of.
type Note struct {
	Object string // as kubectl names it: "clusterqueue/team-a"
	Field  string // such as "spec.preemption"; "" is the object as a whole
	Text   string
}

// Result is what comes of an import, in the order of names.
type Result struct {
	Queues []*v1alpha1.Queue
	Notes  []Note
}

// The kinds that are read. Kueue's and KAI's versions have the same fields as far as they are read, but for spec.cohortName.
//
// Source: kueue.x-k8s.io v1beta1 and v1beta2 of Kueue 0.16, scheduling.run.ai/v2 of KAI 0.12, and
// scheduling.volcano.sh/v1beta1 of Volcano 1.13.
var (
	clusterQueue  = schema.GroupKind{Group: "kueue.x-k8s.io", Kind: "ClusterQueue"}   //nolint:gochecknoglobals // a constant
	cohort        = schema.GroupKind{Group: "kueue.x-k8s.io", Kind: "Cohort"}         //nolint:gochecknoglobals // a constant
	localQueue    = schema.GroupKind{Group: "kueue.x-k8s.io", Kind: "LocalQueue"}     //nolint:gochecknoglobals // a constant
	flavor        = schema.GroupKind{Group: "kueue.x-k8s.io", Kind: "ResourceFlavor"} //nolint:gochecknoglobals // a constant
	kaiQueue      = schema.GroupKind{Group: "scheduling.run.ai", Kind: "Queue"}       //nolint:gochecknoglobals // a constant
	volcanoQueue  = schema.GroupKind{Group: "scheduling.volcano.sh", Kind: "Queue"}   //nolint:gochecknoglobals // a constant
	resourceQuota = schema.GroupKind{Kind: "ResourceQuota"}                           //nolint:gochecknoglobals // a constant
)

// importer collects the Queues and notes of one import.
type importer struct {
	objects map[schema.GroupKind][]*object
	queues  map[string]*v1alpha1.Queue
	from    map[string]string // object of each queue, by its name
	notes   []Note
}

// Import makes Queues of objects. It refuses numbers that are none, two objects that give a Queue of one name, and
// queues that are below themselves. Objects of other kinds are noted.
func Import(objects []*unstructured.Unstructured) (Result, error) {
	m := &importer{objects: map[schema.GroupKind][]*object{}, queues: map[string]*v1alpha1.Queue{}, from: map[string]string{}}
	for _, u := range objects {
		o := &object{Unstructured: u, notes: &m.notes}
		kind := u.GroupVersionKind().GroupKind()
		switch kind {
		case clusterQueue, cohort, localQueue, flavor, kaiQueue, volcanoQueue, resourceQuota:
			m.objects[kind] = append(m.objects[kind], o)
		default:
			o.note("", "Queues are not made of this kind")
		}
	}
	for _, read := range []func() error{m.kueue, m.kai, m.volcano, m.quotas} {
		if err := read(); err != nil {
			return Result{}, err
		}
	}
	if err := m.tree(); err != nil {
		return Result{}, err
	}
	m.roots()
	out := Result{Notes: m.notes}
	for _, q := range m.queues {
		out.Queues = append(out.Queues, q)
	}
	slices.SortFunc(out.Queues, func(a, b *v1alpha1.Queue) int { return strings.Compare(a.Name, b.Name) })
	slices.SortStableFunc(out.Notes, func(a, b Note) int {
		return cmp.Or(strings.Compare(a.Object, b.Object), strings.Compare(a.Field, b.Field))
	})
	out.Notes = slices.Compact(out.Notes)
	return out, nil
}

// queue makes an empty Queue of a name for an object.
func (m *importer) queue(name, from string) (*v1alpha1.Queue, error) {
	if other := m.from[name]; other != "" {
		return nil, fmt.Errorf("%s and %s would both be Queue %s: rename one, or import them apart", other, from, name)
	}
	q := &v1alpha1.Queue{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindQueue},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	m.queues[name], m.from[name] = q, from
	return q, nil
}

// roots takes the limits of borrowing and lending from queues without a parent: these share with none.
func (m *importer) roots() {
	for name, q := range m.queues {
		shares := false
		for i := range q.Spec.Quotas {
			quota := &q.Spec.Quotas[i]
			shares = shares || quota.LendingLimit != nil || quota.BorrowingLimit != nil && quota.BorrowingLimit.Sign() > 0
			if q.Spec.Parent == "" {
				quota.BorrowingLimit, quota.LendingLimit = nil, nil
			}
		}
		if shares && q.Spec.Parent == "" {
			m.notes = append(m.notes, Note{m.from[name], "", "without a parent, the Queue neither borrows nor lends: write Queues that are to share below one Queue, with spec.parent"})
		}
	}
}

// tree refuses queues that are below themselves, and notes parents that the objects do not have.
func (m *importer) tree() error {
	for name, q := range m.queues {
		if parent := q.Spec.Parent; parent != "" && m.queues[parent] == nil {
			m.notes = append(m.notes, Note{m.from[name], "", fmt.Sprintf("its parent %s is not among the objects: import it as well, or remove spec.parent", parent)})
		}
		way := []string{name}
		for at := q.Spec.Parent; at != "" && m.queues[at] != nil; at = m.queues[at].Spec.Parent {
			if way = append(way, at); at == name {
				return fmt.Errorf("%s is below itself (%s): remove one of these parents", m.from[name], strings.Join(way, ", below "))
			}
			if len(way) > len(m.queues) {
				break // a circle that it leads to, and is not part of
			}
		}
	}
	return nil
}
