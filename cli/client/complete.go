package client

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"berth.dev/berth/api/v1alpha1"
)

// Names lists the names of something in a cluster, to complete a command line. namespace is "" for that of the context.
type Names = func(ctx context.Context, c *Cluster, o Options, namespace string) ([]string, error)

// Complete completes an argument or a flag with names of the cluster that the command line chooses so far, each once. A cluster that cannot
// be reached, or read, has no names.
func Complete(o Options, names Names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		o.Err = io.Discard
		f := flagsOf(cmd)
		c, err := f.Connect(o)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		namespace, err := f.Namespace()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, err := names(cmd.Context(), c, o, namespace)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found = slices.DeleteFunc(found, func(name string) bool { return slices.Contains(args, name) })
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// flagsOf reads the Flags of a command as far as its line has them.
func flagsOf(cmd *cobra.Command) *Flags {
	text := func(name string) string {
		if flag := cmd.Flag(name); flag != nil {
			return flag.Value.String()
		}
		return ""
	}
	f := &Flags{kubeconfig: text("kubeconfig"), dir: text("dir")}
	f.Overrides.ClusterDefaults = clientcmd.ClusterDefaults
	f.Overrides.CurrentContext, f.Overrides.Context.Namespace = text("context"), text("namespace")
	f.Overrides.AuthInfo.Impersonate, f.Overrides.ClusterInfo.Server = text("as"), text("server")
	return f
}

// mostNames is how many names are listed to complete one.
const mostNames = 1000

func namesOf[T metav1.Object](list []T) (out []string) {
	for _, o := range list {
		out = append(out, o.GetName())
	}
	return out
}

// NodeNames are those of the nodes.
func NodeNames(ctx context.Context, c *Cluster, _ Options, _ string) ([]string, error) {
	list, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0", Limit: mostNames})
	if err != nil {
		return nil, err
	}
	return namesOf(Pointers(list.Items)), nil
}

// NamespaceNames are those of the namespaces.
func NamespaceNames(ctx context.Context, c *Cluster, _ Options, _ string) ([]string, error) {
	list, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{ResourceVersion: "0", Limit: mostNames})
	if err != nil {
		return nil, err
	}
	return namesOf(Pointers(list.Items)), nil
}

// QueueNames are those of the Queues.
func QueueNames(ctx context.Context, c *Cluster, o Options, _ string) ([]string, error) {
	list, _, err := c.Queues(ctx, o)
	return namesOf(list), err
}

// ProfileNames are those of the NotebookProfiles.
func ProfileNames(ctx context.Context, c *Cluster, o Options, _ string) ([]string, error) {
	api, err := c.Dynamic(o)
	if err != nil {
		return nil, err
	}
	list, err := api.Resource(v1alpha1.NotebookProfiles).List(ctx, metav1.ListOptions{ResourceVersion: "0", Limit: mostNames})
	if err != nil {
		return nil, err
	}
	return namesOf(Pointers(list.Items)), nil
}

// WaitingPods are the names of the pods of the namespace that have no node.
func WaitingPods(ctx context.Context, c *Cluster, _ Options, namespace string) (out []string, err error) {
	list, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=", Limit: mostNames})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].Spec.NodeName == "" {
			out = append(out, list.Items[i].Name)
		}
	}
	return out, nil
}

// ContextNames completes a flag with the contexts of the kubeconfig.
func ContextNames(cmd *cobra.Command, _ []string, _ string) (out []string, how cobra.ShellCompDirective) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = flagsOf(cmd).kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for name := range config.Contexts {
		out = append(out, name)
	}
	slices.Sort(out)
	return out, cobra.ShellCompDirectiveNoFileComp
}
