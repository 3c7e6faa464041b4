package training

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/core/checkpoint"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/training"
)

// kept are arguments of commands after which the path of what a program saves follows, as far as programs agree on
// them.
var kept = []string{"--output", "--output-dir", "--output_dir", "--model-dir", "--model_dir", "--export-dir", "--export_dir", "--save-dir", "--save_dir", "--checkpoint-dir", "--checkpoint_dir", "--log-dir", "--log_dir"}

// Advice returns what the author of a job may not expect of it: sentences for an event. It is best
// effort, as only the program knows what it does.
func Advice(o Object, j *training.Job) (out []string) {
	specs, err := Specs(o)
	if err != nil {
		return nil
	}
	writable := false
	for _, r := range j.Replicas {
		spec := specs[r.Type]
		t, err := Template(&spec)
		if err != nil {
			return nil
		}
		writable = writable || stores(&t.Spec)
		how, own := t.Annotations[api.AnnotationCheckpoint]
		if !own {
			how = o.GetAnnotations()[api.AnnotationCheckpoint]
		}
		if _, err := checkpoint.Parse(how); err != nil {
			out = append(out, fmt.Sprintf("annotation %s: %v; the job counts as one that saves no work", api.AnnotationCheckpoint, err))
		}
		if _, err := queue.ReadRunTime(t.Annotations[api.AnnotationMaxRunTime]); err != nil {
			out = append(out, fmt.Sprintf("annotation %s: %v; its pods count as ones that do not say when they end", api.AnnotationMaxRunTime, err))
		}
		for _, c := range t.Spec.Containers {
			if p := unmounted(&c); p != "" {
				out = append(out, fmt.Sprintf("container %s of %s writes to %s, which is on none of its volumes, so it is lost with the pod: mount a PersistentVolumeClaim there", c.Name, r.Type, p))
			}
		}
	}
	if !writable {
		out = append(out, "none of its pods has a volume that outlives it: what the program saves is lost with the pod, unless it writes to the network; mount a PersistentVolumeClaim where it saves")
	}
	if w := j.Replica(training.Worker); j.Kind == training.PyTorchJob && j.Elastic == nil && j.Replica(training.Master) == nil && w != nil && w.Count > 1 {
		out = append(out, fmt.Sprintf("its %d workers get neither MASTER_ADDR nor RANK and WORLD_SIZE, because it has no Master: each trains its own model, unless the program finds the others itself; make one of them the Master", w.Count))
	}
	if kept := keeping(j, specs); kept > 0 {
		out = append(out, fmt.Sprintf("cleanPodPolicy is None, so %d of its pods keep their GPUs if they still run when its %s has ended: set spec.runPolicy.cleanPodPolicy to Running", kept, j.Leader()))
	}
	if n := j.Total(); j.Kind == training.TFJob && n > 1 {
		out = append(out, fmt.Sprintf("its %d pods get TF_CONFIG, and train one model together only if the program uses a strategy for several machines, such as MultiWorkerMirroredStrategy; under MirroredStrategy each trains its own", n))
	}
	return slices.Compact(out)
}

// keeping returns how many pods with GPUs may go on when the job has ended with its Chief or Master, and nothing ends them.
func keeping(j *training.Job, specs map[string]kubeflow.ReplicaSpec) int {
	if j.Leader() == "" || j.Clean != training.CleanNone || j.TTL != nil {
		return 0
	}
	n := 0
	for _, r := range j.Replicas {
		spec := specs[r.Type]
		t, err := Template(&spec)
		if err == nil && r.Type != j.Leader() && slices.ContainsFunc(t.Spec.Containers, func(c corev1.Container) bool {
			_, asks := c.Resources.Limits[api.ResourceGPU]
			return asks
		}) {
			n += r.Count
		}
	}
	return n
}

// stores reports whether a pod has a volume that outlives it and may be written.
func stores(s *corev1.PodSpec) bool {
	return slices.ContainsFunc(s.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && !v.PersistentVolumeClaim.ReadOnly || v.NFS != nil || v.HostPath != nil || v.CSI != nil || v.Ephemeral != nil
	})
}

// unmounted returns a path that a container's arguments name as where it saves, if no volume is mounted there;
// "" is none.
func unmounted(c *corev1.Container) string {
	args := slices.Concat(c.Command, c.Args)
	for i, a := range args {
		name, value, joined := strings.Cut(a, "=")
		if !slices.Contains(kept, name) {
			continue
		}
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		if !path.IsAbs(value) {
			continue
		}
		if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			at := path.Clean(m.MountPath)
			return value == at || strings.HasPrefix(value, strings.TrimSuffix(at, "/")+"/")
		}) {
			return value
		}
	}
	return ""
}
