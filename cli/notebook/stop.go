package notebook

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/explain"
)

func newNotebookStop(o client.Options) *cobra.Command {
	n := &Command{Options: o}
	cmd := &cobra.Command{
		Use:   "stop NAME...",
		Short: "Stop notebooks: free their GPUs, and keep their volumes",
		Long: "Stop notebooks with Kubeflow's annotation kubeflow-resource-stopped. The pod is deleted and its GPUs become\n" +
			"free; volumes are kept. The contents of memory, such as variables of a kernel, are lost.",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: n.CompleteNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			nbs, err := n.Connect()
			if err != nil {
				return err
			}
			return term.Each(n.Options.Err, args, func(name string) error { return nbs.Stop(cmd.Context(), name) })
		},
	}
	n.AddFlags(cmd)
	return cmd
}

// Stop stops a notebook, and says what is kept and lost.
func (n *Notebooks) Stop(ctx context.Context, name string) error {
	nb, err := n.Get(ctx, name)
	if err != nil {
		return err
	}
	if at, stopped := nb.Annotations[api.AnnotationStopped]; stopped {
		term.Printf(n.Options.Out, "notebook %s/%s is already stopped, since %s\n", n.Namespace, name, at)
		return nil
	}
	now := n.Options.Time().UTC().Format(time.RFC3339)
	if nb, err = n.annotate(ctx, name, "stop", map[string]any{
		api.AnnotationStopped: now, api.AnnotationNotebookStopsAt: nil, api.AnnotationNotebookStoppedFor: nil,
	}); err != nil {
		return err
	}
	gives := ""
	if g := gpusText(nb); g != "-" {
		gives = "; its GPUs (" + g + ") become free when its pod has ended"
	}
	term.Printf(n.Options.Out, "notebook %s/%s stopped%s\n  kept  %s\n  lost  %s\n  `%s notebook start %s` starts it again\n",
		n.Namespace, name, gives, keptText(nb), lostText, n.Program(), name)
	return nil
}

// lostText is what ends with a pod.
const lostText = "the contents of memory, and files outside volumes"

// claimsOf lists the volume claims of a notebook and where they are mounted.
func claimsOf(nb *kubeflow.Notebook) []volumeMount {
	spec := podSpec(nb)
	var out []volumeMount
	for _, v := range spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		m := volumeMount{claim: v.PersistentVolumeClaim.ClaimName}
		for _, c := range spec.Containers {
			for _, at := range c.VolumeMounts {
				if at.Name == v.Name && m.path == "" {
					m.path = at.MountPath
				}
			}
		}
		out = append(out, m)
	}
	return out
}

// keptText names what outlives the pod of a notebook.
func keptText(nb *kubeflow.Notebook) string {
	var out []string
	for _, m := range claimsOf(nb) {
		text := "volume " + m.claim
		if m.path != "" {
			text += " (" + m.path + ")"
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return "only the notebook itself: it has no volume"
	}
	return strings.Join(out, ", ")
}

// StoppedFor is why Berth has stopped a notebook; "" where it is not stopped, or
// by another client.
func StoppedFor(nb *kubeflow.Notebook) string {
	if State(nb) != explain.Stopped {
		return ""
	}
	return nb.Annotations[api.AnnotationNotebookStoppedFor]
}
