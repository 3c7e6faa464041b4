package trainjob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/json"

	"berth.dev/berth/api"
	"berth.dev/berth/api/trainer"
)

// port is where the pods find each other.
const port = 29500

// indexPath is where a pod has its index, as an indexed Job writes it.
const indexPath = "metadata.annotations['batch.kubernetes.io/job-completion-index']"

// train completes the container that trains.
func (r *Resolved) train(t *trainer.TrainJob, spec, c map[string]any) error {
	own := or(t.Spec.Trainer, trainer.Trainer{})
	if own.Image != nil {
		c["image"] = *own.Image
	}
	if own.Command != nil {
		c["command"] = own.Command
	}
	if own.Args != nil {
		c["args"] = own.Args
	}
	if own.ResourcesPerNode != nil {
		var resources map[string]any
		if err := json.Unmarshal(own.ResourcesPerNode.Raw, &resources); err != nil {
			return fmt.Errorf("spec.trainer.resourcesPerNode: not resources: %w", err)
		}
		if resources["limits"] != nil || resources["requests"] != nil {
			c["resources"] = resources
		}
	}
	written, err := objects(own.Env)
	if err != nil {
		return fmt.Errorf("spec.trainer.env: not a list of variables: %w", err)
	}
	policy, _ := spec["mlPolicy"].(map[string]any)
	vars, reserved := r.environment(t, policy, c)
	for i, v := range written {
		if slices.Contains(reserved, fmt.Sprint(v["name"])) {
			return fmt.Errorf("spec.trainer.env[%d]: %v is set by the runtime; remove it", i, v["name"])
		}
	}
	env, _ := c["env"].([]any)
	// What the job says goes before what the framework does, in value and in place.
	for _, v := range slices.Concat(written, vars, written) {
		env = upsert(env, v, "name")
	}
	if len(env) > 0 {
		c["env"] = env
	}
	if len(vars) > 0 {
		ports, _ := c["ports"].([]any)
		c["ports"] = upsert(ports, map[string]any{"containerPort": int64(port)}, "containerPort")
	}
	return nil
}

// environment returns the variables of a runtime's framework, and which of them a job may not set (plugins of
// pkg/runtime/framework of kubeflow/trainer). Upstream leaves them out of jobs without spec.trainer, which then train each alone.
func (r *Resolved) environment(t *trainer.TrainJob, policy, c map[string]any) (vars []map[string]any, reserved []string) {
	first := t.Name + "-node-0-0." + t.Name
	text := func(name, value string) map[string]any { return map[string]any{"name": name, "value": value} }
	index := func(name string) map[string]any {
		return map[string]any{"name": name, "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": indexPath}}}
	}
	if torch, ok := policy["torch"].(map[string]any); ok {
		vars = []map[string]any{
			text("PET_NNODES", strconv.Itoa(r.Nodes)), text("PET_NPROC_PER_NODE", processes(t, torch, c)), index("PET_NODE_RANK"),
			text("PET_MASTER_ADDR", first), text("PET_MASTER_PORT", strconv.Itoa(port)),
		}
		return vars, names(vars)
	}
	if _, ok := policy["xgboost"].(map[string]any); ok {
		vars = []map[string]any{
			text("DMLC_TRACKER_URI", first), text("DMLC_TRACKER_PORT", strconv.Itoa(port)), index("DMLC_TASK_ID"),
			text("DMLC_NUM_WORKER", strconv.Itoa(r.Nodes*max(gpus(c), 1))),
		}
		return vars, names(vars)
	}
	if _, ok := policy["jax"].(map[string]any); ok {
		vars = []map[string]any{
			text("JAX_NUM_PROCESSES", strconv.Itoa(r.Nodes)), index("JAX_PROCESS_ID"),
			text("JAX_COORDINATOR_ADDRESS", first+":"+strconv.Itoa(port)),
		}
	}
	return vars, nil
}

// processes returns how many processes torchrun starts in a pod: what the job says or the runtime (until version 2.1), else
// auto, which is the number of CPUs for a pod without a GPU.
func processes(t *trainer.TrainJob, torch, c map[string]any) string {
	n := "auto"
	switch v := torch["numProcPerNode"].(type) {
	case string:
		n = v
	case int64:
		n = strconv.FormatInt(v, 10)
	}
	if t.Spec.Trainer != nil && t.Spec.Trainer.NumProcPerNode != nil {
		n = t.Spec.Trainer.NumProcPerNode.String()
	}
	if n == "cpu" || n == "auto" && gpus(c) == 0 {
		cpus := quantity(c, "requests", "cpu")
		if cpus == 0 {
			cpus = quantity(c, "limits", "cpu")
		}
		return strconv.Itoa(max(cpus, 1))
	}
	return n
}

// gpus returns how many GPUs a container asks for: upstream takes any resource with gpu in its name, to which MIG devices are
// added here.
func gpus(c map[string]any) int {
	for _, list := range []string{"requests", "limits"} {
		quantities, _ := at(c, "resources."+list).(map[string]any)
		for name := range quantities {
			if n := quantity(c, list, name); n > 0 && (strings.Contains(strings.ToLower(name), "gpu") || strings.HasPrefix(name, api.ResourceMIGPrefix)) {
				return n
			}
		}
	}
	return 0
}

// quantity returns a request or limit of a container in whole numbers, rounded up; 0 is none.
func quantity(c map[string]any, list, name string) int {
	quantities, _ := at(c, "resources."+list).(map[string]any)
	if quantities[name] == nil {
		return 0
	}
	q, err := resource.ParseQuantity(fmt.Sprint(quantities[name]))
	if err != nil {
		return 0
	}
	return int(q.Value())
}

// upsert adds an object to a list, in place of the one that has the same key.
func upsert(list []any, o map[string]any, key string) []any {
	i := slices.IndexFunc(list, func(v any) bool {
		m, _ := v.(map[string]any)
		return m != nil && m[key] == o[key]
	})
	if i >= 0 {
		list[i] = o
		return list
	}
	return append(list, o)
}

// names returns the names of variables.
func names(vars []map[string]any) (out []string) {
	for _, v := range vars {
		out = append(out, v["name"].(string))
	}
	return out
}
