package queues

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
)

// Members says which queue pods enter. It does not change, and is safe for concurrent use.
type Members struct {
	queues   map[string]*v1alpha1.Queue
	named    map[string]string   // the queue that names a namespace
	byLabel  map[[2]string][]int // of selectors, those that want a label, by key and value
	others   []int               // those that want none
	selects  []selection         // the older queues first
	usual    string              // the default queue
	labeled  map[string]bool     // namespaces that some queue takes labeled pods of; "*" is all
	around   Around
	problems []quota.Problem
}

// selection is the selector of a queue.
type selection struct {
	queue    string
	selector labels.Selector
}

// Member is the queue that a pod enters.
type Member struct {
	Queue string // "" is none; it may not exist
	// Why says what decided it, such as "spec.namespaces.names of Queue vision".
	Why string
	// Ignored says why the pod does not enter the queue that it names; "" is that it does, or names none. Named is that
	// queue, and By the label or annotation that names it.
	Ignored, Named, By string
}

// NewMembers reads the Queues of a cluster. If two claim the same, the older counts, and
// the first by name if they are equally old.
func NewMembers(list []*v1alpha1.Queue) *Members {
	m := &Members{queues: map[string]*v1alpha1.Queue{}, named: map[string]string{}, byLabel: map[[2]string][]int{}, labeled: map[string]bool{}}
	for _, q := range slices.SortedFunc(slices.Values(list), older) {
		m.queues[q.Name] = q
		if q.Spec.Default {
			m.claim(q.Name, &m.usual, "spec.default", "is the default queue, too")
		}
		n := q.Spec.Namespaces
		if n == nil {
			continue
		}
		for _, name := range n.Names {
			had := m.named[name]
			m.claim(q.Name, &had, "spec.namespaces.names", fmt.Sprintf("names namespace %s, too", name))
			m.named[name] = had
		}
		for _, name := range n.LabeledPods {
			m.labeled[name] = true
		}
		if n.Selector != nil {
			m.selector(q.Name, n.Selector)
		}
	}
	return m
}

// older orders Queues by age, then by name.
func older(a, b *v1alpha1.Queue) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// claim gives something to a queue, unless an older one has it: then both are told so.
func (m *Members) claim(queue string, by *string, field, does string) {
	if *by == "" || *by == queue {
		*by = queue
		return
	}
	m.problems = append(m.problems, twice(*by, queue, field, does)...)
}

// twice is what two queues that claim the same are told.
func twice(first, second, field, does string) []quota.Problem {
	return []quota.Problem{
		{Queue: second, Field: field, Text: fmt.Sprintf("Queue %s, which is older, %s; it counts there", first, does)},
		{Queue: first, Field: field, Text: fmt.Sprintf("Queue %s %s; this one is older, and counts", second, does)},
	}
}

// selector adds the selector of a queue.
func (m *Members) selector(queue string, s *metav1.LabelSelector) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		m.problems = append(m.problems, quota.Problem{Queue: queue, Field: "spec.namespaces.selector", Text: fmt.Sprintf("not a selector: %v", err)})
		return
	}
	at := len(m.selects)
	m.selects = append(m.selects, selection{queue, selector})
	for key, value := range s.MatchLabels {
		m.byLabel[[2]string{key, value}] = append(m.byLabel[[2]string{key, value}], at)
		return // one that it needs is enough to find it by
	}
	m.others = append(m.others, at)
}

// selecting lists the selectors that select a namespace, the older queues first.
func (m *Members) selecting(ns *v1.Namespace) []int {
	if len(m.selects) == 0 {
		return nil
	}
	var out []int
	try := func(list []int) {
		for _, i := range list {
			if m.selects[i].selector.Matches(labels.Set(ns.Labels)) {
				out = append(out, i)
			}
		}
	}
	for key, value := range ns.Labels {
		try(m.byLabel[[2]string{key, value}])
	}
	try(m.others)
	slices.Sort(out)
	return out
}

// Of returns the queue that a pod of a namespace enters. ns may be nil where the namespace
// is not known: then it has no labels.
func (m *Members) Of(pod *v1.Pod, ns *v1.Namespace) Member {
	asked := m.names(pod)
	queue, by, not := m.of(pod, ns, &asked)
	out := Member{Queue: queue, Why: why(queue, by, pod.Namespace)}
	if not == heeded {
		if by == byPod {
			out.Why = asked.String()
		}
		return out
	}
	out.Named, out.By = asked.queue, asked.by.name
	if not == missing {
		out.Ignored = fmt.Sprintf("there is no Queue %q, which %s names", asked.queue, &asked)
	} else {
		out.Ignored = fmt.Sprintf("Queue %s, which %s names, does not list the namespace in spec.namespaces.labeledPods", asked.queue, &asked)
	}
	out.Why += ", as " + out.Ignored
	return out
}

