package notebook

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
)

// notebookDelete is `berth notebook delete`.
type notebookDelete struct {
	Command
	volumes bool
}

func newNotebookDelete(o client.Options) *cobra.Command {
	d := &notebookDelete{Command: Command{Options: o}}
	cmd := &cobra.Command{
		Use:   "delete NAME...",
		Short: "Delete notebooks, and keep their volumes unless --volumes is set",
		Long: "Delete notebooks with their pods. Volumes are kept and listed. --volumes also deletes the volumes that\n" +
			"`berth notebook create` created for the notebook, with their data, and no others.",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: d.CompleteNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := d.Connect()
			if err != nil {
				return err
			}
			return term.Each(d.Options.Err, args, func(name string) error { return n.remove(cmd.Context(), name, d.volumes) })
		},
	}
	d.AddFlags(cmd)
	cmd.Flags().BoolVar(&d.volumes, "volumes", false, "also delete the volumes that 'berth notebook create' created for it")
	return cmd
}

func (n *Notebooks) remove(ctx context.Context, name string, volumes bool) error {
	nb, err := n.Get(ctx, name)
	if err != nil {
		return err
	}
	if err := n.In(n.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return n.Refused("delete notebook "+n.Namespace+"/"+name, "delete", err)
	}
	term.Printf(n.Options.Out, "notebook %s/%s deleted\n", n.Namespace, name)
	kept := claimsOf(nb)
	if volumes {
		kept, err = n.removeVolumes(ctx, name, kept)
	}
	for _, m := range kept {
		term.Printf(n.Options.Out, "  kept  volume %s; `kubectl delete pvc -n %s %s` deletes it\n", m.claim, n.Namespace, m.claim)
	}
	return err
}

// removeVolumes deletes the claims made for a notebook, and gives those that stay.
func (n *Notebooks) removeVolumes(ctx context.Context, name string, claims []volumeMount) (kept []volumeMount, err error) {
	made, err := n.CoreV1().PersistentVolumeClaims(n.Namespace).List(ctx, metav1.ListOptions{LabelSelector: api.LabelNotebookVolume + "=" + name})
	if err != nil {
		return claims, n.Failed("list PersistentVolumeClaims", err)
	}
	var failed []error
	for _, m := range claims {
		if !slices.ContainsFunc(made.Items, func(c v1.PersistentVolumeClaim) bool { return c.Name == m.claim }) {
			kept = append(kept, m)
			continue
		}
		err := n.CoreV1().PersistentVolumeClaims(n.Namespace).Delete(ctx, m.claim, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			kept, failed = append(kept, m), append(failed, n.Failed("delete PersistentVolumeClaim "+m.claim, err))
			continue
		}
		term.Printf(n.Options.Out, "  lost  volume %s and its data\n", m.claim)
	}
	return kept, errors.Join(failed...)
}
