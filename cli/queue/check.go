package queue

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// check is `berth queue check`.
type check struct {
	o       client.Options
	cluster client.Flags
	file    string
}

func newCheck(o client.Options) *cobra.Command {
	c := &check{o: o}
	cmd := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Show what Queues in a file would change, and for whom, before they are applied",
		Long: "Compare the Queues in a file with those of the cluster: what is wrong with them, which namespaces change their\n" +
			"queue, which queues would hold more than their nominal quota, and which waiting workloads could start or\n" +
			"would wait. Queues that the file does not have stay as they are. Nothing is written. Exits with code 3 if\n" +
			"something is wrong with the Queues.",
		Example: "  berth queue check -f queues.yaml\n  kubectl kustomize queues | berth queue check -f -",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.cluster.AddFlags(cmd, false)
	cmd.Flags().StringVarP(&c.file, "filename", "f", "", "file with Queues; - is standard input")
	return cmd
}

func (k *check) run(ctx context.Context) error {
	if k.file == "" {
		return term.Usagef("-f is missing: name a file with Queues")
	}
	objects, err := client.ReadFile(k.o, k.file, readQueues)
	if err != nil {
		return err
	}
	c, err := k.cluster.Connect(k.o)
	if err != nil {
		return err
	}
	refused, err := k.dryRun(ctx, c, objects)
	if err != nil {
		return err
	}
	if len(refused) > 0 {
		for _, text := range refused {
			term.PrintLine(k.o.Out, text)
		}
		return term.ErrFound
	}
	s, err := read(ctx, c, k.o)
	if err != nil {
		return err
	}
	if s.count == nil {
		return fmt.Errorf("compare queues on %s: you cannot list nodes, namespaces, or the pods of all namespaces; request a role that allows it", c.Name)
	}
	then, err := s.with(objects, k.o.Time())
	if err != nil {
		return err
	}
	wrong := then.wrong(objects)
	for _, text := range slices.Concat(wrong, nowhere(objects, then), changes(s, then)) {
		term.PrintLine(k.o.Out, text)
	}
	if len(wrong) > 0 {
		return term.ErrFound
	}
	return nil
}

