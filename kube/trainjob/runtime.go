package trainjob

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"

	"berth.dev/berth/api"
	"berth.dev/berth/api/trainer"
)

// ErrNoRuntime is that the runtime of a job was not read yet: it is kept on the job when the job is first seen.
var ErrNoRuntime = errors.New("spec.runtimeRef: the training runtime was not read yet")

// Unsupported is why a runtime cannot be used, with what to use instead.
type Unsupported struct{ ref, why string }

// Error implements error. It names the field and the runtime.
func (u *Unsupported) Error() string { return "spec.runtimeRef: " + u.ref + ": " + u.why }

// Ref returns the kind and the name of the runtime that a job names, or what is wrong with it.
func Ref(t *trainer.TrainJob) (kind, name string, err error) {
	r := &t.Spec.RuntimeRef
	kind = or(r.Kind, trainer.KindClusterRuntime)
	if group := or(r.APIGroup, trainer.Group); group != trainer.Group || kind != trainer.KindClusterRuntime && kind != trainer.KindRuntime {
		return "", "", &Unsupported{fmt.Sprintf("%s of %s", kind, group), fmt.Sprintf("no such runtimes are known; use a %s or a %s of %s", trainer.KindClusterRuntime, trainer.KindRuntime, trainer.Group)}
	}
	return kind, r.Name, nil
}

// Absent returns that the runtime of a job does not exist, with what to use instead.
func Absent(t *trainer.TrainJob) error {
	kind, name, err := Ref(t)
	if err != nil {
		return err
	}
	why := "there is none of this name; create it and then the job again, or use torch-distributed"
	for _, known := range []struct{ name, why string }{
		{"deepspeed-distributed", mpi}, {"mlx-distributed", mpi}, {"torchtune-", tune}, {"torch-distributed-with-cache", initializers},
	} {
		if strings.HasPrefix(name, known.name) && kind == trainer.KindClusterRuntime {
			why = known.why
		}
	}
	return &Unsupported{kind + " " + name, why}
}

// Keep returns the value of the annotation berth.dev/runtime that keeps a runtime on its job: its spec as JSON. A change of the
// runtime does not change a job that has it.
func Keep(t *trainer.TrainJob, spec map[string]any) (string, error) {
	raw, err := json.Marshal(spec)
	if err == nil && len(raw) > mostKept {
		kind, name, _ := Ref(t)
		err = &Unsupported{kind + " " + name, fmt.Sprintf("the runtime has %d bytes of JSON, and a job can keep %d; make it smaller", len(raw), mostKept)}
	}
	return string(raw), err
}

// mostKept is the most bytes of a runtime: the API server allows annotations of 256 KiB in all.
const mostKept = 128 << 10

// kept returns the spec of a job's runtime.
func kept(t *trainer.TrainJob) (spec map[string]any, err error) {
	text, ok := t.Annotations[api.AnnotationRuntime]
	if !ok {
		return nil, ErrNoRuntime
	}
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return nil, fmt.Errorf("metadata.annotations[%s]: not a runtime: %w; remove it", api.AnnotationRuntime, err)
	}
	return spec, nil
}

// What is not run, with what to use instead.
const (
	mpi          = "MPI is not run, and neither are DeepSpeed and MLX started by it; use torch-distributed, and start the program by torchrun"
	tune         = "torchtune is not run; use torch-distributed with the program's own command"
	initializers = "initializers and the data cache are not run; use torch-distributed, and have the program or an init container load what it needs"
)

// refused is the fields of runtimes that ask for what is not done. The definitions of runtimes refuse the same.
var refused = []struct{ path, why string }{
	{"mlPolicy.mpi", mpi},
	{"mlPolicy.flux", "Flux is not run; use torch-distributed, and start the program by torchrun"},
	{"mlPolicy.torch.elasticPolicy", "a TrainJob has a fixed number of nodes; remove it, or use an elastic PyTorchJob"},
	{"template.spec.failurePolicy", "JobSets are not restarted as a whole; remove it, and set backoffLimit in the template of the Job"},
	{"template.spec.volumeClaimPolicies", "volumes are not made for a job; create a PersistentVolumeClaim, and mount it by spec.runtimePatches of the job"},
	{"template.spec.coordinator", "pods find the first by its name, JOB-node-0-0.JOB; remove it"},
	{"template.spec.network.subdomain", "the Service has the name of the job; remove it"},
}

// refusedOfJob is refused, of the template of the Job.
var refusedOfJob = []struct{ path, why string }{
	{"activeDeadlineSeconds", "set spec.activeDeadlineSeconds of the TrainJob instead"},
	{"podFailurePolicy", "failures are not distinguished; remove it, and set backoffLimit"},
	{"successPolicy", "a job succeeds with all its pods; remove it"},
	{"backoffLimitPerIndex", "failures are counted over all pods; set backoffLimit instead"},
	{"maxFailedIndexes", "failures are counted over all pods; set backoffLimit instead"},
}

// node returns the template of the one Job of a runtime, or why the runtime cannot be used.
func node(spec map[string]any) (job map[string]any, why string) {
	for _, r := range refused {
		if at(spec, r.path) != nil {
			return nil, "spec." + r.path + ": " + r.why
		}
	}
	jobs, _ := at(spec, "template.spec.replicatedJobs").([]any)
	for _, one := range jobs {
		one, _ := one.(map[string]any)
		if step, _ := at(one, "template.metadata.labels").(map[string]any); step[trainer.LabelStep] != nil && step[trainer.LabelStep] != trainer.StepTrainer {
			return nil, fmt.Sprintf("its job %v is an initializer: %s", one["name"], initializers)
		}
	}
	if len(jobs) != 1 {
		return nil, fmt.Sprintf("spec.template.spec.replicatedJobs: it has %d jobs; use a runtime with one, of the name node", len(jobs))
	}
	one, _ := jobs[0].(map[string]any)
	labels, _ := at(one, "template.metadata.labels").(map[string]any)
	const field = "spec.template.spec.replicatedJobs[0]."
	switch {
	case one["name"] != "node":
		return nil, field + "name: its job is not named node, as the addresses of pods begin with JOB-node-0; rename it"
	case labels[trainer.LabelStep] != trainer.StepTrainer:
		return nil, fmt.Sprintf("%stemplate.metadata.labels: the label %s=%s is missing; add it", field, trainer.LabelStep, trainer.StepTrainer)
	case number(one["replicas"], 1) != 1:
		return nil, field + "replicas: it always is 1; set mlPolicy.numNodes instead"
	case at(one, "template.spec.completionMode") == "NonIndexed":
		return nil, field + "template.spec.completionMode: pods have an index; remove it"
	}
	for _, r := range refusedOfJob {
		if at(one, "template.spec."+r.path) != nil {
			return nil, field + "template.spec." + r.path + ": " + r.why
		}
	}
	containers, _ := at(one, "template.spec.template.spec.containers").([]any)
	i := slices.IndexFunc(containers, func(c any) bool { return isNode(c) })
	if i < 0 {
		return nil, field + "template.spec.template.spec.containers: no container has the name node, which trains; rename the one that does"
	}
	if command := texts(containers[i].(map[string]any)["command"]); isTune(command) {
		return nil, tune
	}
	job, _ = one["template"].(map[string]any)
	return job, ""
}

// isNode reports whether a container is the one that trains.
func isNode(container any) bool {
	c, _ := container.(map[string]any)
	return c != nil && c["name"] == "node"
}

// isTune reports whether a command starts torchtune.
func isTune(command []string) bool {
	return len(command) >= 2 && command[0] == "tune" && command[1] == "run"
}
