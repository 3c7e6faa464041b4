// Package can reads from objects which pods they make when they are applied, for a judgment of pods that do not
// exist yet. It knows no cluster: what a cluster adds to objects is in them already.
package can

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/serving"
	"berth.dev/berth/kube/training"
)

// Workload is the pods that an object makes.
type Workload struct {
	Pods []*v1.Pod // in the order in which they get places, without UIDs
	// Need is how many, the first of them, start together or not at all; 0 is that each starts for itself.
	Need int
	// Never is why it makes no pods although it should, as a sentence; "" is that it does.
	Never string
	// Later is what it waits for before it makes pods, such as its schedule; "" is nothing. Pods are those that it then makes.
	Later string
	// Guess is what is assumed of its pods; "" is nothing.
	Guess string
}

// MostPods is how many pods of an object are judged, the first of them.
const MostPods = 1000

// templatesOnly are kinds with pods in them that others make.
var templatesOnly = []string{"PodTemplate", "TrainingRuntime", "ClusterTrainingRuntime", "ServingRuntime", "ClusterServingRuntime", "WorkflowTemplate", "ClusterWorkflowTemplate", "CustomResourceDefinition"}

// known are the kinds of which it is known how many pods they make.
var known = []string{"Pod", "Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "Notebook", "JobSet", "MPIJob", "RayCluster", "XGBoostJob", "PaddleJob", "JAXJob"}

// Of reads which pods an object makes. servers are the runtimes of models that its namespace and the cluster have; nil is not known. The
// error is of fields that cannot be read.
func Of(o *unstructured.Unstructured, servers []*serving.Runtime) (*Workload, error) {
	w, err := of(o, servers)
	if err != nil {
		return nil, err
	}
	for _, p := range w.Pods {
		queues.NameAs(p, o)
	}
	return w, nil
}

func of(o *unstructured.Unstructured, servers []*serving.Runtime) (*Workload, error) {
	kind := o.GetKind()
	switch {
	case slices.Contains(templatesOnly, kind):
		return &Workload{}, nil
	case kind == "Job" || kind == "CronJob":
		return ofJob(o)
	case slices.Contains(training.Kinds(), kind):
		return ofTraining(o)
	case kind == kserve.Kind:
		return ofService(o, servers)
	case kind == "Pod":
		p := &v1.Pod{}
		if err := into(o.Object, p); err != nil {
			return nil, fmt.Errorf("read Pod %s: %w", o.GetName(), err)
		}
		return &Workload{Pods: []*v1.Pod{p}}, nil
	}
	w := &Workload{}
	if err := w.walk(o, o.Object, nil, 1, 0); err != nil {
		return nil, err
	}
	switch {
	case kind == "DaemonSet" && len(w.Pods) > 0:
		w.Later = "" // OnNodes says how many there are
	case kind == "Notebook" && has(o.GetAnnotations(), api.AnnotationStopped):
		w.Later = "the notebook is stopped; `berth notebook start` starts it"
	case paused(o):
		w.Later = "spec.paused is set; kubectl rollout resume makes its pods"
	case len(w.Pods) > 0 && !slices.Contains(known, kind):
		w.Guess = "how many pods a " + kind + " makes is not known: those of its templates are judged, each as often as the fields replicas and parallelism say"
	}
	return w, nil
}

func has(m map[string]string, key string) bool { _, there := m[key]; return there }

func paused(o *unstructured.Unstructured) bool {
	is, _, _ := unstructured.NestedBool(o.Object, "spec", "paused")
	return is && o.GetKind() == "Deployment"
}

// mostDepth is how deep objects are looked into for pods.
const mostDepth = 40

// walk adds the pods of every mapping with containers: count of them, times what replicas and parallelism say on the
// way. meta is what stands beside the mapping as metadata.
func (w *Workload) walk(o *unstructured.Unstructured, m, meta map[string]any, count, depth int) error {
	if depth > mostDepth {
		return nil
	}
	if list, _ := m["containers"].([]any); len(list) > 0 {
		return w.add(o, m, meta, count)
	}
	for _, field := range []string{"replicas", "parallelism"} {
		if n, there := number(m[field]); there {
			count = int(min(int64(count)*max(n, 0), MostPods+1))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if key == "status" && depth == 0 {
			continue
		}
		for _, one := range list(m[key]) {
			beside, _ := m["metadata"].(map[string]any)
			if key != "spec" || depth == 0 {
				beside = nil
			}
			if err := w.walk(o, one, beside, count, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// list is a mapping, or the mappings of a list.
func list(v any) (out []map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		return []map[string]any{v}
	case []any:
		for _, one := range v {
			if m, is := one.(map[string]any); is {
				out = append(out, m)
			}
		}
	}
	return out
}

func number(v any) (n int64, there bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), true
	}
	return 0, false
}

// add adds count pods of a spec.
func (w *Workload) add(o *unstructured.Unstructured, spec, meta map[string]any, count int) error {
	template := &v1.PodTemplateSpec{}
	if err := into(map[string]any{"metadata": meta, "spec": spec}, template); err != nil {
		return fmt.Errorf("read the pods of %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	w.repeat(o, template, count)
	return nil
}

// repeat adds count pods of a template.
func (w *Workload) repeat(o *unstructured.Unstructured, t *v1.PodTemplateSpec, count int) {
	for range min(count, MostPods-len(w.Pods)) {
		p := &v1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
		p.Namespace, p.Name = o.GetNamespace(), fmt.Sprintf("%s-%d", name(o), len(w.Pods))
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: name(o), UID: o.GetUID(), Controller: new(true)}}
		w.Pods = append(w.Pods, p)
	}
}

// name is the name of an object, or the beginning of one.
func name(o metav1.Object) string {
	if o.GetName() == "" {
		return o.GetGenerateName() + "new"
	}
	return o.GetName()
}

// into reads decoded JSON into a type.
func into(from any, to any) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, to)
}

// ofJob reads a Job, or the Job that a CronJob makes next.
func ofJob(o *unstructured.Unstructured) (*Workload, error) {
	w, j := &Workload{}, &batchv1.Job{}
	if o.GetKind() == "CronJob" {
		c := &batchv1.CronJob{}
		if err := into(o.Object, c); err != nil {
			return nil, fmt.Errorf("read CronJob %s: %w", o.GetName(), err)
		}
		j.ObjectMeta, j.Spec = *c.Spec.JobTemplate.ObjectMeta.DeepCopy(), c.Spec.JobTemplate.Spec
		j.Namespace, j.Name = o.GetNamespace(), name(o)
		if w.Guess = fmt.Sprintf("it makes its pods by its schedule %q; they are judged as if it were due now", c.Spec.Schedule); c.Spec.Suspend != nil && *c.Spec.Suspend {
			w.Later = "its schedule is suspended; spec.suspend: false resumes it"
		}
	} else if err := into(o.Object, j); err != nil {
		return nil, fmt.Errorf("read Job %s: %w", o.GetName(), err)
	}
	j.Name = name(j)
	s := queues.Of(j, nil)
	inTurn, _ := s.InTurn()
	if s.Is && !inTurn {
		w.Later = "spec.suspend is set, so it makes no pods; spec.suspend: false resumes it"
	}
	pods, need := s.Pods()
	for i, p := range pods[:min(len(pods), MostPods)] {
		p.Name = fmt.Sprintf("%s-%d", p.Name, i)
		w.Pods = append(w.Pods, p)
	}
	if Together(w.Pods) > 0 || inTurn {
		w.Need = need
	}
	return w, nil
}

// ofTraining reads a TFJob, PyTorchJob, or TrainJob with its runtime.
func ofTraining(o *unstructured.Unstructured) (*Workload, error) {
	object, err := training.Decode(o.GetKind(), o.Object)
	if err != nil {
		return nil, err
	}
	j, err := training.Of(object)
	if err == nil {
		err = training.Check(object, &j)
	}
	if err != nil {
		return &Workload{Never: "the job cannot run: " + err.Error()}, nil //nolint:nilerr // the error is the answer
	}
	w := &Workload{Need: j.Least()}
	switch {
	case !j.Ours():
		w.Later = "managedBy is " + j.ManagedBy + ", so another controller runs it"
	case j.Suspend && object.GetAnnotations()[api.AnnotationResume] != api.ResumeInTurn:
		w.Later = "the job is suspended, so it makes no pods; `berth train resume` resumes it"
	}
	for _, m := range j.Ranks()[:min(j.Total(), MostPods)] {
		made, _, err := training.Pod(object, &j, m, "")
		if err != nil {
			return &Workload{Never: "the job cannot run: " + err.Error()}, nil //nolint:nilerr // the error is the answer
		}
		p := &v1.Pod{}
		if err := into(made, p); err != nil {
			return &Workload{Never: "the pods of the job cannot be read: " + err.Error()}, nil //nolint:nilerr // the error is the answer
		}
		w.Pods = append(w.Pods, p)
	}
	return w, nil
}

// Together is how many of pods, the first of them, start together or not at all by what the first says of its gang;
// 0 is that it is in none.
func Together(pods []*v1.Pod) int {
	if len(pods) == 0 {
		return 0
	}
	g, err := request.GangOf(pods[0])
	if err != nil || g == nil {
		return 0
	}
	if g.MinCount > 0 {
		return min(g.MinCount, len(pods))
	}
	return len(pods)
}

// Identify sets different UIDs of pods that do not exist yet, now as the time at which they are created, and the condition of
// pods for which a scheduler found no node. of is different for each workload.
func Identify(pods []*v1.Pod, of string, now time.Time) {
	for i, p := range pods {
		p.UID, p.CreationTimestamp = types.UID(fmt.Sprintf("%s/%d", of, i)), metav1.NewTime(now)
		c := v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}
		if len(p.Spec.SchedulingGates) > 0 {
			c.Reason = v1.PodReasonSchedulingGated
		}
		p.Status = v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{c}}
	}
}
