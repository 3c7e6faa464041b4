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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/queues"
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
