// Package train is `berth train`, one file a verb: TFJobs, PyTorchJobs, and TrainJobs, made, shown, and changed. Its command
// `berth notebook to-job` makes one from a notebook. core/training decides what a job does next.
package train

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/cli/why"
)

// command is what every `berth train ...` has.
type command struct {
	options client.Options
	cluster client.Flags
}

// New makes `berth train`, with commands of other packages.
func New(o client.Options, more ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "train",
		Aliases: []string{"training"},
		Short:   "Create, watch, stop, and scale training jobs",
		Long: "Manage training jobs of Kubeflow's kinds TFJob and PyTorchJob (kubeflow.org) and TrainJob (trainer.kubeflow.org), run by\n" +
			"Berth's controller or Kubeflow's. They are ordinary Kubernetes objects: kubectl shows and changes them, too. A name\n" +
			"finds a job of any kind; if there are two of one name, write tfjob/NAME, pytorchjob/NAME, or trainjob/NAME.",
		Example: "  berth train create bert --image pytorch/pytorch:2.6.0 --replicas 4 --gpus 1 --code ./src -- python /code/train.py\n" +
			"  berth train list\n  berth train logs bert -f\n  berth train stop bert",
		Args: term.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCreate(o), newList(o), newShow(o), newLogs(o), newWhy(o), newStop(o), newResume(o), newScale(o), newDelete(o))
	cmd.AddCommand(more...)
	return cmd
}

// addFlags adds those that say which cluster and which namespace.
func (c *command) addFlags(cmd *cobra.Command) {
	c.cluster.AddFlags(cmd, true)
	own := cmd.Flags()
	own.Lookup("namespace").Usage = "namespace (default: the kubeconfig's)"
	own.Lookup("all-namespaces").Hidden = true
}

// connect makes the client for the jobs of one namespace.
func (c *command) connect() (*jobs, error) {
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
	return &jobs{Cluster: cluster, api: api, namespace: namespace, options: c.options}, nil
}

// completeNames completes the first argument with the names of jobs.
func (c *command) completeNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	j, err := c.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := j.list(cmd.Context(), j.namespace, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, o := range list {
		if name := o.Name; !slices.Contains(args, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// each runs what for the job of every name, says on stderr what went wrong with each but the last,
// and returns that.
func (c *command) each(ctx context.Context, names []string, what func(*jobs, *job) error) error {
	all, err := c.connect()
	if err != nil {
		return err
	}
	return term.Each(c.options.Err, names, func(name string) error {
		j, err := all.find(ctx, name)
		if err != nil {
			return err
		}
		return what(all, j)
	})
}

// newWhy makes `berth train why`.
func newWhy(o client.Options) *cobra.Command {
	c := &command{options: o}
	cmd := why.NewTraining(o, func(ctx context.Context, n *notebook.Notebooks, arg string) (string, error) {
		j, err := (&jobs{Cluster: n.Cluster, api: n.Client, namespace: n.Namespace, options: o}).find(ctx, arg)
		if err != nil {
			return "", err
		}
		return j.title(), nil
	})
	cmd.ValidArgsFunction = c.completeNames
	return cmd
}
