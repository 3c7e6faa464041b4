// Package service is `berth service`, one file a verb: InferenceServices, made, shown, asked, and changed.
package service

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/cli/why"
	"berth.dev/berth/core/gpu"
	objects "berth.dev/berth/kube/serving"
)

// roleServingUser is the ClusterRole that lets a user have services.
const roleServingUser = "berth-serving-user"

// command is what every `berth service ...` has.
type command struct {
	options client.Options
	cluster client.Flags
}

// New makes `berth service`.
func New(o client.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "service",
		Aliases: []string{"services", "svc"},
		Short:   "Create, ask, stop, and explain model services",
		Long: "Manage InferenceServices (serving.kserve.io), run by Berth's controller or KServe's. They are ordinary Kubernetes\n" +
			"objects: kubectl shows and changes them, too.",
		Example: "  berth service create mnist --model pvc://model-storage/ --format tensorflow --gpus 1\n" +
			"  berth service list\n  berth service predict mnist -f image.json\n  berth service why mnist",
		Args: term.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCreate(o), newList(o), newShow(o), newWhy(o), newPredict(o), newOpen(o), newLogs(o), newSize(o), newStop(o), newStart(o), newPromote(o), newRollback(o), newDelete(o))
	return cmd
}

// addFlags adds those that say which cluster and which namespace.
func (c *command) addFlags(cmd *cobra.Command) {
	c.cluster.AddFlags(cmd, true)
	own := cmd.Flags()
	own.Lookup("namespace").Usage = "namespace (default: the kubeconfig's)"
	own.Lookup("all-namespaces").Hidden = true
}

// services are the InferenceServices of one namespace of a cluster.
type services struct {
	*client.Cluster
	api       dynamic.Interface
	namespace string
	options   client.Options
}

// connect makes the client for the services of one namespace.
func (c *command) connect() (*services, error) {
	cluster, err := c.cluster.Connect(c.options)
	if err != nil {
		return nil, err
	}
	namespace, err := c.cluster.Namespace()
	if err != nil {
		return nil, err
	}
	api, err := cluster.Dynamic(c.options)
	if err != nil {
		return nil, err
	}
	return &services{Cluster: cluster, api: api, namespace: namespace, options: c.options}, nil
}

// seen returns the service of a name with its pods, and the client that they are of.
func (c *command) seen(ctx context.Context, name string) (*services, *service, []*corev1.Pod, error) {
	all, err := c.connect()
	if err != nil {
		return nil, nil, nil, err
	}
	o, err := all.find(ctx, name)
	if err != nil {
		return nil, nil, nil, err
	}
	pods, err := all.podsOf(ctx, all.namespace, name)
	if err != nil {
		return nil, nil, nil, err
	}
	return all, o, pods[o.Namespace+"/"+o.Name], nil
}

// in is the client for the services of a namespace; "" is all.
func (s *services) in(namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return s.api.Resource(kserve.InferenceServices)
	}
	return s.api.Resource(kserve.InferenceServices).Namespace(namespace)
}

// service is an InferenceService with what is read of it.
type service struct {
	kserve.InferenceService
	written *objects.Written
	problem string // why it cannot run as it is written; "" is that it can
}

// at is the service with its namespace, as messages name it.
func (s *service) at() string { return "service " + s.Namespace + "/" + s.Name }

