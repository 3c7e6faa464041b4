// Package notebook is `berth notebook`, one file a verb, and the client for notebooks that
// other commands use, too. Why a notebook waits is not here: commands are given Prospects.
package notebook

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
)

// Command is what every `berth notebook ...` has.
type Command struct {
	Options   client.Options
	Cluster   client.Flags
	prospects Prospects
}

// Prospects returns when a notebook that waits for GPUs can start and what would help it, in
// sentences. `berth why` knows; it also reads notebooks, so it is given to this package.
type Prospects func(ctx context.Context, n *Notebooks, nb *kubeflow.Notebook) []string

// New makes `berth notebook`. Its commands that wait print prospects; more are
// commands that other packages add.
func New(o client.Options, prospects Prospects, more ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "notebook",
		Aliases: []string{"notebooks", "nb"},
		Short:   "Create, open, stop, and start notebooks, and explain why one waits",
		Long: "Manage notebooks of Kubeflow's kind Notebook (kubeflow.org), run by Berth's controller or Kubeflow's own.\n" +
			"They are ordinary Kubernetes objects: kubectl shows and changes them, too.",
		Example: "  berth notebook create ada --gpus 1 --wait\n  berth notebook open ada\n" +
			"  berth notebook why ada\n  berth notebook stop ada",
		Args: term.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNotebookList(o), newNotebookCreate(o, prospects), newNotebookOpen(o, prospects), newNotebookStop(o), newNotebookStart(o, prospects),
		newNotebookDelete(o))
	cmd.AddCommand(more...)
	return cmd
}

// AddFlags adds those that say which cluster and which namespace.
func (n *Command) AddFlags(cmd *cobra.Command) {
	n.Cluster.AddFlags(cmd, true)
	own := cmd.Flags()
	own.Lookup("namespace").Usage = "namespace (default: the kubeconfig's)"
	own.Lookup("all-namespaces").Hidden = true
}

// Connect makes the client for the notebooks of one namespace.
func (n *Command) Connect() (*Notebooks, error) {
	c, err := n.Cluster.Connect(n.Options)
	if err != nil {
		return nil, err
	}
	namespace, err := n.Cluster.Namespace()
	if err != nil {
		return nil, err
	}
	client, err := c.Dynamic(n.Options)
	if err != nil {
		return nil, err
	}
	return &Notebooks{Cluster: c, Client: client, Namespace: namespace, Options: n.Options, prospects: n.prospects}, nil
}

// untilInterrupted is ctx until the user interrupts the command.
func untilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// CompleteNames completes the first argument with the names of notebooks.
func (n *Command) CompleteNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	nb, err := n.Connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := nb.List(cmd.Context(), false, "")
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