// readQueues reads the Queues of a file, of several documents or lists.
func readQueues(name string, r io.Reader) ([]*unstructured.Unstructured, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var out []*unstructured.Unstructured
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		var object map[string]any
		if err := d.Decode(&object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if len(object) == 0 {
			continue
		}
		u := &unstructured.Unstructured{Object: object}
		items := []*unstructured.Unstructured{u}
		if u.IsList() {
			list, err := u.ToList()
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", name, err)
			}
			items = client.Pointers(list.Items)
		}
		for _, u := range items {
			if u.GroupVersionKind().GroupKind() == v1alpha1.GroupVersion.WithKind(v1alpha1.KindQueue).GroupKind() {
				out = append(out, u)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: it has no Queue of %s", name, v1alpha1.GroupVersion)
	}
	return out, nil
}

// dryRun has the API server judge each Queue, and returns what it refuses. It fills in what
// the server answers: with defaults, as it would be stored.
func (k *check) dryRun(ctx context.Context, c *client.Cluster, objects []*unstructured.Unstructured) (refused []string, err error) {
	api, err := c.Dynamic(k.o)
	if err != nil {
		return nil, err
	}
	to := api.Resource(v1alpha1.Queues)
	for i, u := range objects {
		there, err := to.Get(ctx, u.GetName(), metav1.GetOptions{})
		switch {
		case err == nil:
			next := there.DeepCopy()
			next.Object["spec"] = u.Object["spec"]
			next, err = to.Update(ctx, next, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			objects[i] = cmp.Or(next, u)
		case apierrors.IsNotFound(err):
			next, createErr := to.Create(ctx, u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			if apierrors.IsNotFound(createErr) {
				return nil, fmt.Errorf("check queue %s on %s: this cluster does not serve Queues; install `%s controller`", u.GetName(), c.Name, k.o.Name)
			}
			objects[i], err = cmp.Or(next, u), createErr
		}
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			refused = append(refused, err.Error())
			continue
		}
		if err := c.Failed("check queue "+u.GetName(), err); err != nil {
			return nil, err
		}
	}
	return refused, nil
}

// with counts the cluster as if it had the Queues in place of those of their names; new ones
// are as old as now.
func (s *state) with(objects []*unstructured.Unstructured, now time.Time) (*state, error) {
	then := *s
	then.queues = slices.Clone(s.queues)
	for _, u := range objects {
		q := &v1alpha1.Queue{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, q); err != nil {
			return nil, fmt.Errorf("read queue %s: %w", u.GetName(), err)
		}
		i, there := slices.BinarySearchFunc(then.queues, q.Name, func(q *v1alpha1.Queue, name string) int { return strings.Compare(q.Name, name) })
		if there {
			q.CreationTimestamp, q.Status = then.queues[i].CreationTimestamp, then.queues[i].Status
			then.queues[i] = q
		} else {
			q.CreationTimestamp = metav1.NewTime(now)
			then.queues = slices.Insert(then.queues, i, q)
		}
	}
	objectsNow := *s.situation
	objectsNow.Queues = then.queues
	then.count = queues.Read(&objectsNow)
	then.tree, then.situation = then.count.Book.Tree(), &objectsNow
	return &then, nil
}

// wrong lists what is wrong with Queues of these names.
func (s *state) wrong(objects []*unstructured.Unstructured) (out []string) {
	for _, p := range s.count.Problems {
		if slices.ContainsFunc(objects, func(u *unstructured.Unstructured) bool { return u.GetName() == p.Queue }) {
			out = append(out, fmt.Sprintf("%s: %s: %s", p.Queue, p.Field, p.Text))
		}
	}
	return out
}

// nowhere lists node labels that the Queues name and no node has. That is not wrong: nodes may
// come.
func nowhere(objects []*unstructured.Unstructured, then *state) (out []string) {
	for _, q := range then.queues {
		if !slices.ContainsFunc(objects, func(u *unstructured.Unstructured) bool { return u.GetName() == q.Name }) {
			continue
		}
		for _, label := range queues.Labels([]*v1alpha1.Queue{q}) {
			key, value, _ := strings.Cut(label, "=")
			values := map[string]bool{}
			for _, n := range then.situation.Nodes {
				if has, there := n.Labels[key]; there {
					values[has] = true
				}
			}
			text := fmt.Sprintf("queue %s: no node has the label %s", q.Name, label)
			switch near := gpu.NearestWord(value, slices.Sorted(maps.Keys(values))); {
			case values[value]:
				continue
			case near != "":
				text += fmt.Sprintf("; did you mean %s=%s?", key, near)
			case len(values) > 0:
				text += fmt.Sprintf("; nodes have %s of %s", strings.Join(slices.Sorted(maps.Keys(values)), ", "), key)
			}
			out = append(out, text)
		}
	}
	return out
}

// changes says what is different for whom, in sentences.
func changes(now, then *state) []string {
	out := slices.Concat(moved(now, then), drained(now, then), barred(now, then), overdrawn(now, then), waits(now, then))
	if len(out) == 0 {
		return []string{"nothing changes for the workloads of the cluster"}
	}
	return out
}

// moved lists the namespaces that change their queue, and how many pods with GPUs they have.
func moved(now, then *state) (out []string) {
	pods := map[string]int{}
	for _, pod := range now.pods {
		if request.Of(pod) != nil {
			pods[pod.Namespace]++
		}
	}
	for _, ns := range now.situation.Namespaces {
		from, to := now.count.Members.OfNamespace(ns), then.count.Members.OfNamespace(ns)
		if from.Queue == to.Queue {
			continue
		}
		out = append(out, fmt.Sprintf("namespace %s, %s with GPUs: from %s to %s (%s)",
			ns.Name, term.Count(pods[ns.Name], "pod"), cmp.Or(from.Queue, "no queue"), cmp.Or(to.Queue, "no queue"), to.Why))
	}
	slices.Sort(out)
	return out
}

// drained lists the queues that would evict what runs in them, and how many pods that is.
func drained(now, then *state) (out []string) {
	drains := func(s *state, name string) bool {
		return slices.ContainsFunc(s.queues, func(q *v1alpha1.Queue) bool {
			return q.Name == name && q.Spec.Stop == v1alpha1.StopHoldAndDrain
		})
	}
	for _, q := range then.queues {
		if !drains(then, q.Name) || drains(now, q.Name) {
			continue
		}
		pods := 0
		for _, h := range then.count.Book.Holders() {
			if slices.Contains(then.tree.Path(h.Queue), q.Name) {
				pods++
			}
		}
		out = append(out, fmt.Sprintf("queue %s evicts what runs in it and below: %s", q.Name, term.Count(pods, "pod")))
	}
	return out
}

// barred lists the pods with a node that use GPUs in a way that their queue would not allow, and
// does now, by queue.
func barred(now, then *state) (out []string) {
	type use struct {
		queue string
		ways  sharing.Ways
	}
	pods := map[use][]string{}
	for _, pod := range then.pods {
		if pod.Spec.NodeName == "" || request.Of(pod) == nil || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			continue
		}
		to, ways := then.count.QueueOf(pod).Queue, then.count.Offers.WaysOf(pod)
		if no := ways &^ then.tree.Ways(to); no != 0 && no.In(now.tree.Ways(now.count.QueueOf(pod).Queue)) {
			pods[use{to, no}] = append(pods[use{to, no}], pod.Namespace+"/"+pod.Name)
		}
	}
	for at, names := range pods {
		slices.Sort(names)
		out = append(out, fmt.Sprintf("queue %s allows only %s: %s of it %s GPUs by %s and %s: %s", at.queue, then.tree.Ways(at.queue).Text("and"),
			term.Count(len(names), "pod"), verb(len(names), "uses", "use"), at.ways.Text("and"), verb(len(names), "goes on", "go on"), first(names)))
	}
	slices.Sort(out)
	return out
}

// mostPods is how many pods a sentence names.
const mostPods = 5

// first names the first of some pods.
func first(names []string) string {
	if more := len(names) - mostPods; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostPods], ", "), more)
	}
	return strings.Join(names, ", ")
}

