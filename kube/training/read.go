package training

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/core/training"
)

// Of reads a training job, completed with the API's defaults (pkg/apis/kubeflow.org/v1/*_defaults.go of
// training-operator). The error names the first field
// that is wrong; a job that the API server has accepted by Berth's definition has none.
func Of(o Object) (training.Job, error) {
	if t, ok := o.(*trainer.TrainJob); ok {
		return ofTrainJob(t)
	}
	t := written(o)
	run := &t.Spec.RunPolicy
	j := training.Job{
		Kind: training.Kind(o.JobKind()), Namespace: t.Namespace, Name: t.Name,
		Suspend: or(run.Suspend, false), ManagedBy: or(run.ManagedBy, ""), Clean: training.Clean(or(run.CleanPodPolicy, string(training.CleanNone))),
		TTL: seconds(run.TTLSecondsAfterFinished), Deadline: seconds(run.ActiveDeadlineSeconds), BackoffLimit: whole(run.BackoffLimit),
		AllWorkers: or(t.Spec.SuccessPolicy, "") == "AllWorkers", Dynamic: t.Spec.EnableDynamicWorker,
		Status: StatusOf(&t.Status),
	}
	if p := run.SchedulingPolicy; p != nil {
		j.MinAvailable = int(or(p.MinAvailable, 0))
	}
	var err error
	if j.Restarts, j.Round, err = ParseRestarts(t.Annotations[api.AnnotationRestarts]); err != nil {
		j.Restarts, j.Round = nil, 0 // written by someone else: counted from now on
	}
	if j.Replicas, err = replicas(o); err != nil {
		return j, err
	}
	if j.Kind == training.PyTorchJob {
		j.Processes = or(t.Spec.NprocPerNode, "")
		elastic(&j, t.Spec.ElasticPolicy)
		if j.Processes == "" && (j.Elastic == nil || j.Elastic.Processes == nil) {
			j.Processes = "auto"
		}
	}
	return j, nil
}

// Least returns how many pods of a job must have a place before any gets one, from the
// job in the form of decoded JSON. Pod templates are not read.
func Least(kind string, object map[string]any) (int, error) {
	o, err := Decode(kind, map[string]any{"metadata": object["metadata"], "spec": object["spec"], "status": object["status"]})
	if err != nil {
		return 0, err
	}
	j, err := Of(o)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", kind, err)
	}
	return j.Least(), nil
}

// Specs returns the replicas of a job as they are written, by type.
func Specs(o Object) (map[string]kubeflow.ReplicaSpec, error) {
	if t, ok := o.(*trainer.TrainJob); ok {
		return trainJobSpec(t)
	}
	t, kind, field := written(o), training.Kind(o.JobKind()), Field(o)
	list := t.Spec.TFReplicaSpecs
	if kind == training.PyTorchJob {
		list = t.Spec.PyTorchReplicaSpecs
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("spec.%s has no replicas: add one of %s", field, strings.Join(kind.Types(), ", "))
	}
	out := map[string]kubeflow.ReplicaSpec{}
	for _, key := range slices.Sorted(maps.Keys(list)) {
		t := kind.TypeOf(key)
		if t == "" {
			return nil, fmt.Errorf("spec.%s[%s]: a %s has no such replicas: use one of %s", field, key, kind, strings.Join(kind.Types(), ", "))
		}
		if _, twice := out[t]; twice {
			return nil, fmt.Errorf("spec.%s: %s is there twice, in different case: remove one", field, t)
		}
		out[t] = list[key]
	}
	return out, nil
}

// written returns a TFJob or PyTorchJob in the shape that both share.
func written(o Object) *kubeflow.Training { return o.(kubeflow.TrainingJob).Job() }

// Field returns the name of the field with the replicas of a TFJob or PyTorchJob.
func Field(o Object) string {
	if o.JobKind() == kubeflow.KindPyTorchJob {
		return "pytorchReplicaSpecs"
	}
	return "tfReplicaSpecs"
}

// replicas reads the replicas of a job in the order of their types.
func replicas(o Object) ([]training.Replica, error) {
	kind := training.Kind(o.JobKind())
	specs, err := Specs(o)
	if err != nil {
		return nil, err
	}
	var out []training.Replica
	for _, t := range kind.Types() {
		spec, ok := specs[t]
		if !ok {
			continue
		}
		r := training.Replica{Type: t, Count: int(or(spec.Replicas, 1)), Restart: training.Restart(spec.RestartPolicy)}
		if r.Restart == "" {
			r.Restart = kind.DefaultRestart()
		}
		name, number := kind.Port()
		r.Port = number
		pod, err := Template(&spec)
		if err != nil {
			return nil, fmt.Errorf("spec.%s[%s].template: %w", Field(o), t, err)
		}
		for _, c := range pod.Spec.Containers {
			for _, p := range c.Ports {
				if c.Name == kind.Container() && p.Name == name {
					r.Port = int(p.ContainerPort)
				}
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// Template reads a pod template as far as this program knows its fields.
func Template(r *kubeflow.ReplicaSpec) (*corev1.PodTemplateSpec, error) {
	t := &corev1.PodTemplateSpec{}
	if len(r.Template.Raw) == 0 {
		return t, nil
	}
	if err := json.Unmarshal(r.Template.Raw, t); err != nil {
		return nil, fmt.Errorf("not a pod template: %w", err)
	}
	return t, nil
}

// elastic reads the elastic policy of a job, completed as upstream completes it.
func elastic(j *training.Job, p *kubeflow.ElasticPolicy) {
	if p == nil {
		return
	}
	workers := int32(0)
	if w := j.Replica(training.Worker); w != nil {
		workers = int32(w.Count) //nolint:gosec // it was read from an int32
	}
	e := &training.Elastic{
		Backend: or(p.RDZVBackend, ""), Host: or(p.RDZVHost, ""), Port: int(or(p.RDZVPort, 0)), ID: or(p.RDZVID, ""),
		Standalone: or(p.Standalone, false), Processes: whole(p.NProcPerNode), MaxRestarts: whole(p.MaxRestarts), Metrics: len(p.Metrics) > 0,
	}
	e.Min = int(or(p.MinReplicas, or(p.MaxReplicas, workers)))
	e.Max = int(or(p.MaxReplicas, or(p.MinReplicas, workers)))
	var conf []string
	for _, c := range p.RDZVConf {
		conf = append(conf, c.Key+"="+c.Value)
	}
	e.Conf = strings.Join(conf, ",")
	j.Elastic = e
}

// or returns what a pointer leads to, or what is used where it is nil.
func or[T any](p *T, missing T) T {
	if p == nil {
		return missing
	}
	return *p
}

// seconds reads a number of seconds; nil stays nil.
func seconds[T int32 | int64](n *T) *time.Duration {
	if n == nil {
		return nil
	}
	d := time.Duration(*n) * time.Second
	return &d
}

// whole reads a whole number; nil stays nil.
func whole(n *int32) *int {
	if n == nil {
		return nil
	}
	i := int(*n)
	return &i
}
