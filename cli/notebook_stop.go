package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/core/notebook"
)

// placePatience is how long `start` waits for the controller to say where the
// notebook stands.
const placePatience = 3 * time.Second

func newNotebookStop(o Options) *cobra.Command {
	n := &notebookCommand{o: o}
	cmd := &cobra.Command{
		Use:   "stop NAME...",
		Short: "Stop a notebook: its GPUs are given back, its volumes stay",
		Long: "Stop notebooks by the annotation that Kubeflow uses (kubeflow-resource-stopped). The pod ends and its\n" +
			"GPUs are free; volumes stay. What is in memory, such as the variables of a kernel, is lost.",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: n.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			nbs, err := n.connect()
			if err != nil {
				return err
			}
			return n.each(args, func(name string) error { return nbs.stop(cmd.Context(), name) })
		},
	}
	n.flags(cmd)
	return cmd
}

func (n *notebooks) stop(ctx context.Context, name string) error {
	nb, err := n.get(ctx, name)
	if err != nil {
		return err
	}
	if at, stopped := nb.Annotations[api.AnnotationStopped]; stopped {
		fmt.Fprintf(n.o.Out, "notebook %s/%s is stopped already, since %s\n", n.namespace, name, at)
		return nil
	}
	now := n.o.now().UTC().Format(time.RFC3339)
	if nb, err = n.annotate(ctx, name, "stop", map[string]any{
		api.AnnotationStopped: now, api.AnnotationNotebookStopsAt: nil, api.AnnotationNotebookStoppedFor: nil,
	}); err != nil {
		return err
	}
	gives := ""
	if g := gpusText(podOfNotebook(nb)); g != "-" {
		gives = "; its GPUs (" + g + ") are free when its pod has ended"
	}
	fmt.Fprintf(n.o.Out, "notebook %s/%s stopped%s\n  kept  %s\n  lost  %s\n  `%s notebook start %s` starts it again\n",
		n.namespace, name, gives, keptText(nb), lostText, n.program(), name)
	return nil
}

// lostText is what ends with a pod.
const lostText = "what was in memory, and files outside of volumes"

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
		return "nothing but the notebook itself: it has no volume"
	}
	return strings.Join(out, ", ")
}

// stoppedFor is why Berth has stopped a notebook; "" where it is not stopped, or
// by somebody else.
func stoppedFor(nb *kubeflow.Notebook) string {
	if state(nb) != notebook.Stopped {
		return ""
	}
	return nb.Annotations[api.AnnotationNotebookStoppedFor]
}

// notebookStart is `berth notebook start`.
type notebookStart struct {
	notebookCommand
	wait    bool
	timeout time.Duration
}

func newNotebookStart(o Options) *cobra.Command {
	s := &notebookStart{notebookCommand: notebookCommand{o: o}}
	cmd := &cobra.Command{
		Use:   "start NAME...",
		Short: "Start a stopped notebook again, in the order of the line",
		Long: "Start notebooks that were stopped, by a person or for being idle. Each takes its place in the line of\n" +
			"those that wait for GPUs as a new one does. With --wait it is shown what it waits for until it is ready.",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			nbs, err := s.connect()
			if err != nil {
				return err
			}
			return s.each(args, func(name string) error { return s.start(ctx, nbs, name) })
		},
	}
	s.flags(cmd)
	addWaitFlags(cmd, &s.wait, &s.timeout)
	return cmd
}

// addWaitFlags adds --wait and --timeout.
func addWaitFlags(cmd *cobra.Command, wait *bool, timeout *time.Duration) {
	cmd.Flags().BoolVar(wait, "wait", false, "show what it waits for until it is ready")
	cmd.Flags().DurationVar(timeout, "timeout", 0, "with --wait: give up after this long (default: never)")
}

