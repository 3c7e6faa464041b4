package can

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/cli/why"
	"berth.dev/berth/core/cost"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/can"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/price"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// judge judges objects in their order on one cluster.
type judge struct {
	*admission
	o       client.Options
	why     *why.Judge
	plan    *explain.Plan // nil: nodes or pods cannot be read
	nodes   map[string]*v1.Node
	rules   cost.Rules
	quotas  map[string][]v1.ResourceQuota // by namespace
	classes map[string]schedulingv1.PriorityClass
	// runtimes are the training runtimes of the files, by kind and name.
	runtimes map[string]*unstructured.Unstructured
	servers  servers
	seen     map[string]*outlook // of pods that ask for the same, since a place was taken
	queued   bool                // there are Queues, whose quota can differ for pods that ask for the same
	held     []*v1.Pod           // of all namespaces; nil: they cannot be read
	plugins  *can.Plugins        // nil: not read
}

// outlook is what is said of pods that get no place.
type outlook struct {
	why.Outlook

	preempts string // the node on which one of them evicts others; "" is none
}

// unit is what is judged together: an object, or several whose pods are one gang.
type unit struct {
	*answer
	of    *can.Workload
	waits *v1.Pod          // the first of its pods that waits for GPUs; nil is that none does
	start reasons.Estimate // of waits
}

// newJudge reads a cluster.
func newJudge(ctx context.Context, n *notebook.Notebooks) (*judge, error) {
	a := &admission{Cluster: n.Cluster, namespace: n.Namespace, made: map[string]bool{}, kinds: map[string]map[string]metav1.APIResource{}}
	own := *n.Cluster
	own.Config = rest.CopyConfig(n.Config)
	own.Config.WarningHandler = a
	var err error
	if a.api, err = own.Dynamic(n.Options); err != nil {
		return nil, err
	}
	j := &judge{
		admission: a, o: n.Options, why: why.NewJudge(n), nodes: map[string]*v1.Node{}, quotas: map[string][]v1.ResourceQuota{},
		classes: map[string]schedulingv1.PriorityClass{}, seen: map[string]*outlook{},
		runtimes: map[string]*unstructured.Unstructured{},
	}
	s := explain.Situation{Owners: n.Owners(ctx, n.Options), DRA: n.DRA(ctx)}
	s.Nodes, s.Pods, err = n.Cluster.Holders(ctx, "")
	if apierrors.IsForbidden(err) {
		return j, nil
	}
	if err != nil {
		return nil, err
	}
	client.CollectLess()
	j.held = s.Pods
	for _, node := range s.Nodes {
		j.nodes[node.Name] = node
	}
	if list, err := n.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{ResourceVersion: "0"}); err == nil {
		s.Priorities = list.Items
	}
	if books, err := n.PriceBooks(ctx, n.Options); err == nil {
		j.rules = price.Rules(books)
	}
	if list, _, err := n.Queues(ctx, n.Options); err == nil && len(list) > 0 {
		if from, err := n.QueueSituation(ctx, n.Options, list, s.Nodes, s.Pods); err == nil {
			s.Queues, j.queued = queues.Read(from), true
		}
	}
	j.plan, err = explain.NewPlan(s)
	return j, err
}

// all judges objects in their order. Pods of one gang that are written as objects of their own are judged with the
// first of them.
func (j *judge) all(ctx context.Context, objects []*client.Object) ([]*answer, error) {
	var units []*unit
	gangs := map[string]*unit{}
	for _, o := range objects {
		u, err := j.admit(ctx, o)
		if err != nil {
			return nil, err
		}
		if key := gangOf(u); key != "" {
			if first := gangs[key]; first != nil {
				first.With, first.of.Pods = append(first.With, u.Name), append(first.of.Pods, u.of.Pods...)
				first.Notes = append(first.Notes, u.Notes...)
				continue
			}
			gangs[key] = u
		}
		units = append(units, u)
	}
	for i, u := range units {
		if u.State == "" && j.onNodes(u) {
			can.Identify(u.of.Pods, fmt.Sprint("can/", i), j.o.Time())
			if err := j.place(ctx, u); err != nil {
				return nil, err
			}
		}
		slices.Sort(u.Notes)
		u.Notes = slices.Compact(u.Notes)
	}
	return answers(units), j.expect(ctx, units)
}

