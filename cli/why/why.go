// Package why is `berth why`, `berth notebook why`, and `berth explain`: it reads what
// kube/explain judges, and prints the answer.
package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/can"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/pool"
	"berth.dev/berth/kube/request"
)

// New makes `berth why`.
func New(o client.Options) *cobra.Command {
	w := &command{Command: notebook.Command{Options: o}}
	cmd := &cobra.Command{
		Use:   "why [[KIND/]NAME]",
		Short: "Explain why a pod is pending, which pods use the GPUs, and what would help",
		Long: "Without a name, list every workload that waits in the namespace, with its cause in a line, equal causes\n" +
			"together. With a name, explain the state of a pod, or of the pods of a Job, Deployment, or other controller: the cause, why each\n" +
			"node was rejected, which pods use the GPUs, when capacity is expected (from known end times), and changes\n" +
			"that would help, each checked against the current cluster. For a running pod, it shows which node preference\n" +
			"was met. For a Notebook, it prints the same as `berth notebook why`.",
		Example: "  berth why\n  berth why -A\n  berth why trainer-0\n  berth why job/train -n research\n  berth why deployment/serve -o yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return w.all(cmd.Context())
			case w.Cluster.AllNamespaces || w.watch:
				return term.Usagef("-A and -w are for the list of all that waits: take %s out, or name a namespace with -n", args[0])
			}
			return w.named(cmd.Context(), args[0])
		},
	}
	w.AddFlags(cmd)
	w.output.AddFlags(cmd, term.Rows{Kind: "WhyList", Row: report{}}, term.Rows{Kind: "WhyList", Row: row{}})
	f := cmd.Flags()
	f.Lookup("all-namespaces").Hidden = false
	f.Lookup("all-namespaces").Usage = "list what waits in all namespaces"
	w.addAudience(cmd)
	f.BoolVarP(&w.watch, "watch", "w", false, "watch the list, and print again after each change")
	return cmd
}

// addAudience adds --for.
func (w *command) addAudience(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.audience, "for", "", "show only what helps that a user or an admin can do (user or admin; default both); user leaves out names of other namespaces")
}

// check refuses flags that make no sense, before any call is made.
func (w *command) check() error {
	if !slices.Contains([]string{"", audienceUser, audienceAdmin}, w.audience) {
		return term.Usagef("invalid --for %q: must be user or admin", w.audience)
	}
	return w.output.Check()
}

func (w *command) named(ctx context.Context, arg string) error {
	if err := w.check(); err != nil {
		return err
	}
	if _, name := split(arg); name == "" {
		return term.Usagef("%q names no pod: write NAME or KIND/NAME, as in job/train", arg)
	}
	n, err := w.Connect()
	if err != nil {
		return err
	}
	return w.explain(ctx, n, arg)
}

// split reads NAME or KIND/NAME.
func split(arg string) (kind, name string) {
	if before, after, both := strings.Cut(arg, "/"); both {
		return kindOf(before), after
	}
	return "", arg
}

// explain prints why NAME or KIND/NAME is as it is.
func (w *command) explain(ctx context.Context, n *notebook.Notebooks, arg string) error {
	kind, name := split(arg)
	e := newExplainer(n)
	e.audience, e.commands, e.whole = w.audience, true, w.output.Object()
	r, err := e.any(ctx, kind, name)
	if err != nil {
		return err
	}
	return w.show(r, "WhyList", "pod")
}

// kindOf is a kind as kubectl takes it: "jobs.batch" and "JOB" are job.
func kindOf(text string) string {
	text, _, _ = strings.Cut(strings.ToLower(text), ".")
	short := map[string]string{"po": "pod", "deploy": "deployment", "sts": "statefulset", "rs": "replicaset", "ds": "daemonset", "nb": "notebook", "isvc": "inferenceservice"}
	if long, ok := short[text]; ok {
		return long
	}
	return strings.TrimSuffix(text, "s")
}

// explainer explains why pods of a namespace wait, for `berth why` and for `berth
// notebook why`.
type explainer struct {
	*client.Cluster
	o         client.Options
	namespace string
	notebooks *notebook.Notebooks // some of which are idle, and hold what others wait for
	grown     []pool.Growth       // the pools of the cluster; nil is not read
	around    *around             // nil is not read
	audience  string              // see whyCommand
	commands  bool                // helps come with the commands that make the changes
	whole     bool                // the users of all holders are read, not of those alone that a person sees
	unnamed   bool                // holders are not shown, so their users are not read
}

func newExplainer(n *notebook.Notebooks) *explainer {
	return &explainer{Cluster: n.Cluster, o: n.Options, namespace: n.Namespace, notebooks: n}
}

