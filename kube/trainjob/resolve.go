package trainjob

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"berth.dev/berth/api/trainer"
)

// Resolved is a job with its runtime.
type Resolved struct {
	Nodes        int             // pods
	Template     json.RawMessage // the PodTemplateSpec of each pod, but for what tells pods apart
	KeepsPods    bool            // a container that fails is started again in its pod, which is not created again for it
	BackoffLimit int             // as the Job has it
	TTL          *time.Duration  // how long what is left of the pods is kept after the end; nil is without end
}

// defaultBackoff is the backoffLimit of a Job that names none.
const defaultBackoff = 6

// Resolve returns what a job and the runtime that is kept on it result in. The error is ErrNoRuntime if none is kept, an
// *Unsupported if the runtime cannot be used, or names the field of the job that is wrong.
func Resolve(t *trainer.TrainJob) (*Resolved, error) {
	kind, name, err := Ref(t)
	if err != nil {
		return nil, err
	}
	spec, err := kept(t)
	if err != nil {
		return nil, err
	}
	job, why := node(spec)
	if why != "" {
		return nil, &Unsupported{kind + " " + name, why}
	}
	if err := check(t); err != nil {
		return nil, err
	}
	if job, err = patched(t, job); err != nil {
		return nil, err
	}
	out := &Resolved{Nodes: nodes(t, spec, job), BackoffLimit: number(at(job, "spec.backoffLimit"), defaultBackoff)}
	if err := out.complete(t, spec, child(child(job, "spec"), "template")); err != nil {
		return nil, err
	}
	if n := number(at(spec, "template.spec.ttlSecondsAfterFinished"), -1); n >= 0 {
		ttl := time.Duration(n) * time.Second
		out.TTL = &ttl
	}
	return out, nil
}

// check checks what the API server refuses under Berth's definition.
func check(t *trainer.TrainJob) error {
	switch {
	case t.Spec.Initializer != nil:
		return fmt.Errorf("spec.initializer: %s", initializers)
	case t.Spec.Trainer != nil && isTune(t.Spec.Trainer.Command):
		return fmt.Errorf("spec.trainer.command: %s", tune)
	case t.Spec.Trainer != nil && or(t.Spec.Trainer.NumNodes, 1) < 1:
		return fmt.Errorf("spec.trainer.numNodes: a job has at least one node; set 1 or more")
	}
	return nil
}

// nodes returns how many pods a job has.
func nodes(t *trainer.TrainJob, spec, job map[string]any) int {
	n := number(at(job, "spec.parallelism"), 1)
	if policy, ok := spec["mlPolicy"].(map[string]any); ok {
		n = number(policy["numNodes"], 1)
	}
	if t.Spec.Trainer != nil && t.Spec.Trainer.NumNodes != nil {
		n = int(*t.Spec.Trainer.NumNodes)
	}
	return min(max(n, 1), math.MaxInt32)
}

// complete completes the pod template: what the job says of its trainer, the environment of the runtime's framework, and a restart
// policy, which JobSet sets to OnFailure where there is none.
func (r *Resolved) complete(t *trainer.TrainJob, spec, template map[string]any) error {
	pod := child(template, "spec")
	policy, _ := pod["restartPolicy"].(string)
	switch policy {
	case "Never":
	case "", "OnFailure":
		r.KeepsPods = true
	default:
		return &Unsupported{"template", fmt.Sprintf("restartPolicy %s is not one of Jobs; use OnFailure or Never", policy)}
	}
	containers, _ := pod["containers"].([]any)
	for i := range containers {
		if isNode(containers[i]) {
			if err := r.train(t, spec, containers[i].(map[string]any)); err != nil {
				return err
			}
		}
	}
	var err error
	r.Template, err = json.Marshal(template)
	return err
}