// read reads a service from its JSON.
func read(u *unstructured.Unstructured) (*service, error) {
	raw, err := u.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	out := &service{}
	if err := json.Unmarshal(raw, &out.InferenceService); err != nil {
		return nil, fmt.Errorf("%s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	written, fault := objects.Of(&out.InferenceService)
	if out.written = written; fault != nil {
		out.problem = fault.Message
	}
	return out, nil
}

// list returns the services of a namespace, or of all if it is "", by namespace and name.
func (s *services) list(ctx context.Context, namespace, selector string) (out []*service, err error) {
	found, err := s.in(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
	if err != nil {
		return nil, s.refused("list services", "list", err)
	}
	for i := range found.Items {
		one, err := read(&found.Items[i])
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b *service) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// find returns the service of a name.
func (s *services) find(ctx context.Context, name string) (*service, error) {
	found, err := s.in(s.namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return read(found)
	case !apierrors.IsNotFound(err) || notebook.NoSuchKind(err):
		return nil, s.refused("read service "+s.namespace+"/"+name, "get", err)
	}
	list, err := s.list(ctx, s.namespace, "")
	if err != nil {
		return nil, fmt.Errorf("there is no model service %s in namespace %s", name, s.namespace)
	}
	var here []string
	for _, o := range list {
		here = append(here, o.Name)
	}
	switch near := gpu.NearestWord(name, here); {
	case near != "":
		return nil, fmt.Errorf("there is no model service %s in namespace %s; did you mean %s?", name, s.namespace, near)
	case len(here) == 0:
		return nil, fmt.Errorf("there is no model service %s in namespace %s, which has none; `%s service create` creates one", name, s.namespace, s.options.Name)
	}
	return nil, fmt.Errorf("there is no model service %s in namespace %s; existing services: %s", name, s.namespace, term.FitList("", here, term.PlainWidth/2))
}

// annotate sets an annotation of a service, or removes it with nil. It changes nothing if the service is another one by now.
func (s *services) annotate(ctx context.Context, o *service, what string, notes map[string]any) error {
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": string(o.UID), "annotations": notes}})
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, o.at(), err)
	}
	_, err = s.in(s.namespace).Patch(ctx, o.Name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "berth"})
	return s.refused(what+" "+o.at(), "patch", err)
}

// refused explains what a call about services returned.
func (s *services) refused(what, verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case notebook.NoSuchKind(err):
		return fmt.Errorf("%s on %s: this cluster does not serve InferenceServices; install `%s controller` or KServe", what, s.Name, s.options.Name)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot "+verb+" resource"):
		return fmt.Errorf("%s on %s: %w; an administrator can grant it with `kubectl create rolebinding serving -n %s --clusterrole=%s --user=NAME`", what, s.Name, err, s.namespace, roleServingUser)
	}
	return s.Failed(what, err)
}

// completeNames completes arguments with the names of services.
func (c *command) completeNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	s, err := c.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := s.list(cmd.Context(), s.namespace, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, o := range list {
		if !slices.Contains(args, o.Name) {
			names = append(names, o.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// each runs what for the service of every name, says on stderr what went wrong with each but the last, and returns that.
func (c *command) each(ctx context.Context, names []string, what func(*services, *service) error) error {
	all, err := c.connect()
	if err != nil {
		return err
	}
	return term.Each(c.options.Err, names, func(name string) error {
		o, err := all.find(ctx, name)
		if err != nil {
			return err
		}
		return what(all, o)
	})
}

// newWhy makes `berth service why`.
func newWhy(o client.Options) *cobra.Command {
	c := &command{options: o}
	cmd := why.NewTraining(o, func(ctx context.Context, n *notebook.Notebooks, arg string) (string, error) {
		s, err := (&services{Cluster: n.Cluster, api: n.Client, namespace: n.Namespace, options: o}).find(ctx, arg)
		if err != nil {
			return "", err
		}
		if ready := s.Status.Condition(kserve.ConditionReady); ready != nil {
			term.Printf(o.Err, "%s: %s\n", s.at(), s.message())
		}
		return "inferenceservice/" + s.Name, nil
	})
	cmd.Short = "Explain why a model service is not ready, and what would help"
	cmd.Long = "Print what the status of a service says, on stderr, and explain the state of its replicas, as\n`berth why isvc/NAME` does."
	cmd.ValidArgsFunction = c.completeNames
	return cmd
}

// message is why a service is not ready, or that it is.
func (s *service) message() string {
	switch ready := s.Status.Condition(kserve.ConditionReady); {
	case s.problem != "":
		return s.problem
	case ready == nil:
		return "no controller has seen the service yet"
	default:
		return ready.Message
	}
}
