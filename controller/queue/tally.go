package queue

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/user"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/training"
)

// tally is what queues hold, counted from objects. It talks to no API server and has no lock.
type tally struct {
	queues     map[string]*v1alpha1.Queue
	members    *queues.Members
	offers     *queues.Offers
	namespaces map[string]*corev1.Namespace
	pods       map[string]*entry            // with GPUs and not ended, by UID
	suspended  map[string]*queues.Suspended // that wait for their turn, by UID
	classes    map[string]*schedulingv1.PriorityClass
	lines      queues.LinePriorities
	kueue      bool // it runs, or that is not known
	defaults   queues.DefaultClasses
	book       *quota.Book
	usage      quota.Usage
	rules      map[string]quota.Rule
	owners     request.Owners             // the objects that pods are made for
	users      bool                       // some Queue counts by user
	problems   map[string][]quota.Problem // by queue
	unassigned string                     // why pods get no default classes; "" is that they do

	stale bool            // all is to be counted again
	moved map[string]bool // nodes whose pods are to be counted again
	dirty map[string]bool // pods that are
}

// entry is one pod, as quotas see it.
type entry struct {
	pod      *corev1.Pod
	workload string
	gang     *request.Gang // nil is none
	queue    string        // "" is none
	user     string
	waits    bool // for quota
}

func newTally() *tally {
	return &tally{
		owners: func(string, *metav1.OwnerReference) metav1.Object { return nil },
		queues: map[string]*v1alpha1.Queue{}, offers: &queues.Offers{}, namespaces: map[string]*corev1.Namespace{}, pods: map[string]*entry{}, suspended: map[string]*queues.Suspended{},
		classes: map[string]*schedulingv1.PriorityClass{}, moved: map[string]bool{}, dirty: map[string]bool{},
	}
}

// read takes the Queues that there are.
func (t *tally) read(list []v1alpha1.Queue) {
	same := len(list) == len(t.queues)
	for i := range list {
		was := t.queues[list[i].Name]
		same = same && was != nil && was.UID == list[i].UID && was.Generation == list[i].Generation && queues.Holds(was) == queues.Holds(&list[i])
	}
	if same {
		return
	}
	t.queues, t.stale = make(map[string]*v1alpha1.Queue, len(list)), true
	for i := range list {
		t.queues[list[i].Name] = &list[i]
	}
}

func (t *tally) setNamespace(name string, n *corev1.Namespace) {
	if t.stale = true; n == nil {
		delete(t.namespaces, name)
	} else {
		t.namespaces[name] = n
	}
}

func (t *tally) setNode(name string, n *corev1.Node) {
	t.moved[name] = true
	var other bool
	if n == nil {
		other = t.offers.Remove(name)
	} else {
		other = t.offers.Set(n)
	}
	t.stale = t.stale || other
}

// setPod takes a pod as it is now; nil is that it is gone.
func (t *tally) setPod(uid string, p *corev1.Pod) {
	t.dirty[uid] = true
	if p == nil || request.Ended(p) {
		delete(t.pods, uid)
		return
	}
	e := &entry{pod: p, workload: uid}
	if g, err := request.GangOf(p); err == nil && g != nil {
		e.workload, e.gang = g.Key, g
	}
	if c := request.Unscheduled(p); c != nil && p.Spec.NodeName == "" && p.DeletionTimestamp == nil {
		_, wait := queue.Marked(c.Message)
		e.waits = wait == queue.Quota
	}
	t.pods[uid] = e
}

// settle counts what was set since the last call.
func (t *tally) settle(now time.Time) {
	if t.stale || t.book == nil {
		t.plant()
	} else {
		for uid, e := range t.pods {
			if t.moved[e.pod.Spec.NodeName] {
				t.dirty[uid] = true
			}
		}
	}
	for uid := range t.dirty {
		if e := t.pods[uid]; e != nil {
			t.count(uid, e)
		} else {
			t.book.Gone(uid)
		}
	}
	t.stale = false
	clear(t.moved)
	clear(t.dirty)
	t.usage.Move(now, t.book, t.recorded)
}