// any explains the pod of a name, or a pod of an owner of a name and kind, in lower
// case; a kind of "" is any.
func (e *explainer) any(ctx context.Context, kind, name string) (*report, error) {
	if kind == "notebook" {
		return reportOf(ctx, e.notebooks, name)
	}
	mine, err := e.PodsOf(ctx, e.namespace, func(p *v1.Pod) bool { return isOf(p, kind, name) })
	if err != nil {
		return nil, e.Failed("list pods of "+e.namespace, err)
	}
	if len(mine) == 0 {
		return e.noPod(ctx, kind, name)
	}
	slices.SortStableFunc(mine, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(urgency(a), urgency(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	pod := mine[0]
	if owner := request.OwnerOf(pod); owner.Kind == kubeflow.Kind && kind == "" {
		return reportOf(ctx, e.notebooks, owner.Name)
	}
	r, err := e.pod(ctx, pod)
	if err != nil {
		return nil, err
	}
	r.Beside = len(mine) - 1
	return r, e.fewer(ctx, r, kind, name, mine)
}

// fewer tells of an owner's newest refused pod, if that was after all of its pods
// were made: so one is missing that is not among them.
func (e *explainer) fewer(ctx context.Context, r *report, kind, name string, mine []*v1.Pod) error {
	if kind == "pod" {
		return nil
	}
	newest, err := e.refusedPod(ctx, kind, name)
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil || newest == nil {
		return err
	}
	at := eventOf(newest).at
	if slices.ContainsFunc(mine, func(p *v1.Pod) bool { return !at.After(p.CreationTimestamp.Time) }) {
		return nil
	}
	f := reasons.Facts{Namespace: e.namespace, Name: name, Others: "something else that holds it"}
	_, r.Refused = f.Explain(newest.Message)
	r.refused = at
	return nil
}

// isOf says whether a pod has a name, or is of an owner that has it.
func isOf(p *v1.Pod, kind, name string) bool {
	if kind == "" || kind == "pod" {
		if p.Name == name {
			return true
		}
	}
	if owner := request.OwnerOf(p); owner.Name == name && (kind == "" || kindOf(owner.Kind) == kind) {
		return true
	}
	ref := metav1.GetControllerOfNoCopy(p)
	return ref != nil && ref.Name == name && kindOf(ref.Kind) == kind
}

// urgency orders pods by how much there is to tell of them.
func urgency(p *v1.Pod) int {
	switch _, _, stuck := devices.Stuck(p); {
	case p.Status.Phase == v1.PodSucceeded:
		return 4
	case p.Status.Phase == v1.PodFailed:
		return 3
	case p.Spec.NodeName == "":
		return 0
	case stuck:
		return 1
	}
	return 2
}

// pod tells of one pod.
func (e *explainer) pod(ctx context.Context, pod *v1.Pod) (*report, error) {
	r := &report{
		Namespace: pod.Namespace, Name: pod.Name, Place: pod.Spec.NodeName, GPUs: request.Of(pod), Steps: []step{}, Events: []event{},
		Obstacles: []reasons.Rejection{}, Holders: []holder{}, Helps: []string{}, since: podSince(pod),
	}
	if r.GPUs == nil {
		r.GPUs = map[string]int64{}
	}
	if !r.since.IsZero() {
		r.Since = r.since.UTC().Format(time.RFC3339)
	}
	events, err := e.eventsOf(ctx, []v1.ObjectReference{{Name: pod.Name, Kind: "Pod", UID: pod.UID}})
	if err != nil {
		return nil, err
	}
	for i := range events {
		r.Events = append(r.Events, eventOf(&events[i]))
	}
	r.Events = lastEvents(r.Events)
	kept := pod.DeletionTimestamp != nil && len(pod.Finalizers) > 0
	if !kept && request.Ended(pod) {
		r.State = string(pod.Status.Phase)
		r.Cause = strings.Trim(pod.Status.Reason+": "+pod.Status.Message, ": ")
		if exit := lastExit(pod); pod.Status.Phase == v1.PodFailed {
			r.Code = explain.EndedCode(pod)
			if exit >= 0 {
				r.Cause = strings.Trim(fmt.Sprintf("%s; it ended with exit code %d; see kubectl logs -n %s %s", r.Cause, exit, pod.Namespace, pod.Name), "; ")
			}
		}
		return r, nil
	}
	nodes, pods, err := e.Cluster.Holders(ctx, "")
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	if err != nil {
		r.Hidden = "you may not list nodes or the pods of all namespaces; an administrator sees holders with `" + e.o.Name + " gpus`"
	}
	now := e.o.Time()
	s := &explain.Situation{Pod: pod, Nodes: nodes, Pods: pods, Private: e.audience == audienceUser, Owners: e.Owners(ctx, e.o)}
	if pod.Spec.NodeName == "" {
		s.DRA = e.dra(ctx, pod)
		s.Volumes, s.BadClaims = e.Volumes(ctx, pod)
		s.NoClaims = e.MissingClaims(ctx, pod)
		e.rules(ctx, s)
	}
	facts := s.Facts(events, now)
	if len(facts.Gates) > 0 {
		facts.Queue = e.admission(ctx, "pod", pod.Name)
	}
	verdict := reasons.Judge(&facts)
	r.State, r.Cause, r.Code = string(verdict.Reason), verdict.Message, facts.Code(&verdict)
	if verdict.Reason == reasons.Ready {
		r.State, r.Cause = "Running", ""
		if r.Code, r.Cause = explain.Misuse(pod, nodes); r.Code == "" && len(r.GPUs) > 0 {
			r.Code, r.Cause = explain.CPUBound(pod, e.Measure(ctx, pod, pods))
		}
	}
	r.enters(s)
	r.wasEvicted(s, now)
	if pod.Spec.NodeName != "" || r.Hidden != "" {
		r.chosen(pod, nodes)
		return r, nil
	}
	return r, e.waits(ctx, r, s)
}

// chosen tells which preference of a pod its node meets.
func (r *report) chosen(pod *v1.Pod, nodes []*v1.Node) {
	i := slices.IndexFunc(nodes, func(node *v1.Node) bool { return node.Name == pod.Spec.NodeName })
	if i < 0 {
		return
	}
	if choice := explain.MetPreference(pod, nodes[i]); choice != "" {
		r.Place += ", " + choice
	}
	if named, err := commit.Committed(pod); err == nil {
		r.Warning = request.SeveralShares(pod, nodes[i], named)
	}
}

// podSince is since when a pod is as it is: waits or has begun.
func podSince(pod *v1.Pod) time.Time {
	if pod.Spec.NodeName != "" && pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return pod.CreationTimestamp.Time
}

// noPod tells why there is no pod of a name or an owner: what the API server
// refused when one was to be made.
func (e *explainer) noPod(ctx context.Context, kind, name string) (*report, error) {
	newest, err := e.refusedPod(ctx, kind, name)
	if err != nil {
		return nil, err
	}
	if newest == nil {
		if _, err := e.notebooks.In(e.namespace).Get(ctx, name, metav1.GetOptions{}); kind == "" && err == nil {
			return reportOf(ctx, e.notebooks, name)
		}
		o, err := e.owner(ctx, kind, name)
		if err != nil {
			return nil, err
		}
		if o != nil {
			r := &report{
				Namespace: e.namespace, Name: name, GPUs: map[string]int64{}, Steps: []step{}, Events: []event{},
				Obstacles: []reasons.Rejection{}, Holders: []holder{}, Helps: []string{},
			}
			r.State, r.Cause, r.Code = o.Explain()
			return r, nil
		}
		if said := can.NotRunByName(kind); said != "" {
			return nil, fmt.Errorf("there is no pod of %s %s in namespace %s. %s", kind, name, e.namespace, said)
		}
		return nil, fmt.Errorf("there is no pod %s in namespace %s, and none of a %s of that name; `kubectl get pods -A` lists all", name, e.namespace, cmp.Or(kind, "Job, Deployment or other kind"))
	}
	f := reasons.Facts{Namespace: e.namespace, Name: name, Others: "something else that holds it"}
	reason, message := f.Explain(newest.Message)
	f.Refusal = &reasons.Refusal{Message: newest.Message}
	last := eventOf(newest)
	return &report{
		Code:      f.Code(&reasons.Result{Reason: reason}),
		Namespace: e.namespace, Name: name, State: string(reason), Cause: "its pod cannot be created: " + message, GPUs: map[string]int64{}, Steps: []step{},
		Events: []event{last}, Obstacles: []reasons.Rejection{}, Holders: []holder{}, Helps: []string{},
	}, nil
}

// refusedPod is the newest event of a pod that the API server did not take when an
// owner of a name and kind was to have it; nil is none.
func (e *explainer) refusedPod(ctx context.Context, kind, name string) (*v1.Event, error) {
	list, err := e.CoreV1().Events(e.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedCreate"})
	if err != nil {
		return nil, e.Failed("list events of "+e.namespace, err)
	}
	var newest *v1.Event
	for i := range list.Items {
		event := &list.Items[i]
		of := event.InvolvedObject
		named := of.Name == name && (kind == "" || kindOf(of.Kind) == kind)
		below := of.Kind == "ReplicaSet" && strings.HasPrefix(of.Name, name+"-") && (kind == "" || kind == "deployment")
		if event.Reason == "FailedCreate" && (named || below) && (newest == nil || eventOf(newest).at.Before(eventOf(event).at)) {
			newest = event
		}
	}
	return newest, nil
}
