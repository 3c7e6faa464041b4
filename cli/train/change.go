package train

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/training"
	"berth.dev/berth/kube/queues"
	objects "berth.dev/berth/kube/training"
)

// newEach completes a command that does the same for the job of every name.
func newEach(o client.Options, cmd *cobra.Command, do func(context.Context, *jobs, *job) error) *cobra.Command {
	c := &command{options: o}
	cmd.Args, cmd.ValidArgsFunction = cobra.MinimumNArgs(1), c.completeNames
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.each(cmd.Context(), args, func(all *jobs, j *job) error { return do(cmd.Context(), all, j) })
	}
	c.addFlags(cmd)
	return cmd
}

func newStop(o client.Options) *cobra.Command {
	return newEach(o, &cobra.Command{
		Use:   "stop NAME...",
		Short: "Stop training jobs: delete their pods, free their GPUs, and keep the jobs",
		Long: "Stop jobs by setting spec.runPolicy.suspend, or spec.suspend of a TrainJob. Their pods are deleted, so what a program\n" +
			"has not saved is lost. `berth train resume` creates the pods again. A job that waits for its turn leaves the line.",
	}, func(ctx context.Context, all *jobs, j *job) error { return all.suspend(ctx, j, true) })
}

func newResume(o client.Options) *cobra.Command {
	return newEach(o, &cobra.Command{
		Use:   "resume NAME...",
		Short: "Resume training jobs that are stopped",
		Long: "Resume jobs by clearing spec.runPolicy.suspend, or spec.suspend of a TrainJob. Their pods are created again, wait for\n" +
			"GPUs as those of new jobs do, and start the program from its beginning or from what it has saved on a volume.",
	}, func(ctx context.Context, all *jobs, j *job) error { return all.suspend(ctx, j, false) })
}

// suspend stops or resumes a job, or says that there is nothing to do.
func (j *jobs) suspend(ctx context.Context, o *job, stop bool) error {
	say := func(text string) error {
		_, err := term.Printf(j.options.Out, "%s %s\n", o.at(), text)
		return err
	}
	what, done := "resume", "resumed; its pods are created again when there are GPUs for them"
	if stop {
		what, done = "stop", "stopped; its GPUs ("+o.gpusText()+") become free when its pods have ended\n  `"+j.options.Name+" train resume "+o.Name+"` resumes it"
	}
	waits, _ := queues.Of(o.object, nil).InTurn()
	change := map[string]any{"spec": objects.Suspend(string(o.Kind), stop)}
	if set := queues.StayStopped(o.object, j.options.Time()); stop && set != nil {
		change["metadata"] = map[string]any{"annotations": set}
	}
	switch {
	case o.Status.Ended():
		return say("has ended (" + o.state() + "); there is nothing to " + what)
	case waits && stop:
		done = "no longer waits for its turn\n  `" + j.options.Name + " train resume " + o.Name + "` resumes it at once"
	case o.Suspend && stop:
		return say("is already stopped")
	case !o.Suspend && !stop:
		return say("is not stopped")
	}
	if err := j.patch(ctx, o, what, "", change); err != nil {
		return err
	}
	_, err := term.Printf(j.options.Out, "%s %s\n", o.at(), term.Block(done))
	return err
}

func newDelete(o client.Options) *cobra.Command {
	return newEach(o, &cobra.Command{
		Use:   "delete NAME...",
		Short: "Delete training jobs with their pods",
		Long: "Delete jobs with their pods, Services, and the ConfigMap of --code. Volumes are kept. To keep the job and free\n" +
			"its GPUs, use `berth train stop`.",
	}, func(ctx context.Context, all *jobs, j *job) error { return all.remove(ctx, j) })
}

// remove deletes a job, unless it is another one by now. Its pods follow.
func (j *jobs) remove(ctx context.Context, o *job) error {
	uid, after := o.object.GetUID(), metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &after}
	if uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	if err := j.in(o.Kind, j.namespace).Delete(ctx, o.Name, options); err != nil {
		return j.refused("delete "+o.at(), "delete", err)
	}
	_, err := term.Printf(j.options.Out, "%s deleted\n", o.at())
	return err
}

// scale is `berth train scale`.
type scale struct {
	command
	replicas int
}

func newScale(o client.Options) *cobra.Command {
	s := &scale{command: command{options: o}}
	cmd := &cobra.Command{
		Use:   "scale NAME --replicas N",
		Short: "Change how many replicas a training job has",
		Long: "Change the number of a job's workers. N counts all replicas: workers, Chief or Master, and parameter servers.\n" +
			"The pods of a job know how many they are when they start, so a job that is neither elastic nor a TFJob\n" +
			"with enableDynamicWorker has to be stopped first.",
		Example:           "  berth train stop bert\n  berth train scale bert --replicas 8\n  berth train resume bert",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.replicas < 1 {
				return term.Usagef("invalid --replicas %d: must be at least 1; `%s train stop %s` frees the GPUs", s.replicas, o.Name, args[0])
			}
			return s.each(cmd.Context(), args, func(all *jobs, j *job) error { return all.scale(cmd.Context(), j, s.replicas) })
		},
	}
	s.addFlags(cmd)
	cmd.Flags().IntVar(&s.replicas, "replicas", 0, "number of replicas, as in berth train create")
	_ = cmd.MarkFlagRequired("replicas")
	return cmd
}

// scale sets the workers of a job so that it has n pods, if it can have so many.
func (j *jobs) scale(ctx context.Context, o *job, n int) error {
	workers, refusal := o.Scale(n) // of a TrainJob always a refusal
	if refusal != "" {
		return fmt.Errorf("%s cannot have %s: %s", o.at(), term.Count(n, "replica"), refusal)
	}
	was := o.Replica(training.Worker).Count
	if workers == was {
		_, err := term.Printf(j.options.Out, "%s has %s already\n", o.at(), term.Count(n, "replica"))
		return err
	}
	change := map[string]any{objects.Field(o.object): map[string]any{workerKey(o.object.(kubeflow.TrainingJob)): map[string]any{"replicas": workers}}}
	if err := j.patch(ctx, o, "scale", o.object.GetResourceVersion(), map[string]any{"spec": change}); err != nil {
		return err
	}
	_, err := term.Printf(j.options.Out, "%s scaled to %s: Worker %d -> %d\n", o.at(), term.Count(n, "replica"), was, workers)
	return err
}

// workerKey is how a job spells its workers.
func workerKey(o kubeflow.TrainingJob) string {
	kind := training.Kind(o.JobKind())
	for _, specs := range []map[string]kubeflow.ReplicaSpec{o.Job().Spec.TFReplicaSpecs, o.Job().Spec.PyTorchReplicaSpecs} {
		for key := range specs {
			if kind.TypeOf(key) == training.Worker {
				return key
			}
		}
	}
	return training.Worker
}
