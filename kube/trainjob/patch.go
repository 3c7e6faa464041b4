package trainjob

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"berth.dev/berth/api/trainer"
)

// patched returns the template of a Job with what a job changes of its runtime, in all spellings: the field is
// runtimePatches from version 2.2 of the trainer on, podTemplateOverrides in 2.1, and podSpecOverrides in 2.0. Later entries are
// merged over earlier ones, as kubectl patch does.
func patched(t *trainer.TrainJob, job map[string]any) (map[string]any, error) {
	for _, spelling := range []struct {
		field string
		list  []runtime.RawExtension
		apply func(job, change map[string]any) (map[string]any, error)
	}{
		{"podSpecOverrides", t.Spec.PodSpecOverrides, overrideSpec},
		{"podTemplateOverrides", t.Spec.PodTemplateOverrides, overrideTemplate},
		{"runtimePatches", t.Spec.RuntimePatches, patchRuntime},
	} {
		changes, err := objects(spelling.list)
		if err != nil {
			return nil, fmt.Errorf("spec.%s: not a list of objects: %w", spelling.field, err)
		}
		for i, change := range changes {
			if job, err = spelling.apply(job, change); err != nil {
				return nil, fmt.Errorf("spec.%s[%d]: %w", spelling.field, i, err)
			}
		}
	}
	return job, nil
}

// patchRuntime merges an entry of runtimePatches. Labels of the JobSet are ignored, as there is no JobSet.
func patchRuntime(job, change map[string]any) (map[string]any, error) {
	jobs, _ := at(change, "trainingRuntimeSpec.template.spec.replicatedJobs").([]any)
	for _, one := range jobs {
		one, _ := one.(map[string]any)
		if err := isJob(one["name"]); err != nil {
			return nil, err
		}
		template, _ := one["template"].(map[string]any)
		if template == nil {
			continue
		}
		spec, _ := at(template, "spec.template.spec").(map[string]any)
		if err := setsNoEnv(spec); err != nil {
			return nil, err
		}
		merged, err := strategicpatch.StrategicMergeMapPatch(job, template, batchv1.JobTemplateSpec{})
		if err != nil {
			return nil, err
		}
		job = merged
	}
	return job, nil
}

// overrideTemplate merges an entry of podTemplateOverrides.
func overrideTemplate(job, change map[string]any) (map[string]any, error) {
	if hit, err := targets(change); !hit || err != nil {
		return job, err
	}
	spec, _ := change["spec"].(map[string]any)
	if err := setsNoEnv(spec); err != nil {
		return nil, err
	}
	delete(change, "targetJobs")
	return mergeTemplate(job, change)
}

// overrideSpec merges an entry of podSpecOverrides.
func overrideSpec(job, change map[string]any) (map[string]any, error) {
	if hit, err := targets(change); !hit || err != nil {
		return job, err
	}
	if err := setsNoEnv(change); err != nil {
		return nil, err
	}
	delete(change, "targetJobs")
	return mergeTemplate(job, map[string]any{"spec": change})
}

// mergeTemplate merges a change into the pod template of a Job.
func mergeTemplate(job, change map[string]any) (map[string]any, error) {
	spec := child(job, "spec")
	merged, err := strategicpatch.StrategicMergeMapPatch(child(spec, "template"), change, corev1.PodTemplateSpec{})
	if err == nil {
		spec["template"] = map[string]any(merged)
	}
	return job, err
}

// targets reports whether an override is of the one job that there is.
func targets(change map[string]any) (hit bool, err error) {
	list, _ := change["targetJobs"].([]any)
	for _, one := range list {
		one, _ := one.(map[string]any)
		if err := isJob(one["name"]); err != nil {
			return false, err
		}
		hit = true
	}
	return hit, nil
}

// isJob returns an error for the name of a job that the runtime does not have.
func isJob(name any) error {
	if name != "node" {
		return fmt.Errorf("the runtime has no job %v; use node", name)
	}
	return nil
}

// setsNoEnv returns an error if a change sets the environment of the container that trains, which the trainer does.
func setsNoEnv(spec map[string]any) error {
	containers, _ := spec["containers"].([]any)
	for _, c := range containers {
		if isNode(c) && c.(map[string]any)["env"] != nil {
			return fmt.Errorf("env of the container node cannot be set here; set spec.trainer.env")
		}
	}
	return nil
}
