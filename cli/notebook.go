package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
)

// notebookCommand is what every `berth notebook ...` has.
type notebookCommand struct {
	o       Options
	cluster clusterFlags
}

func newNotebook(o Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "notebook",
		Aliases: []string{"notebooks", "nb"},
		Short:   "Create, open, stop, and start notebooks, and explain why one waits",
		Long: "Manage notebooks of Kubeflow's kind Notebook (kubeflow.org), run by Berth's controller or Kubeflow's own.\n" +
			"They are ordinary Kubernetes objects: kubectl shows and changes them, too.",
		Example: "  berth notebook create ada --gpus 1 --wait\n  berth notebook open ada\n" +
			"  berth notebook why ada\n  berth notebook stop ada",
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNotebookList(o), newNotebookCreate(o), newNotebookOpen(o), newNotebookStop(o), newNotebookStart(o),
		newNotebookDelete(o), newNotebookWhy(o))
	return cmd
}

// flags adds those that say which cluster and which namespace.
func (n *notebookCommand) flags(cmd *cobra.Command) {
	n.cluster.add(cmd, true)
	own := cmd.Flags()
	own.Lookup("namespace").Usage = "namespace (default: the kubeconfig's)"
	own.Lookup("all-namespaces").Hidden = true
}

// connect makes the client for the notebooks of one namespace.
func (n *notebookCommand) connect() (*notebooks, error) {
	c, err := n.cluster.connect(n.o)
	if err != nil {
		return nil, err
	}
	namespace, err := n.cluster.own()
	if err != nil {
		return nil, err
	}
	client, err := c.dynamic(n.o)
	if err != nil {
		return nil, err
	}
	return &notebooks{cluster: c, client: client, namespace: namespace, o: n.o}, nil
}

// own is the namespace to work in: --namespace, else the kubeconfig's, else
// "default".
func (f *clusterFlags) own() (string, error) {
	if f.overrides.Context.Namespace != "" {
		return f.overrides.Context.Namespace, nil
	}
	ch, err := f.choose()
	if err != nil {
		return "", err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = ch.path
	namespace, _, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.overrides).Namespace()
	if err != nil {
		return "", fmt.Errorf("read the namespace of %s: %w", ch.from, err)
	}
	return cmp.Or(namespace, "default"), nil
}

// untilInterrupted is ctx until the user interrupts the command.
func untilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// completeNames completes the first argument with the names of notebooks.
func (n *notebookCommand) completeNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	nb, err := n.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := nb.list(cmd.Context(), false, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range list {
		if name := list[i].Name; !slices.Contains(args, name) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// each runs what for every name, tells what went wrong with each but the last on
// stderr, and returns that.
func (n *notebookCommand) each(names []string, what func(name string) error) error {
	var failed []error
	for _, name := range names {
		if err := what(name); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) < 2 {
		return errors.Join(failed...)
	}
	last := len(failed) - 1
	for _, err := range failed[:last] {
		printf(n.o.Err, "error: %v\n", err)
	}
	return failed[last]
}
