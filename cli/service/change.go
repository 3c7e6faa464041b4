package service

import (
	"context"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
)

// newEach completes a command that does the same for the service of every name.
func newEach(o client.Options, cmd *cobra.Command, do func(context.Context, *services, *service) error) *cobra.Command {
	c := &command{options: o}
	cmd.Args, cmd.ValidArgsFunction = cobra.MinimumNArgs(1), c.completeNames
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.each(cmd.Context(), args, func(all *services, s *service) error { return do(cmd.Context(), all, s) })
	}
	c.addFlags(cmd)
	return cmd
}

func newStop(o client.Options) *cobra.Command {
	return newEach(o, &cobra.Command{
		Use:   "stop NAME...",
		Short: "Stop model services: end their replicas, free their GPUs, and keep the services",
		Long:  "Stop services by KServe's annotation serving.kserve.io/stop. Requests are refused until `berth service start`.",
	}, func(ctx context.Context, all *services, s *service) error { return all.stop(ctx, s, true) })
}

func newStart(o client.Options) *cobra.Command {
	return newEach(o, &cobra.Command{
		Use:   "start NAME...",
		Short: "Start model services that are stopped",
		Long:  "Start services that are stopped, by removing the annotation serving.kserve.io/stop.",
	}, func(ctx context.Context, all *services, s *service) error { return all.stop(ctx, s, false) })
}

// Stop stops the service of a name, as `berth service stop` does.
func Stop(ctx context.Context, o client.Options, cluster *client.Cluster, namespace, name string) error {
	api, err := cluster.Dynamic(o)
	if err != nil {
		return err
	}
	all := &services{Cluster: cluster, api: api, namespace: namespace, options: o}
	s, err := all.find(ctx, name)
	if err != nil {
		return err
	}
	return all.stop(ctx, s, true)
}

// stop stops or starts a service, or says that there is nothing to do.
func (s *services) stop(ctx context.Context, o *service, stop bool) error {
	what, done, value := "start", "started; `"+s.options.Name+" service show "+o.Name+"` shows how far it is", any(nil)
	if stop {
		what, done, value = "stop", "stopped; its GPUs become free when its replicas have ended\n  `"+s.options.Name+" service start "+o.Name+"` starts it", "true"
	}
	switch is := o.written.Service.Stopped; {
	case is && stop:
		done = "is already stopped"
	case !is && !stop:
		done = "is not stopped"
	default:
		if err := s.annotate(ctx, o, what, map[string]any{kserve.AnnotationStop: value}); err != nil {
			return err
		}
	}
	_, err := term.Printf(s.options.Out, "%s %s\n", o.at(), term.Block(done))
	return err
}

func newDelete(o client.Options) *cobra.Command {
	return newEach(o, &cobra.Command{
		Use:   "delete NAME...",
		Short: "Delete model services with their replicas",
		Long:  "Delete services with their Deployments, Services, and pods. Volumes and models are kept. To keep the service and free\nits GPUs, use `berth service stop`.",
	}, func(ctx context.Context, all *services, s *service) error { return all.remove(ctx, s) })
}

// remove deletes a service, unless it is another one by now. Its replicas follow.
func (s *services) remove(ctx context.Context, o *service) error {
	uid, after := o.UID, metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &after}
	if uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	if err := s.in(s.namespace).Delete(ctx, o.Name, options); err != nil {
		return s.refused("delete "+o.at(), "delete", err)
	}
	_, err := term.Printf(s.options.Out, "%s deleted\n", o.at())
	return err
}
