package training

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/checkpoint"
	"berth.dev/berth/core/training"
)

// kept are arguments of commands after which the path of what a program saves follows, as far as programs agree on
// them.
var kept = []string{"--output", "--output-dir", "--output_dir", "--model-dir", "--model_dir", "--export-dir", "--export_dir", "--save-dir", "--save_dir", "--checkpoint-dir", "--checkpoint_dir", "--log-dir", "--log_dir"} //nolint:gochecknoglobals // a constant

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
		for _, c := range t.Spec.Containers {
			if p := unmounted(&c); p != "" {
				out = append(out, fmt.Sprintf("container %s of %s writes to %s, which is on none of its volumes, so it is lost with the pod: mount a PersistentVolumeClaim there", c.Name, r.Type, p))
			}
		}
	}
	if !writable {
		out = append(out, "none of its pods has a volume that outlives it: what the program saves is lost with the pod, unless it writes to the network; mount a PersistentVolumeClaim where it saves")
	}
	if n := j.Total(); j.Kind == training.TFJob && n > 1 {
		out = append(out, fmt.Sprintf("its %d pods get TF_CONFIG, and train one model together only if the program uses a strategy for several machines, such as MultiWorkerMirroredStrategy; under MirroredStrategy each trains its own", n))
	}
	return slices.Compact(out)
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
