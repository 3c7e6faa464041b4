package training

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/core/training"
)

// Pod makes the pod of a member from the template as it is written, so fields that this
// program does not know reach the pod. domain is the cluster's DNS domain for TF_CONFIG; "" leaves it
// out. overwritten reports whether the template names a restart policy, which that of the replicas replaces.
func Pod(o Object, j *training.Job, m training.Member, domain string) (pod map[string]any, overwritten bool, err error) {
	specs, err := Specs(o)
	if err != nil {
		return nil, false, err
	}
	written := specs[m.Type]
	template := map[string]any{}
	if len(written.Template.Raw) > 0 {
		if err := json.Unmarshal(written.Template.Raw, &template); err != nil {
			return nil, false, fmt.Errorf("spec.%s[%s].template: not a pod template: %w", Field(o), m.Type, err)
		}
	}
	spec, _ := template["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
	}
	meta := map[string]any{"name": podName(o, j, m), "namespace": j.Namespace, "ownerReferences": owner(o), "labels": map[string]any{}}
	if was, ok := template["metadata"].(map[string]any); ok {
		for _, key := range []string{"annotations", "labels"} {
			if v, ok := was[key].(map[string]any); ok {
				meta[key] = v
			}
		}
	}
	note(meta, o, j)
	marks := meta["labels"].(map[string]any)
	for k, v := range labels(j, m.Type) {
		marks[k] = v
	}
	marks[kubeflow.LabelReplicaIndex] = strconv.Itoa(m.Index)
	if j.Leads(m) {
		marks[kubeflow.LabelJobRole] = "master"
	}
	r := j.Replica(m.Type)
	_, overwritten = spec["restartPolicy"]
	spec["restartPolicy"] = string(r.Restart)
	if r.Restart == training.RestartExitCode || r.Restart == training.RestartPod {
		spec["restartPolicy"] = string(corev1.RestartPolicyNever)
	}
	if j.Kind == training.TrainJob {
		overwritten = false
		asJobSet(o, j, m, meta, spec)
	}
	complete(spec, j, m, domain)
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, overwritten, nil
}

// note sets the annotations of a pod that come from its job.
func note(meta map[string]any, o Object, j *training.Job) {
	notes, _ := meta["annotations"].(map[string]any)
	if notes == nil {
		notes = map[string]any{}
	}
	delete(notes, api.AnnotationRound)
	if j.Round > 0 {
		notes[api.AnnotationRound] = strconv.Itoa(j.Round)
	}
	if _, own := notes[api.AnnotationCheckpoint]; !own && o.GetAnnotations()[api.AnnotationCheckpoint] != "" {
		notes[api.AnnotationCheckpoint] = o.GetAnnotations()[api.AnnotationCheckpoint]
	}
	if len(notes) > 0 {
		meta["annotations"] = notes
	}
}

// complete adds the port and the environment to the containers.
func complete(spec map[string]any, j *training.Job, m training.Member, domain string) {
	vars, every := Env(j, m, domain)
	name, number := j.Kind.Port()
	list, _ := spec["containers"].([]any)
	for i := range list {
		c, ok := list[i].(map[string]any)
		if !ok {
			continue
		}
		trains := c["name"] == j.Kind.Container()
		if ports, _ := c["ports"].([]any); trains && name != "" && !has(ports, name) {
			c["ports"] = append(ports, map[string]any{"name": name, "containerPort": int64(number), "protocol": string(corev1.ProtocolTCP)})
		}
		if !every && !trains {
			continue
		}
		env, _ := c["env"].([]any)
		for _, v := range vars {
			env = append(env, map[string]any{"name": v.Name, "value": v.Value})
		}
		if len(vars) > 0 {
			c["env"] = env
		}
	}
}

// has reports whether a list of objects has one of a name.
func has(list []any, name string) bool {
	for _, o := range list {
		if m, ok := o.(map[string]any); ok && m["name"] == name {
			return true
		}
	}
	return false
}

// owner returns the owner references of a job's pods and Services.
func owner(o Object) []any {
	return []any{map[string]any{
		"apiVersion": ResourceOf(o.JobKind()).GroupVersion().String(), "kind": o.JobKind(), "name": o.GetName(), "uid": string(o.GetUID()),
		"controller": true, "blockOwnerDeletion": true,
	}}
}

// Service makes the headless Service of a member. Its name resolves before the pod is ready, so a
// worker that starts first finds the master: upstream adds an init container that waits for it instead. The one of
// training.Whole is that of a TrainJob.
func Service(o Object, j *training.Job, m training.Member) (map[string]any, error) {
	if m == training.Whole {
		return jobSetService(o, j), nil
	}
	specs, err := Specs(o)
	if err != nil {
		return nil, err
	}
	written := specs[m.Type]
	template, err := Template(&written)
	if err != nil {
		return nil, err
	}
	name, number := j.Kind.Port()
	numbers, order := map[string]int64{}, []string{}
	add := func(name string, n int64) {
		if _, ok := numbers[name]; !ok && name != "" {
			numbers[name], order = n, append(order, name)
		}
	}
	for _, c := range template.Spec.Containers {
		for _, p := range c.Ports {
			if c.Name == j.Kind.Container() {
				add(p.Name, int64(p.ContainerPort))
			}
		}
	}
	add(name, int64(number))
	ports := []any{}
	for _, name := range order {
		ports = append(ports, map[string]any{"name": name, "port": numbers[name], "targetPort": numbers[name], "protocol": string(corev1.ProtocolTCP)})
	}
	marks := map[string]any{kubeflow.LabelReplicaIndex: strconv.Itoa(m.Index)}
	for k, v := range labels(j, m.Type) {
		marks[k] = v
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": m.Name(j.Name), "namespace": j.Namespace, "labels": marks, "ownerReferences": owner(o)},
		"spec":     map[string]any{"clusterIP": corev1.ClusterIPNone, "publishNotReadyAddresses": true, "selector": marks, "ports": ports},
	}, nil
}