// QueueOf returns the queue that a pod enters, as Of does.
func (m *Members) QueueOf(pod *v1.Pod, ns *v1.Namespace) string {
	var asked naming
	if m.labeled["*"] || m.labeled[pod.Namespace] { // elsewhere a name changes nothing
		asked = m.names(pod)
	}
	queue, _, _ := m.of(pod, ns, &asked)
	return queue
}

// AtCreation returns the queue that a pod enters by itself and its namespace, as admission policies find it, which do not
// see the objects that create pods: that whose PriorityClass it gets.
func (m *Members) AtCreation(pod *v1.Pod, ns *v1.Namespace) string {
	alone := *m
	alone.around.Owners = nil
	return alone.QueueOf(pod, ns)
}

// basis is what decides which queue a pod enters.
type basis uint8

const (
	byNothing basis = iota
	byPod
	byNamespace
	byName
	bySelector
	byDefault
)

// ignored is why the queue that a pod names does not count.
type ignored uint8

const (
	heeded   ignored = iota // or it names none
	missing                 // there is no such queue
	unlisted                // the queue does not take pods of the namespace by their label
)

func (m *Members) of(pod *v1.Pod, ns *v1.Namespace, asked *naming) (queue string, by basis, not ignored) {
	if ns == nil {
		ns = &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}
	}
	queue, by = m.ofNamespace(ns)
	switch q := m.queues[asked.queue]; {
	case asked.queue == "" || asked.queue == queue:
		return queue, by, heeded
	case q == nil:
		return queue, by, missing
	case !takes(q, pod.Namespace):
		return queue, by, unlisted
	}
	return asked.queue, byPod, heeded
}

// takes reports whether pods of a namespace enter a queue by their label.
func takes(q *v1alpha1.Queue, namespace string) bool {
	n := q.Spec.Namespaces
	return n != nil && (slices.Contains(n.LabeledPods, namespace) || slices.Contains(n.LabeledPods, "*"))
}

// OfNamespace returns the queue that pods of a namespace enter, without labels of their own.
func (m *Members) OfNamespace(ns *v1.Namespace) Member {
	queue, by := m.ofNamespace(ns)
	return Member{Queue: queue, Why: why(queue, by, ns.Name)}
}

func (m *Members) ofNamespace(ns *v1.Namespace) (queue string, by basis) {
	if name := ns.Labels[api.LabelQueue]; name != "" {
		return name, byNamespace
	}
	if name := m.named[ns.Name]; name != "" {
		return name, byName
	}
	if list := m.selecting(ns); len(list) > 0 {
		return m.selects[list[0]].queue, bySelector
	}
	if m.usual != "" {
		return m.usual, byDefault
	}
	return "", byNothing
}

// why says what has decided that pods of a namespace enter a queue.
func why(queue string, by basis, namespace string) string {
	switch by {
	case byNamespace:
		return fmt.Sprintf("label %s of namespace %s", api.LabelQueue, namespace)
	case byName:
		return "spec.namespaces.names of Queue " + queue
	case bySelector:
		return "spec.namespaces.selector of Queue " + queue
	case byDefault:
		return fmt.Sprintf("Queue %s is the default", queue)
	case byNothing, byPod: // naming says it
	}
	return fmt.Sprintf("no Queue takes namespace %s", namespace)
}

// Problems returns what is wrong with the Queues' claims to namespaces, by queue and field:
// two that claim the same in the same way, selectors that are not, and labels of
// namespaces that name no queue (for these Queue is the name that is missing).
func (m *Members) Problems(namespaces []*v1.Namespace) []quota.Problem {
	out := slices.Clone(m.problems)
	for _, ns := range namespaces {
		name := ns.Labels[api.LabelQueue]
		if name != "" && m.queues[name] == nil {
			out = append(out, quota.Problem{Queue: name, Field: "metadata.name", Text: fmt.Sprintf("there is no Queue %q, which label %s of namespace %s names", name, api.LabelQueue, ns.Name)})
		}
		if name != "" || m.named[ns.Name] != "" {
			continue
		}
		for i, at := range m.selecting(ns) {
			if i > 0 {
				out = append(out, twice(m.selects[m.selecting(ns)[0]].queue, m.selects[at].queue, "spec.namespaces.selector", "selects namespace "+ns.Name+", too")...)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b quota.Problem) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Text, b.Text))
	})
	return out
}
