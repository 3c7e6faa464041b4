package train

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/training"
	objects "berth.dev/berth/kube/training"
)

// The frameworks of --framework.
const (
	torch      = "torch"
	tensorflow = "tensorflow"
)

// mostReplicas and mostGPUs bound the flags of one job.
const (
	mostReplicas = 10000
	mostGPUs     = 64 // of one replica
)

// wanted is a job as flags describe it.
type wanted struct {
	name, namespace string
	framework       string
	image           string
	replicas, gpus  int
	cpu, memory     string
	env             []string // KEY=VALUE
	volumes         []string // CLAIM:PATH
	command         []string
}

// kind is the kind of job that a framework has.
func (w *wanted) kind() training.Kind {
	if w.framework == tensorflow {
		return training.TFJob
	}
	return training.PyTorchJob
}

// check refuses what cannot work, before any call is made.
func (w *wanted) check() error {
	switch {
	case w.framework != torch && w.framework != tensorflow:
		return term.Usagef("invalid --framework %q: must be torch or tensorflow", w.framework)
	case w.image == "":
		return term.Usagef("--image is missing: name the image that the program runs in")
	case w.replicas < 1 || w.replicas > mostReplicas:
		return term.Usagef("invalid --replicas %d: must be between 1 and %d", w.replicas, mostReplicas)
	case w.gpus < 0 || w.gpus > mostGPUs:
		return term.Usagef("invalid --gpus %d: must be between 0 and %d, the GPUs of each replica", w.gpus, mostGPUs)
	}
	for flag, text := range map[string]string{"cpu": w.cpu, "memory": w.memory} {
		if q, err := resource.ParseQuantity(text); text != "" && (err != nil || q.Sign() <= 0) {
			return term.Usagef("invalid --%s %q: must be a quantity such as 500m, 4, or 16Gi", flag, text)
		}
	}
	for _, text := range w.env {
		if name, _, ok := strings.Cut(text, "="); !ok || name == "" {
			return term.Usagef("invalid --env %q: must be NAME=VALUE", text)
		}
	}
	for _, text := range w.volumes {
		claim, path, _ := strings.Cut(text, ":")
		if len(validation.IsDNS1123Subdomain(claim)) > 0 || !strings.HasPrefix(path, "/") {
			return term.Usagef("invalid --volume %q: must be CLAIM:PATH, a PersistentVolumeClaim and where it is mounted", text)
		}
	}
	return nil
}

// pod is the pod of each replica.
func (w *wanted) pod() v1.PodSpec {
	c := v1.Container{Name: w.kind().Container(), Image: w.image, Command: w.command}
	c.Resources = v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}
	if w.cpu != "" {
		c.Resources.Requests[v1.ResourceCPU] = resource.MustParse(w.cpu)
	}
	if w.memory != "" {
		c.Resources.Requests[v1.ResourceMemory] = resource.MustParse(w.memory)
		c.Resources.Limits[v1.ResourceMemory] = resource.MustParse(w.memory)
	}
	for _, text := range w.env {
		name, value, _ := strings.Cut(text, "=")
		c.Env = append(c.Env, v1.EnvVar{Name: name, Value: value})
	}
	var spec v1.PodSpec
	mount := func(name, path string, source v1.VolumeSource) {
		spec.Volumes = append(spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: path})
	}
	for i, text := range w.volumes {
		claim, path, _ := strings.Cut(text, ":")
		mount("volume-"+strconv.Itoa(i), path, v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}})
	}
	if w.gpus > 0 { // loaders of data pass it on through shared memory, of which containers have 64 MiB
		c.Resources.Limits[api.ResourceGPU] = *resource.NewQuantity(int64(w.gpus), resource.DecimalSI)
		mount("dshm", "/dev/shm", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}})
	}
	spec.Containers = []v1.Container{c}
	return spec
}

// build makes a job of a kind whose replicas all have one pod spec. cleanPodPolicy is Running: no worker
// keeps its GPUs after the job has ended. The error says what about the name or the spec cannot be.
func build(kind training.Kind, namespace, name string, replicas int, labels, notes map[string]string, spec *v1.PodSpec) (*unstructured.Unstructured, error) {
	template := map[string]any{"spec": spec}
	if len(labels)+len(notes) > 0 {
		template["metadata"] = metav1.ObjectMeta{Labels: labels, Annotations: notes}
	}
	raw, err := json.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("write %s %s: %w", short(kind), name, err)
	}
	var plain map[string]any
	if err := json.Unmarshal(raw, &plain); err != nil {
		return nil, fmt.Errorf("write %s %s: %w", short(kind), name, err)
	}
	prune(plain)
	specs := map[string]any{}
	for _, r := range kind.Layout(replicas) {
		specs[r.Type] = map[string]any{"replicas": int64(r.Count), "template": plain}
	}
	field := "tfReplicaSpecs"
	if kind == training.PyTorchJob {
		field = "pytorchReplicaSpecs"
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kubeflow.GroupVersion.String(), "kind": string(kind),
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"spec":     map[string]any{"runPolicy": map[string]any{"cleanPodPolicy": string(training.CleanRunning)}, field: specs},
	}}
	u = u.DeepCopy() // templates of replicas share nothing
	j, err := read(kind, u)
	if err != nil {
		return nil, err
	}
	if err := objects.Check(j.object, &j.Job); err != nil {
		return nil, term.Usagef("%s %s cannot run: %w", short(kind), name, err)
	}
	return u, nil
}

// prune removes what encoders add of fields that are not set: null times and empty objects.
func prune(o map[string]any) {
	for key, v := range o {
		switch v := v.(type) {
		case nil:
			delete(o, key)
		case map[string]any:
			prune(v)
			if len(v) == 0 && key != "emptyDir" {
				delete(o, key)
			}
		case []any:
			for _, e := range v {
				if m, ok := e.(map[string]any); ok {
					prune(m)
				}
			}
		}
	}
}
