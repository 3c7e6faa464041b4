package service

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/cli/client"
	objects "berth.dev/berth/kube/serving"
)

// logs is `berth service logs`.
type logs struct {
	command
	follow, previous, transformer bool
	tail                          int64
}

func newLogs(o client.Options) *cobra.Command {
	l := &logs{command: command{options: o}}
	cmd := &cobra.Command{
		Use:               "logs NAME",
		Short:             "Print the log of a model service's server",
		Long:              "Print the log of the server in the newest replica of a service that has started, or of its transformer.",
		Example:           "  berth service logs mnist --tail 20\n  berth service logs mnist -f",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: l.completeNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), args[0]) },
	}
	l.addFlags(cmd)
	f := cmd.Flags()
	f.BoolVarP(&l.follow, "follow", "f", false, "go on with new lines")
	f.BoolVarP(&l.previous, "previous", "p", false, "the run before this one")
	f.BoolVar(&l.transformer, "transformer", false, "the transformer before the model")
	f.Int64Var(&l.tail, "tail", -1, "print only so many last lines; -1 is all")
	return cmd
}

func (l *logs) run(ctx context.Context, name string) error {
	s, err := l.connect()
	if err != nil {
		return err
	}
	o, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	pods, err := s.podsOf(ctx, s.namespace, name)
	if err != nil {
		return err
	}
	var from *corev1.Pod
	for _, p := range pods[o.Namespace+"/"+o.Name] {
		if objects.IsTransformer(p.Labels) == l.transformer && started(p) {
			from = p
		}
	}
	switch {
	case from == nil && l.transformer && o.written.Service.Transformer == nil:
		return fmt.Errorf("%s has no transformer; omit --transformer to read the log of its model", o.at())
	case from == nil:
		return fmt.Errorf("no server of %s has started, so there is no log: %s", o.at(), o.message())
	}
	options := &corev1.PodLogOptions{Follow: l.follow, Previous: l.previous, Container: serverOf(from)}
	if l.tail >= 0 {
		options.TailLines = &l.tail
	}
	text, err := s.CoreV1().Pods(s.namespace).GetLogs(from.Name, options).Stream(ctx)
	if err != nil {
		return s.refused("read the log of pod "+s.namespace+"/"+from.Name, "get", err)
	}
	defer text.Close()
	_, err = io.Copy(l.options.Out, text)
	return err
}

// started reports whether the server of a pod has run.
func started(p *corev1.Pod) bool {
	for i := range p.Status.ContainerStatuses {
		c := &p.Status.ContainerStatuses[i]
		if c.Name == serverOf(p) && (c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil) {
			return true
		}
	}
	return false
}

// serverOf is the container that serves the model.
func serverOf(p *corev1.Pod) string {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == objects.Container {
			return objects.Container
		}
	}
	return p.Spec.Containers[0].Name
}
