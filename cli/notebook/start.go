package notebook

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/explain"
)

// placePatience is how long `start` waits for the controller to say where the
// notebook stands.
const placePatience = 3 * time.Second

// notebookStart is `berth notebook start`.
type notebookStart struct {
	Command
	wait    bool
	timeout time.Duration
}

func newNotebookStart(o client.Options, prospects Prospects) *cobra.Command {
	s := &notebookStart{Command: Command{Options: o, prospects: prospects}}
	cmd := &cobra.Command{
		Use:   "start NAME...",
		Short: "Start stopped notebooks",
		Long: "Start notebooks that were stopped, by a user or because they were idle. Each is queued for GPUs like a new\n" +
			"one. With --wait, the progress is shown until it is ready.",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.CompleteNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			nbs, err := s.Connect()
			if err != nil {
				return err
			}
			return term.Each(s.Options.Err, args, func(name string) error { return s.start(ctx, nbs, name) })
		},
	}
	s.AddFlags(cmd)
	addWaitFlags(cmd, &s.wait, &s.timeout)
	return cmd
}

// addWaitFlags adds --wait and --timeout.
func addWaitFlags(cmd *cobra.Command, wait *bool, timeout *time.Duration) {
	cmd.Flags().BoolVar(wait, "wait", false, "show the progress until it is ready")
	cmd.Flags().DurationVar(timeout, "timeout", 0, "with --wait: give up after this time (default: never)")
}

func (s *notebookStart) start(ctx context.Context, n *Notebooks, name string) error {
	nb, err := n.Get(ctx, name)
	if err != nil {
		return err
	}
	if _, stopped := nb.Annotations[api.AnnotationStopped]; !stopped {
		term.Printf(s.Options.Out, "notebook %s/%s is not stopped: %s\n", n.Namespace, name, StateSentence(nb))
	} else {
		if nb, err = n.annotate(ctx, name, "start", map[string]any{
			api.AnnotationStopped: nil, api.AnnotationNotebookStoppedFor: nil, api.AnnotationNotebookStopsAt: nil,
		}); err != nil {
			return err
		}
		term.Printf(s.Options.Out, "notebook %s/%s is starting\n  kept  %s\n  lost  %s\n", n.Namespace, name, keptText(nb), lostText)
	}
	if !s.wait {
		return n.sayPlace(ctx, name)
	}
	ready, err := n.untilReady(ctx, name, s.timeout, s.Options.Err, begun)
	if err != nil {
		return err
	}
	term.Printf(s.Options.Out, "notebook %s/%s is ready on %s; `%s notebook open %s` opens it\n", n.Namespace, name, Place(ready), n.Program(), name)
	return nil
}

// sayPlace tells where a notebook that was started stands, once its controller
// has said so.
func (n *Notebooks) sayPlace(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, placePatience)
	defer cancel()
	var last *kubeflow.Notebook
	err := n.follow(ctx, name, func(nb *kubeflow.Notebook) (bool, error) {
		if begun(nb) {
			last = nb
		}
		return last != nil && (State(nb) != explain.Starting || !inLine(nb) && Place(nb) != "-"), nil
	})
	switch {
	case last != nil:
		term.Printf(n.Options.Out, "  now   %s\n", StateSentence(last))
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		term.Printf(n.Options.Err, "no controller has processed it within %v; `%s notebook why %s` shows when one has\n", placePatience, n.Program(), name)
		return nil
	}
	return err
}