// verb is a verb for one, or for several.
func verb(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// overdrawn lists the queues that would hold more than their nominal quota, and do not, or hold
// less than that.
func overdrawn(now, then *state) (out []string) {
	before, after := now.count.Book.Standings(), then.count.Book.Standings()
	for _, name := range slices.Sorted(maps.Keys(after)) {
		for _, a := range after[name] {
			over := max(0, a.Used-a.Nominal)
			i := slices.IndexFunc(before[name], func(b quota.Standing) bool { return b.Resource == a.Resource })
			if over == 0 || i >= 0 && over <= max(0, before[name][i].Used-before[name][i].Nominal) {
				continue
			}
			text := fmt.Sprintf("queue %s holds %s %s of a nominal quota of %s", name, number(gpus(a.Used)), short(queues.GPUsOf(a.Resource)), number(gpus(a.Nominal)))
			if a.Borrowed > 0 {
				text += fmt.Sprintf(": it borrows %s, which other queues can take back", number(gpus(a.Borrowed)))
			} else {
				text += ": it admits nothing until it holds less; what runs goes on"
			}
			out = append(out, text)
		}
	}
	return out
}

// waits lists the workloads without a node for which quota is there and was not, or the
// other way round.
func waits(now, then *state) (out []string) {
	seen := map[string]bool{}
	for _, pod := range now.pods {
		id := queues.Workload(pod)
		if pod.Spec.NodeName != "" || request.Of(pod) == nil || seen[id] || pod.Status.Phase != v1.PodPending {
			continue
		}
		seen[id] = true
		user := ""
		if w := then.count.WorkloadOf(pod); w != nil {
			user = w.User
		}
		out = append(out, waitsNow(request.OwnerOf(pod), "the pod", now.count.Verdict(pod), then.count.Verdict(pod), user)...)
	}
	for _, s := range now.situation.Suspended {
		var before, after quota.Verdict
		if w := now.count.WorkloadFor(s); w != nil {
			before = now.count.Book.Try(w)
		}
		if w := then.count.WorkloadFor(s); w != nil {
			after = then.count.Book.Try(w)
		}
		owner := request.Owner{Kind: s.Kind, Namespace: s.Object.GetNamespace(), Name: s.Object.GetName()}
		out = append(out, waitsNow(owner, "the "+s.Kind, before, after, then.count.UserOf(s.Sets[0].Pod))...)
	}
	slices.Sort(out)
	return out
}

// waitsNow says that a workload waits for quota, and did not before, or the other way round.
func waitsNow(owner request.Owner, what string, before, after quota.Verdict, user string) []string {
	who := fmt.Sprintf("%s %s/%s", owner.Namespace, strings.ToLower(owner.Kind), owner.Name)
	switch {
	case before.Cause != quota.None && after.Cause == quota.None:
		return []string{who + ": there is quota for it, for which it waits now"}
	case before.Cause == quota.None && after.Cause != quota.None:
		return []string{fmt.Sprintf("%s: it waits for quota: %s", who, after.Sentence(what, user))}
	}
	return nil
}