// expect notes when units that wait for GPUs are likely to start. That takes all of them: those that wait count for those after them.
func (j *judge) expect(ctx context.Context, units []*unit) error {
	if !slices.ContainsFunc(units, func(u *unit) bool { return u.waits != nil }) {
		return nil
	}
	likely, err := j.why.Starts(ctx, j.plan)
	if err != nil {
		return err
	}
	for _, u := range units {
		if u.waits == nil {
			continue
		}
		l := likely[queues.Workload(u.waits)]
		u.start.Likely = l
		u.When, u.LikelyStart, u.NineOfTenBy = u.start.Text(j.o.Time()), term.Stamp(l.At), term.Stamp(l.By)
	}
	return nil
}

// answers are those of units.
func answers(units []*unit) []*answer {
	out := make([]*answer, len(units))
	for i, u := range units {
		out[i] = u.answer
	}
	return out
}

// onNodes makes the pods of a DaemonSet of the one that was judged. It reports false where there are none, and says why.
func (j *judge) onNodes(u *unit) bool {
	if u.Kind != "DaemonSet" || j.plan == nil {
		return true
	}
	nodes := make([]*v1.Node, 0, len(j.nodes))
	for _, name := range slices.Sorted(maps.Keys(j.nodes)) {
		nodes = append(nodes, j.nodes[name])
	}
	if u.of.Pods = can.OnNodes(u.of.Pods[0], nodes); len(u.of.Pods) == 0 {
		u.Pods, u.State, u.Code, u.Cause = 0, waits, string(reasons.CodeDaemonSet), reasons.NoNodes
		return false
	}
	return true
}

// gangOf is the key of the gang of a Pod; "" is that an object is judged by itself.
func gangOf(u *unit) string {
	if u.State != "" || u.Kind != "Pod" {
		return ""
	}
	g, err := request.GangOf(u.of.Pods[0])
	if err != nil || g == nil {
		return ""
	}
	return g.Key
}

// admit has the API server judge an object and its pods. The state of what needs no place is set.
func (j *judge) admit(ctx context.Context, o *client.Object) (*unit, error) {
	v, err := j.object(ctx, o.Unstructured)
	if err != nil {
		return nil, err
	}
	name := o.GetName()
	if name == "" {
		name = o.GetGenerateName()
	}
	u := &unit{answer: &answer{File: o.File, Line: o.Line, Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: name, Notes: v.notes}}
	switch {
	case v.exists:
		u.State, u.Notes = exists, append(u.Notes, j.plugin(ctx, v.object)...)
		return u, nil
	case v.refusal != "":
		u.refuse(v.refusal)
		u.Cause = ofObject(u.Cause)
		return u, nil
	}
	j.adds(v)
	if v.object.GetUID() == "" {
		v.object.SetUID("new")
	}
	if err := j.runtime(ctx, v.object); err != nil {
		u.State, u.Never, u.Cause, u.Code = waits, true, "the job cannot run: "+err.Error(), string(reasons.CodeInvalid)
		return u, nil //nolint:nilerr // the answer for the object reports it
	}
	if u.of, err = can.Of(v.object, j.serversFor(ctx, v.object)); err != nil {
		u.refuse(err.Error())
		return u, nil
	}
	if u.Pods = len(u.of.Pods); u.of.Guess != "" {
		u.Notes = append(u.Notes, u.of.Guess)
	}
	switch {
	case u.of.Never != "":
		u.State, u.Never, u.Cause, u.Code = waits, true, u.of.Never, string(reasons.CodeInvalid)
	case u.of.Later != "":
		u.State, u.Cause = later, u.of.Later
	case u.Pods == 0:
		u.State, u.Notes = nothing, append(u.Notes, j.plugin(ctx, v.object)...)
	default:
		return u, j.pods(ctx, u, v.object.GetKind() == "Pod")
	}
	return u, nil
}