func (s *notebookStart) start(ctx context.Context, n *notebooks, name string) error {
	nb, err := n.get(ctx, name)
	if err != nil {
		return err
	}
	if _, stopped := nb.Annotations[api.AnnotationStopped]; !stopped {
		fmt.Fprintf(s.o.Out, "notebook %s/%s is not stopped: %s\n", n.namespace, name, stateSentence(nb))
	} else {
		if nb, err = n.annotate(ctx, name, "start", map[string]any{
			api.AnnotationStopped: nil, api.AnnotationNotebookStoppedFor: nil, api.AnnotationNotebookStopsAt: nil,
		}); err != nil {
			return err
		}
		fmt.Fprintf(s.o.Out, "notebook %s/%s starts\n  kept  %s\n  lost  %s\n", n.namespace, name, keptText(nb), lostText)
	}
	if !s.wait {
		return n.sayPlace(ctx, name)
	}
	ready, err := n.untilReady(ctx, name, s.timeout, s.o.Err, begun)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.o.Out, "notebook %s/%s is ready on %s; `%s notebook open %s` opens it\n", n.namespace, name, place(ready), n.program(), name)
	return nil
}

// sayPlace tells where a notebook that was started stands, once its controller
// has said so.
func (n *notebooks) sayPlace(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, placePatience)
	defer cancel()
	var last *kubeflow.Notebook
	err := n.follow(ctx, name, func(nb *kubeflow.Notebook) (bool, error) {
		if begun(nb) {
			last = nb
		}
		return last != nil && (state(nb) != notebook.Starting || !inLine(nb) && place(nb) != "-"), nil
	})
	switch {
	case last != nil:
		fmt.Fprintf(n.o.Out, "  now   %s\n", stateSentence(last))
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Fprintf(n.o.Err, "no controller has looked at it in %v; `%s notebook why %s` tells when one has\n", placePatience, n.program(), name)
		return nil
	}
	return err
}

// notebookDelete is `berth notebook delete`.
type notebookDelete struct {
	notebookCommand
	volumes bool
}

func newNotebookDelete(o Options) *cobra.Command {
	d := &notebookDelete{notebookCommand: notebookCommand{o: o}}
	cmd := &cobra.Command{
		Use:   "delete NAME...",
		Short: "Delete a notebook; its volumes stay unless --volumes is given",
		Long: "Delete notebooks with their pods. Volumes are kept, and named. --volumes deletes those that\n" +
			"`berth notebook create` has made for the notebook, and no others: what is on them is lost.",
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
	cmd.Flags().BoolVar(&d.volumes, "volumes", false, "delete the volumes too that `berth notebook create` has made for it")
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
	fmt.Fprintf(n.o.Out, "notebook %s/%s deleted\n", n.namespace, name)
	kept := claimsOf(nb)
	if volumes {
		kept, err = n.removeVolumes(ctx, name, kept)
	}
	for _, m := range kept {
		fmt.Fprintf(n.o.Out, "  kept  volume %s; `kubectl delete pvc -n %s %s` deletes it\n", m.claim, n.namespace, m.claim)
	}
	return err
}

// removeVolumes deletes the claims made for a notebook, and gives those that stay.
func (n *notebooks) removeVolumes(ctx context.Context, name string, claims []volumeMount) (kept []volumeMount, err error) {
	made, err := n.CoreV1().PersistentVolumeClaims(n.namespace).List(ctx, metav1.ListOptions{LabelSelector: api.LabelNotebookVolume + "=" + name})
	if err != nil {
		return claims, n.failed("list volume claims", err)
	}
	var failed []error
	for _, m := range claims {
		if !slices.ContainsFunc(made.Items, func(c v1.PersistentVolumeClaim) bool { return c.Name == m.claim }) {
			kept = append(kept, m)
			continue
		}
		err := n.CoreV1().PersistentVolumeClaims(n.namespace).Delete(ctx, m.claim, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			kept, failed = append(kept, m), append(failed, n.failed("delete volume claim "+m.claim, err))
			continue
		}
		fmt.Fprintf(n.o.Out, "  lost  volume %s, with what was on it\n", m.claim)
	}
	return kept, errors.Join(failed...)
}
