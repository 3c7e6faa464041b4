package queues

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/request"
)

// Happened is something that happened to pods of a workload in a queue, or to a queue.
type Happened struct {
	At      time.Time     // the last time
	Queue   string        // "" is not known
	By      string        // the queue that quota was returned to; "" is none
	Owner   request.Owner // of the pods; zero for what happened to the queue
	Pods    int           // how many of them; 0 for what happened to the queue
	Reason  string        // of the event
	Message string        // of the last event
}

// EventReasons are the reasons of the events that History reads, and what each says in a few words.
var EventReasons = map[string]string{
	"Scheduled":           "admitted",
	quota.ReasonReclaimed: "evicted to return quota",
	"Preempted":           "evicted for a pod of higher priority",
	"MaxRunTimeWarning":   "warned: its maxRunTime is over soon",
	"MaxRunTime":          "ended: its maxRunTime is over",
	"QueueDrained":        "ended: the queue is drained",
	"EvictionBlocked":     "kept by a disruption budget",
	"GivesWayWarning":     "idle notebook warned: it gives way soon",
	"GaveWay":             "idle notebook stopped: it gave way",
	"Returns":             "notebook started again",
	"Borrows":             "the queue borrows",
	"BorrowsNone":         "the queue borrows nothing any longer",
}

// together is how close events of one workload are that History tells as one.
const together = time.Minute

// itsPod is how events of a controller name a pod that was evicted.
var itsPod = regexp.MustCompile(`^its pod (\S+) was evicted `)

// history reads events.
type history struct {
	members    *Members
	namespaces map[string]*v1.Namespace
	pods       map[types.UID]*v1.Pod
	owners     map[string]request.Owner // of pods that are gone, by namespace/name
}

// History returns what events say has happened to queues, the last first. A pod that is gone is of the
// queue that its event names, or of that of its namespace, and what cannot be known of it is left out: that
// it was admitted, if its event does not show that it had GPUs.
func History(members *Members, namespaces []*v1.Namespace, pods []*v1.Pod, events []*v1.Event) []Happened {
	h := &history{members: members, namespaces: map[string]*v1.Namespace{}, pods: map[types.UID]*v1.Pod{}, owners: map[string]request.Owner{}}
	for _, ns := range namespaces {
		h.namespaces[ns.Name] = ns
	}
	for _, pod := range pods {
		h.pods[pod.UID] = pod
	}
	for _, e := range events {
		o := &e.InvolvedObject
		if found := itsPod.FindStringSubmatch(e.Message); found != nil && o.Kind != "Pod" {
			h.owners[o.Namespace+"/"+found[1]] = request.Owner{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
		}
	}
	var all []Happened
	for _, e := range events {
		if one, ok := h.read(e); ok {
			all = append(all, one)
		}
	}
	return merged(all)
}

// read is what one event says; ok is false if it is not about a queue.
func (h *history) read(e *v1.Event) (out Happened, ok bool) {
	o := &e.InvolvedObject
	if _, known := EventReasons[e.Reason]; !known {
		return out, false
	}
	out = Happened{At: when(e), Reason: e.Reason, Message: e.Message, Pods: 1}
	switch o.Kind {
	case v1alpha1.KindQueue:
		out.Queue, out.Pods = o.Name, 0
		return out, true
	case "Notebook":
		out.Owner, out.Queue = request.Owner{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}, h.queueOf(o.Namespace)
		return out, out.Queue != "" && e.Reason != "Preempted" && e.Reason != quota.ReasonReclaimed // its pod has that too
	case "Pod":
	default:
		return out, false
	}
	pod := h.pods[o.UID]
	if pod != nil {
		if !request.AsksForGPUs(pod) {
			return out, false
		}
		out.Owner, out.Queue = request.OwnerOf(pod), h.members.QueueOf(pod, h.namespaces[pod.Namespace])
	} else {
		if e.Reason == "Scheduled" {
			return out, false
		}
		out.Owner, out.Queue = request.Owner{Kind: "Pod", Namespace: o.Namespace, Name: o.Name}, h.queueOf(o.Namespace)
		if owner, told := h.owners[o.Namespace+"/"+o.Name]; told {
			out.Owner = owner
		}
	}
	if r, is := quota.ReclaimIn(e.Message); is && e.Reason == quota.ReasonReclaimed {
		out.Queue, out.By = r.From, r.By
	}
	return out, out.Queue != ""
}

// queueOf is the queue of a namespace.
func (h *history) queueOf(namespace string) string {
	return h.members.QueueOf(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}, h.namespaces[namespace])
}

// merged makes one of what happened to several pods of a workload within a minute, the last first.
func merged(all []Happened) (out []Happened) {
	slices.SortStableFunc(all, func(a, b Happened) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Queue, b.Queue), request.CompareOwners(a.Owner, b.Owner), cmp.Compare(a.Reason, b.Reason))
	})
	type key struct {
		queue, by, reason string
		owner             request.Owner
	}
	last := map[key]int{}
	for _, one := range all {
		k := key{one.Queue, one.By, one.Reason, one.Owner}
		if at, there := last[k]; there && one.Pods > 0 && out[at].At.Sub(one.At) < together {
			out[at].Pods += one.Pods
			continue
		}
		last[k] = len(out)
		out = append(out, one)
	}
	return out
}

// when is when an event happened, the last time.
func when(e *v1.Event) time.Time {
	if e.Series != nil && !e.Series.LastObservedTime.IsZero() {
		return e.Series.LastObservedTime.Time
	}
	for _, at := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time} {
		if !at.IsZero() {
			return at
		}
	}
	return e.CreationTimestamp.Time
}