// refuse notes that the API server refuses an object or its pods, in the words of `berth why`.
func (u *unit) refuse(said string) {
	f := reasons.Facts{Namespace: u.Namespace, Name: u.Name, Refusal: &reasons.Refusal{Message: said}, Others: "something else that holds it"}
	r := reasons.Judge(&f)
	u.State, u.Code, u.Cause, u.Never = refused, string(f.Code(&r)), r.Message, f.NoWaitHelps(&r)
	if strings.HasPrefix(said, "no matches for kind ") {
		u.Code, u.Cause, u.Never = "", said, true
	}
}

// noNamespace is what the API server answers for an object of a namespace that does not exist.
var noNamespace = regexp.MustCompile(`^namespaces "([^"]+)" not found$`)

// ofObject says of an object of a file what is said of the pods of one, and what to do if its namespace is missing.
func ofObject(cause string) string {
	said, generic := strings.CutPrefix(cause, "the API server refuses its pod: ")
	if !generic {
		return cause
	}
	if missing := noNamespace.FindStringSubmatch(said); missing != nil {
		return fmt.Sprintf("namespace %s does not exist; create it first (kubectl create namespace %s), or write it before this object in the files", missing[1], missing[1])
	}
	return "the API server refuses it: " + said
}

// pods has the API server judge the pods of an object, each distinct one once. admitted is that it has: the object is a
// pod itself.
func (j *judge) pods(ctx context.Context, u *unit, admitted bool) error {
	known := map[string]*v1.Pod{}
	for i, p := range u.of.Pods {
		if admitted {
			j.priority(p)
			continue
		}
		key := template(p)
		made := known[key]
		if made == nil {
			var refusal string
			var notes []string
			var err error
			if made, refusal, notes, err = j.pod(ctx, p); err != nil {
				return err
			}
			u.Notes = append(u.Notes, notes...)
			if refusal != "" {
				u.refuse(refusal)
				u.State = waits // the object is stored, and its controller tries again
				if reasons.Code(u.Code) != reasons.CodeQuota {
					u.Never = true
				}
				return nil
			}
			known[key] = made
		}
		out := made.DeepCopy()
		out.Name, out.GenerateName, out.OwnerReferences = p.Name, "", p.OwnerReferences
		out.Labels = maps.Clone(made.Labels)
		if out.Labels == nil {
			out.Labels = map[string]string{}
		}
		maps.Copy(out.Labels, p.Labels)
		j.priority(out)
		u.of.Pods[i] = out
	}
	return nil
}

// template is equal for pods that admission treats in the same way: all of them but their names and what tells members
// of a job apart.
func template(p *v1.Pod) string {
	s := p.Spec.DeepCopy()
	s.Hostname = ""
	for i := range s.Containers {
		s.Containers[i].Env = nil
	}
	for i := range s.InitContainers {
		s.InitContainers[i].Env = nil
	}
	raw, err := json.Marshal([]any{s, p.Annotations})
	if err != nil {
		return p.Name // not reached: it came as JSON
	}
	return string(raw)
}

// priority sets the priority of a pod whose class the files make.
func (j *judge) priority(p *v1.Pod) {
	if c, made := j.classes[p.Spec.PriorityClassName]; made {
		p.Spec.Priority, p.Spec.PreemptionPolicy = &c.Value, c.PreemptionPolicy
	}
}

// adds notes what an object of the files changes for the pods of those after it.
func (j *judge) adds(v verdict) {
	switch o := v.object; o.GetKind() {
	case "PriorityClass":
		c := schedulingv1.PriorityClass{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &c) == nil {
			j.classes[c.Name] = c
		}
	case trainer.KindClusterRuntime, trainer.KindRuntime:
		j.runtimes[o.GetKind()+" "+o.GetName()] = o
	case kserve.KindRuntime, kserve.KindClusterRuntime:
		j.servers.add(o)
	case "ResourceQuota":
		q := v1.ResourceQuota{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &q) == nil {
			q.Status.Hard, q.Status.Used = q.Spec.Hard, v1.ResourceList{}
			j.quotas[q.Namespace] = append(j.quotas[q.Namespace], q)
		}
	}
}
