package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// notebookDelete is `berth notebook delete`.
type notebookDelete struct {
	notebookCommand
	volumes bool
}

func newNotebookDelete(o Options) *cobra.Command {
	d := &notebookDelete{notebookCommand: notebookCommand{o: o}}
	cmd := &cobra.Command{
		Use:   "delete NAME...",
		Short: "Delete notebooks, and keep their volumes unless --volumes is set",
		Long: "Delete notebooks with their pods. Volumes are kept and listed. --volumes also deletes the volumes that\n" +
			"`berth notebook create` created for the notebook, with their data, and no others.",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: d.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := d.connect()
			if err != nil {
				return err
			}
			return d.each(args, func(name string) error { return n.remove(cmd.Context(), name, d.volumes) })
		},
	}
	d.flags(cmd)
	cmd.Flags().BoolVar(&d.volumes, "volumes", false, "also delete the volumes that 'berth notebook create' created for it")
	return cmd
}

func (n *notebooks) remove(ctx context.Context, name string, volumes bool) error {
	nb, err := n.get(ctx, name)
	if err != nil {
		return err
	}
	if err := n.in(n.namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return n.refused("delete notebook "+n.namespace+"/"+name, "delete", err)
	}
	printf(n.o.Out, "notebook %s/%s deleted\n", n.namespace, name)
	kept := claimsOf(nb)
	if volumes {
		kept, err = n.removeVolumes(ctx, name, kept)
	}
	for _, m := range kept {
		printf(n.o.Out, "  kept  volume %s; `kubectl delete pvc -n %s %s` deletes it\n", m.claim, n.namespace, m.claim)
	}
	return err
}

// removeVolumes deletes the claims made for a notebook, and gives those that stay.
func (n *notebooks) removeVolumes(ctx context.Context, name string, claims []volumeMount) (kept []volumeMount, err error) {
	made, err := n.CoreV1().PersistentVolumeClaims(n.namespace).List(ctx, metav1.ListOptions{LabelSelector: api.LabelNotebookVolume + "=" + name})
	if err != nil {
		return claims, n.failed("list PersistentVolumeClaims", err)
	}
	var failed []error
	for _, m := range claims {
		if !slices.ContainsFunc(made.Items, func(c v1.PersistentVolumeClaim) bool { return c.Name == m.claim }) {
			kept = append(kept, m)
			continue
		}
		err := n.CoreV1().PersistentVolumeClaims(n.namespace).Delete(ctx, m.claim, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			kept, failed = append(kept, m), append(failed, n.failed("delete PersistentVolumeClaim "+m.claim, err))
			continue
		}
		printf(n.o.Out, "  lost  volume %s and its data\n", m.claim)
	}
	return kept, errors.Join(failed...)
}
