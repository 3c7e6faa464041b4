package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/request"
	objects "berth.dev/berth/kube/serving"
)

// list is `berth service list`.
type list struct {
	command
	output   term.Output
	selector string
}

func newList(o client.Options) *cobra.Command {
	l := &list{command: command{options: o}}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List model services with their state, replicas, GPUs, and why they are not ready",
		Long: "List the InferenceServices of a namespace. REPLICAS are the pods that are ready and those that there are, GPUS what\n" +
			"they request, and WHY what the status says.",
		Example: "  berth service list\n  berth service list -A -o wide",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context()) },
	}
	l.addFlags(cmd)
	l.output.AddFlags(cmd, term.Rows{Kind: "ServiceStateList", Row: row{}})
	f := cmd.Flags()
	f.Lookup("all-namespaces").Hidden = false
	f.Lookup("all-namespaces").Usage = "list services of all namespaces"
	f.StringVarP(&l.selector, "selector", "l", "", "label selector for services")
	return cmd
}

// row is a service in `berth service list -o json`.
type row struct {
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	State     string           `json:"state"`             // the reason of the condition Ready, "Unknown", or "Terminating"
	Ready     bool             `json:"ready"`             // the condition Ready
	URL       string           `json:"url"`               // in the cluster
	Runtime   string           `json:"runtime,omitempty"` // by its name
	Replicas  int              `json:"replicas"`          // pods of the model that there are
	Answering int              `json:"answering"`         // of them that are ready
	GPUs      map[string]int64 `json:"gpus"`              // that all pods request, by resource
	Message   string           `json:"message"`           // what the status says
	Created   string           `json:"created"`           // RFC 3339

	pods []*corev1.Pod
}

// podsOf returns the pods of all services of a namespace, or of all if it is "", by namespace and name of the service.
func (s *services) podsOf(ctx context.Context, namespace, name string) (map[string][]*corev1.Pod, error) {
	selector := api.LabelInferenceService
	if name != "" {
		selector += "=" + name
	}
	list, err := s.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
	if err != nil {
		return nil, s.refused("list the pods of services", "list", err)
	}
	out := map[string][]*corev1.Pod{}
	for i := range list.Items {
		p := &list.Items[i]
		if !request.Ended(p) {
			key := p.Namespace + "/" + p.Labels[api.LabelInferenceService]
			out[key] = append(out[key], p)
		}
	}
	for _, pods := range out {
		slices.SortFunc(pods, func(a, b *corev1.Pod) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
	}
	return out, nil
}

// rowOf reads what is shown of a service.
func (s *service) rowOf(pods []*corev1.Pod) row {
	r := row{
		Namespace: s.Namespace, Name: s.Name, State: "Unknown", URL: s.Status.URL, Runtime: cmp.Or(s.Status.ServingRuntimeName, s.Status.ClusterServingRuntimeName), GPUs: map[string]int64{},
		Message: s.message(), Created: s.CreationTimestamp.UTC().Format(time.RFC3339), pods: pods,
	}
	if c := s.Status.Condition(kserve.ConditionReady); c != nil {
		r.Ready, r.State = c.Status == corev1.ConditionTrue, cmp.Or(c.Reason, string(c.Status))
		if r.Ready && strings.HasPrefix(c.Reason, "Minimum") {
			r.State = "Ready"
		}
	}
	if s.DeletionTimestamp != nil {
		r.State = "Terminating"
	}
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			continue
		}
		if !objects.IsTransformer(p.Labels) {
			if r.Replicas++; answers(p) {
				r.Answering++
			}
		}
		for name, n := range request.Of(p) {
			r.GPUs[name] += n
		}
	}
	return r
}

// answers reports whether a pod is ready.
func answers(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// gpusText is what the pods of a service request, for a column.
func (r *row) gpusText() string {
	var parts []string
	whole := int64(0)
	for _, p := range r.pods {
		if text := request.GPUsText(p); p.DeletionTimestamp == nil && text != "-" {
			if n, all := request.Of(p)[api.ResourceGPU]; all && len(request.Of(p)) == 1 {
				whole += n
			} else {
				parts = append(parts, text)
			}
		}
	}
	if whole > 0 {
		parts = append([]string{fmt.Sprint(whole)}, parts...)
	}
	return cmp.Or(strings.Join(parts, " + "), "-")
}

func (l *list) run(ctx context.Context) error {
	if err := l.output.Check(); err != nil {
		return err
	}
	s, err := l.connect()
	if err != nil {
		return err
	}
	namespace := s.namespace
	if l.cluster.AllNamespaces {
		namespace = ""
	}
	found, err := s.list(ctx, namespace, l.selector)
	if err != nil {
		return err
	}
	pods, err := s.podsOf(ctx, namespace, "")
	if err != nil {
		return err
	}
	rows := make([]row, len(found))
	for i, o := range found {
		rows[i] = o.rowOf(pods[o.Namespace+"/"+o.Name])
	}
	return l.print(rows, namespace)
}

func (l *list) print(rows []row, namespace string) error {
	w := l.options.Out
	switch {
	case l.output.Object():
		return term.Write(w, &l.output, term.NewList("ServiceStateList", rows))
	case l.output.Format == term.OutputName:
		for _, r := range rows {
			term.PrintLine(w, "inferenceservice.serving.kserve.io/"+r.Name)
		}
		return nil
	case len(rows) == 0 && namespace == "":
		term.Printf(l.options.Err, "there are no model services; `%s service create NAME` creates one\n", l.options.Name)
		return nil
	case len(rows) == 0:
		term.Printf(l.options.Err, "namespace %s has no model services; -A shows those of all\n", namespace)
		return nil
	}
	t := &term.Table{Head: []string{"NAME", "STATE", "REPLICAS", "GPUS", "AGE", "WHY"}, Gap: 2, Wrap: true, Spare: []string{"AGE", "GPUS", "REPLICAS"}}
	if namespace == "" {
		t.Head = append([]string{"NAMESPACE"}, t.Head...)
	}
	state := slices.Index(t.Head, "STATE")
	t.Alarm = func(row, column int) bool { return column == state && !rows[row].Ready && rows[row].State != "Stopped" }
	t.Fit = func(row, width int) string { return term.FitList("", []string{rows[row].why()}, width) }
	now := l.options.Time()
	for i := range rows {
		r := &rows[i]
		created, _ := time.Parse(time.RFC3339, r.Created)
		cells := []string{r.Name, r.State, fmt.Sprintf("%d/%d", r.Answering, r.Replicas), r.gpusText(), duration.HumanDuration(max(0, now.Sub(created))), r.why()}
		if namespace == "" {
			cells = append([]string{r.Namespace}, cells...)
		}
		t.Add(cells...)
	}
	screen := l.output.Screen(l.options.Out)
	if l.output.Format == term.OutputWide {
		screen.Width = 0
	}
	return t.Write(w, screen, l.output.NoHeaders)
}

// why is the message of a service that is not simply ready.
func (r *row) why() string {
	if r.State == "Ready" && r.Answering == r.Replicas {
		return ""
	}
	return r.Message
}
