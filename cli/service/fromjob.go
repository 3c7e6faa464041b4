package service

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/cli/train"
	"berth.dev/berth/core/serving"
	"berth.dev/berth/core/training"
	"berth.dev/berth/internal/pause"
	"berth.dev/berth/kube/request"
)

// lookEvery is how often the status of a service is read while it is waited for.
const lookEvery = time.Second

// fromJob is `berth train to-service`.
type fromJob struct {
	create
	path, volume string
	wait         time.Duration
}

// NewFromJob makes `berth train to-service`.
func NewFromJob(o client.Options) *cobra.Command {
	j := &fromJob{create: create{command: command{options: o}, least: 1}}
	cmd := &cobra.Command{
		Use:   "to-service JOB --format FORMAT [flags] [-- ARGUMENT...]",
		Short: "Create a model service from the volume that a training job wrote its model to",
		Long: "Create an InferenceService of the model that a training job has written to its volume (a PersistentVolumeClaim), and wait\n" +
			"until the server has loaded it, or says what is wrong with it. Arguments after -- are added to those of the server. The\n" +
			"job is not changed.",
		Example: "  berth train to-service mnist --path /output/model\n" +
			"  berth train to-service bert --format huggingface --path /output/best --min 0 --name bert-api",
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); len(args) == 0 || dash == 0 || dash != 1 && len(args) > 1 {
				return term.Usagef("%s takes the name of one job, and arguments of the server after --", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			j.args = args[1:]
			return j.run(cmd.Context(), args[0], cmd.Flags().Changed("min"))
		},
	}
	j.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&j.name, "name", "", "name of the service (default: the job's)")
	f.StringVar(&j.path, "path", "", "folder of the model: as the job's program names it (/output/model), or below the volume")
	f.StringVar(&j.volume, "volume", "", "claim that has the model (default: the job's only one that it may write to)")
	f.DurationVar(&j.wait, "wait", 2*time.Minute, "how long to wait until the model is loaded; 0 does not wait")
	j.modelFlags(f)
	return cmd
}

func (j *fromJob) run(ctx context.Context, name string, least bool) error {
	if j.wait < 0 {
		return term.Usagef("invalid --wait %v: must be a duration such as 2m, or 0", j.wait)
	}
	s, err := j.connect()
	if err != nil {
		return err
	}
	job, err := train.Find(ctx, s.Cluster, s.api, s.namespace, s.options, name)
	if err != nil {
		return err
	}
	if job.Kind == training.TFJob {
		j.format = cmp.Or(j.format, "tensorflow")
	}
	if j.name = cmp.Or(j.name, job.Name); j.model == "" {
		if j.model, err = modelOf(job, j.volume, j.path); err != nil {
			return err
		}
	}
	if j.gpus == 0 && j.gpuMemory == 0 && j.mig == "" && request.AsksForGPUs(&v1.Pod{Spec: job.Spec}) {
		j.gpus = 1
	}
	if state := job.State(); state != training.ConditionSucceeded {
		term.Printf(s.options.Err, "warning: %s is %s, so its model may not be complete\n", job.Title(), state)
	}
	if err := j.create.run(ctx, least); err != nil || j.dryRun != "" || j.wait == 0 {
		return err
	}
	return j.loaded(ctx, s)
}

// modelOf is where the model of a job is: the folder below its volume. Without a claim it is the only one that the program may write to.
func modelOf(job *train.Found, claim, folder string) (uri string, err error) {
	i := slices.IndexFunc(job.Spec.Containers, func(c v1.Container) bool { return c.Name == job.Container })
	if i < 0 {
		return "", fmt.Errorf("%s has no container %s", job.Title(), job.Container)
	}
	claims := map[string]string{} // by the name of the volume
	for _, v := range job.Spec.Volumes {
		if p := v.PersistentVolumeClaim; p != nil && (!p.ReadOnly || p.ClaimName == claim) {
			claims[v.Name] = p.ClaimName
		}
	}
	var mounts []v1.VolumeMount
	var names []string
	for _, m := range job.Spec.Containers[i].VolumeMounts {
		is := claims[m.Name]
		if is == "" || m.SubPathExpr != "" || m.ReadOnly && is != claim {
			continue
		}
		if !slices.Contains(names, is) {
			names = append(names, is)
		}
		if claim == "" || is == claim {
			mounts = append(mounts, m)
		}
	}
	inside := func(m v1.VolumeMount) bool { return path.IsAbs(folder) && below(m.MountPath, folder) }
	if path.IsAbs(folder) && slices.ContainsFunc(mounts, inside) {
		mounts = slices.DeleteFunc(mounts, func(m v1.VolumeMount) bool { return !inside(m) })
	}
	switch {
	case len(names) == 0:
		return "", fmt.Errorf("%s writes to no volume (PersistentVolumeClaim), so its model is gone with its pods; run it with one, as by `berth train create --volume CLAIM:/output`", job.Title())
	case len(mounts) == 0:
		return "", fmt.Errorf("%s has no volume %s; its volumes are %s", job.Title(), claim, strings.Join(names, ", "))
	case len(mounts) > 1:
		return "", fmt.Errorf("%s has several volumes: %s; choose one with --volume, or name the model's folder as the job sees it with --path", job.Title(), strings.Join(names, ", "))
	}
	m := mounts[0]
	switch {
	case path.IsAbs(folder) && !inside(m):
		return "", fmt.Errorf("%s is not in volume %s, which %s has at %s; write a folder there, or one below the volume", folder, claims[m.Name], job.Title(), m.MountPath)
	case path.IsAbs(folder):
		folder = strings.TrimPrefix(path.Clean(folder), path.Clean(m.MountPath))
	}
	return strings.TrimSuffix("pvc://"+path.Join(claims[m.Name], m.SubPath, folder), "/"), nil
}

// below reports whether a path is a folder, or in it.
func below(folder, p string) bool {
	folder, p = path.Clean(folder), path.Clean(p)
	return p == folder || folder == "/" || strings.HasPrefix(p, folder+"/")
}

// loaded waits until the server has loaded the model, and returns what is wrong with it.
func (j *fromJob) loaded(ctx context.Context, s *services) error {
	last := ""
	for end := time.Now().Add(j.wait); ; {
		o, err := s.find(ctx, j.name)
		if err != nil {
			return err
		}
		ready, found := o.Status.Condition(kserve.ConditionReady), o.Status.ModelStatus
		switch {
		case ready != nil && ready.Status == v1.ConditionTrue && o.Status.ObservedGeneration == o.Generation:
			_, err := term.Printf(s.options.Err, "%s is ready: its server has loaded the model\n", o.at())
			return err
		case found != nil && found.LastFailureInfo != nil && slices.Contains([]string{serving.FaultLoad, serving.FaultSpec, serving.FaultNoRuntime, serving.FaultUnknown}, found.LastFailureInfo.Reason):
			return fmt.Errorf("%s is created, but it cannot serve the model of the job: %s; then wait, or delete it with `%s service delete %s`", o.at(), found.LastFailureInfo.Message, s.options.Name, j.name)
		}
		if text := o.message(); text != last {
			last = text
			term.Printf(s.options.Err, "    %s\n", text)
		}
		if !time.Now().Before(end) {
			return fmt.Errorf("%s is not ready after %v: %s; it goes on by itself; see `%s service why %s`", o.at(), j.wait, last, s.options.Name, j.name)
		}
		if !pause.For(ctx, lookEvery) {
			return ctx.Err()
		}
	}
}
