package training

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/core/training"
)

// Check returns what makes it impossible to run a job, with the field and what to do; nil if it
// can run. The API server refuses the same where Berth's definitions are served, with the
// rules in controller/crd: this is for jobs of other definitions. j is what Of returned.
func Check(o Object, j *training.Job) error {
	specs, err := Specs(o)
	if err != nil {
		return err
	}
	if j.Replica(training.Chief) != nil && j.Replica(training.Master) != nil && j.Kind == training.TFJob {
		return fmt.Errorf("spec.%s: a job has a Chief or a Master, which are the same; remove one", Field(o))
	}
	for _, r := range j.Replicas {
		spec := specs[r.Type]
		if err := checkReplica(o, j, &r, &spec); err != nil {
			return err
		}
	}
	if e := j.Elastic; e != nil {
		switch {
		case j.Replica(training.Worker) == nil:
			return fmt.Errorf("spec.elasticPolicy: an elastic job needs Worker replicas; add them, or remove the policy")
		case e.Min > e.Max:
			return fmt.Errorf("spec.elasticPolicy: minReplicas is greater than maxReplicas; exchange them")
		case e.Processes != nil && j.Processes != "":
			return fmt.Errorf("spec.elasticPolicy.nProcPerNode: nProcPerNode is there twice; use spec.nprocPerNode alone")
		}
	}
	return nil
}

// checkReplica checks the pods of one type.
func checkReplica(o Object, j *training.Job, r *training.Replica, spec *kubeflow.ReplicaSpec) error {
	at := fmt.Sprintf("spec.%s[%s]", Field(o), r.Type)
	if j.Kind == training.TrainJob {
		at = "spec.trainer"
	}
	last := podName(o, j, training.Member{Type: r.Type, Index: max(r.Count-1, 0)})
	t, err := Template(spec)
	switch {
	case err != nil:
		return fmt.Errorf("%s.template: %w", at, err)
	case len(validation.IsDNS1035Label(last)) > 0:
		return fmt.Errorf("metadata.name: %s cannot be the name of a pod and its Service: %s; choose a shorter or simpler one", last, strings.Join(validation.IsDNS1035Label(last), ", "))
	case j.Kind == training.PyTorchJob && r.Type == training.Master && (spec.Replicas == nil || r.Count != 1):
		return fmt.Errorf("%s.replicas: a job has one Master; write \"replicas: 1\"", at)
	case r.Count < 1:
		return fmt.Errorf("%s.replicas: a job has at least one pod of each type; remove the type if it needs none", at)
	case j.Kind != training.TrainJob && !slices.Contains([]training.Restart{training.RestartAlways, training.RestartOnFailure, training.RestartNever, training.RestartExitCode}, r.Restart):
		return fmt.Errorf("%s.restartPolicy: %q is not a restart policy; use Always, OnFailure, Never, or ExitCode", at, r.Restart)
	}
	trains := false
	for i, c := range t.Spec.Containers {
		if c.Image == "" {
			return fmt.Errorf("%s.template.spec.containers[%d].image: the container %s has no image; add one", at, i, c.Name)
		}
		trains = trains || c.Name == j.Kind.Container()
	}
	if !trains {
		return fmt.Errorf("%s.template.spec.containers: no container has the name %s, which gets the environment of the job; rename the one that trains", at, j.Kind.Container())
	}
	return nil
}