// plant makes a new Book, in which no pod is counted yet.
func (t *tally) plant() {
	list := make([]*v1alpha1.Queue, 0, len(t.queues))
	t.problems, t.users = map[string][]quota.Problem{}, false
	for _, q := range t.queues {
		list = append(list, q)
		t.users = t.users || len(q.Spec.PerUser) > 0 || q.Spec.Order == v1alpha1.OrderFair
	}
	t.rules = queues.Rules(list)
	t.members = queues.NewMembers(list).In(queues.Around{Owners: t.owners, Kueue: func() bool { return t.kueue }})
	t.offers.Count(list)
	specs, problems := queues.Specs(list, t.offers.Products()...)
	tree := quota.NewTree(specs)
	all := make([]*corev1.Namespace, 0, len(t.namespaces))
	for _, n := range t.namespaces {
		all = append(all, n)
	}
	defaults, unset := queues.NewDefaultClasses(list, func(class string) bool { return t.classes[class] != nil })
	t.defaults = defaults
	for _, p := range slices.Concat(problems, tree.Problems(), t.members.Problems(all), unset) {
		if !slices.Contains(t.problems[p.Queue], p) {
			t.problems[p.Queue] = append(t.problems[p.Queue], p)
		}
	}
	for uid, s := range t.suspended { // their pods may get other classes
		t.suspended[uid] = queues.Of(s.Object, t.priorityClasses())
	}
	t.book = quota.NewBook(tree)
	for uid := range t.pods {
		t.dirty[uid] = true
	}
}

// count counts one pod.
func (t *tally) count(uid string, e *entry) {
	e.queue, e.user = t.members.QueueOf(e.pod, t.namespaces[e.pod.Namespace]), ""
	if e.queue != "" {
		e.user = t.userOf(e.pod)
	}
	if e.pod.Spec.NodeName == "" || e.queue == "" {
		t.book.Gone(uid)
		return
	}
	h := &quota.Holder{
		ID: uid, Workload: e.workload, Queue: e.queue, User: e.user, Pieces: t.offers.Held(e.pod),
		Priority: request.Priority(e.pod), Saves: training.Saves(e.pod), Leaving: e.pod.DeletionTimestamp != nil,
	}
	if s := e.pod.Status.StartTime; s != nil {
		h.Start = s.Time
	}
	t.book.Hold(h)
}

// userOf is the user of a pod as limits count it; "" where no queue counts users.
func (t *tally) userOf(p *corev1.Pod) string {
	if !t.users {
		return ""
	}
	return user.CountedAs(request.UserOf(p, t.owners))
}

// line is the priority of an object in the line of its queue; nil is none apart from that of pods.
func (t *tally) line(o metav1.Object) *int32 { return t.lines.Of(o, t.owners) }

// recorded is the past use of a queue, as its status has it.
func (t *tally) recorded(name string) (out []quota.PastUse) {
	q := t.queues[name]
	if q == nil {
		return nil
	}
	for _, u := range q.Status.Usage {
		out = append(out, quota.PastUse{User: u.User, Decay: quota.Decay{Value: float64(u.GPUSeconds), At: u.At.Time}})
	}
	return out
}

// waiting returns the workloads that wait for quota, in the order of their turns. Pods that are
// left out are of workloads that do not count.
func (t *tally) waiting(leave func(*corev1.Pod) bool) []quota.Workload {
	works, kinds := map[string]*quota.Workload{}, map[string][][]quota.Kind{}
	waits := map[string]bool{}
	for _, e := range t.pods {
		if e.queue == "" || e.pod.Spec.NodeName != "" || e.pod.DeletionTimestamp != nil || leave(e.pod) {
			continue
		}
		waits[e.workload] = waits[e.workload] || e.waits
		w, ticket := works[e.workload], request.TurnOf(e.pod, t.owners)
		if w == nil {
			w = &quota.Workload{ID: e.workload, Queue: e.queue, User: e.user, Ticket: ticket, Line: t.line(e.pod)}
			works[e.workload] = w
		}
		if e.queue != w.Queue {
			w.Mixed, w.Other = true, e.queue
		}
		asked, of := queues.Asked(e.pod, t.offers, t.book.Tree().Ways(e.queue))
		kinds[e.workload] = append(kinds[e.workload], of)
		asked.User = e.user
		w.Pods = append(w.Pods, asked)
		if queue.Compare(ticket, w.Ticket) < 0 {
			w.Ticket, w.Line = ticket, t.line(e.pod)
		}
		if e.gang != nil {
			w.Need = e.gang.MinCount
		}
	}
	out := t.asks()
	for id, w := range works {
		if waits[id] {
			queues.SetKinds(w, kinds[id])
			slices.SortFunc(w.Pods, func(a, b quota.Pod) int { // those that ask for least first, as the scheduler admits them
				return cmp.Or(cmp.Compare(a.Devices(), b.Devices()), cmp.Compare(a.ID, b.ID))
			})
			out = append(out, *w)
		}
	}
	slices.SortFunc(out, func(a, b quota.Workload) int { return queue.Compare(t.book.Turn(&a), t.book.Turn(&b)) })
	return out
}
