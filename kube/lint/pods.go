package lint

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/internal/strictyaml"
	"berth.dev/berth/kube/request"
)

// decode reads a node into a type of the API. Fields that the type does not have are left out.
func decode(n *yaml.Node, into any) error {
	var plain any
	if err := n.Decode(&plain); err != nil {
		return err
	}
	raw, err := json.Marshal(plain)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// pod applies the rules of pods to the spec of one at a path, which stands beside its metadata.
func (o *object) pod(n *yaml.Node, path string) {
	pod := &v1.Pod{}
	if err := decode(n, &pod.Spec); err != nil {
		o.say(path, fail("unreadable", "the spec of a pod cannot be read: "+err.Error(), "write the value in the form that the field takes"))
		return
	}
	parent := strings.TrimSuffix(strings.TrimSuffix(path, "spec"), ".")
	if meta := at(strictyaml.Find(o.root, parent), "metadata"); meta != nil {
		_ = decode(meta, &pod.ObjectMeta) // what cannot be read has no labels that matter here
	}
	if err := request.Check(pod); err != nil {
		o.say(path, fail("gpu-request", err.Error(), "change the request"))
	}
	for _, text := range request.Warnings(pod) {
		if text != request.WarningVisible { // visible says it of its line
			o.say(path, warn("gpu-request", text, ""))
		}
	}
	for _, list := range []struct {
		field      string
		containers []v1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}} {
		for i := range list.containers {
			o.visible(&list.containers[i], fmt.Sprintf("%s[%d]", strictyaml.Join(path, list.field), i))
		}
	}
	for _, part := range []string{"limits", "requests"} {
		field := strictyaml.Join(strictyaml.Join(path, "resources"), part)
		for _, name := range keysOf(at(n, "resources", part)) {
			if request.IsGPU(name) {
				o.say(strictyaml.Join(field, name), fail("pod-resources", "Kubernetes takes no GPUs in the resources of a whole pod", "move the line into a container: "+path+".containers[0].resources."+part))
			}
		}
	}
	o.nodeLabels(pod, path)
	o.hostShare(pod, path)
}

// The variables by which programs and the container toolkit choose GPUs.
const (
	cudaVisible   = "CUDA_VISIBLE_DEVICES"
	nvidiaVisible = request.VisibleVariable
)

// visible finds variables that seem to give a container GPUs.
func (o *object) visible(c *v1.Container, path string) {
	asks := len(request.ContainerAmounts(c)) > 0
	for i := range c.Env {
		e, at := &c.Env[i], fmt.Sprintf("%s.env[%d]", path, i)
		switch {
		case e.Name == cudaVisible && asks:
			o.say(at, warn("visible-devices", cudaVisible+" hides GPUs of those that the container is given, and allocates none: "+
				"the container always sees its own GPUs, numbered from 0", "remove it, unless the program is to see fewer of its own GPUs"))
		case e.Name == cudaVisible && e.Value != "" && e.Value != "-1":
			o.say(at, warn("visible-devices", cudaVisible+" allocates no GPU, and the container asks for none",
				"add a limit, such as nvidia.com/gpu: 1, or remove the variable"))
		case e.Name == nvidiaVisible && e.ValueFrom == nil && request.ShowsDevices(e.Value):
			o.say(at, warn("visible-devices", nvidiaVisible+"="+e.Value+" takes GPUs past the scheduler where the container runtime allows it: "+
				"other pods hold them at the same time, and no quota counts them", "remove it, and set a limit, such as nvidia.com/gpu: 1"))
		}
	}
}

// labels that people select GPU nodes by, and that nothing sets by itself.
var labels = map[string]string{
	"nvidia.com/gpu": "that is the name of a resource, and GPU Feature Discovery sets no such label",
	"accelerator":    "neither GPU Feature Discovery nor the device plugin sets it",
	"gpu-model":      "neither GPU Feature Discovery nor the device plugin sets it",
	"gpu-type":       "neither GPU Feature Discovery nor the device plugin sets it",
	"gpu-memory":     "neither GPU Feature Discovery nor the device plugin sets it",
}

// instead of them.
var instead = map[string]string{
	"gpu-model": "nvidia.com/gpu.product, such as Tesla-V100-SXM2-16GB", "gpu-type": "nvidia.com/gpu.product, such as Tesla-V100-SXM2-16GB",
	"gpu-memory": "nvidia.com/gpu.memory, in MiB, with the operator Gt",
}

// nodeLabels finds labels that a pod requires of its node and that only a person sets.
func (o *object) nodeLabels(pod *v1.Pod, path string) {
	tell := func(key, field string) {
		if why, known := labels[key]; known {
			do := instead[key]
			if do == "" {
				do = `nvidia.com/gpu.present: "true"`
			}
			o.say(field, warn("node-label", fmt.Sprintf("no node has the label %s unless somebody sets it: %s", key, why), "use "+do+", or set the label on the nodes"))
		}
	}
	selector := strictyaml.Join(path, "nodeSelector")
	for key := range pod.Spec.NodeSelector {
		tell(key, strictyaml.Join(selector, key))
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		at := strictyaml.Join(path, "affinity") + ".nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
		for i, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for j, e := range term.MatchExpressions {
				if e.Operator != v1.NodeSelectorOpDoesNotExist && e.Operator != v1.NodeSelectorOpNotIn {
					tell(e.Key, fmt.Sprintf("%s.nodeSelectorTerms[%d].matchExpressions[%d].key", at, i, j))
				}
			}
		}
	}
}

// What CPU and memory people give a GPU, by what its pod does, per whole GPU. From the seeds' table of right-sizing.
type ratio struct{ leastCPU, mostCPU, leastGiB, mostGiB int64 }

var (
	forTraining = ratio{8, 16, 32, 64}
	forServing  = ratio{4, 8, 8, 16}
)

// hostShare advises where the CPU or memory for each GPU is far from what such pods use: less than half of
// the least, or more than twice the most.
func (o *object) hostShare(pod *v1.Pod, path string) {
	usual, what := forTraining, "training"
	switch o.kind {
	case "Deployment", "StatefulSet", "InferenceService", "Rollout":
		usual, what = forServing, "serving"
	case "Job", "TFJob", "PyTorchJob", "TrainJob", "JobSet", "MPIJob":
	default:
		return
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		gpus := request.ContainerAmounts(c)[api.ResourceGPU]
		if gpus == 0 {
			continue
		}
		field := fmt.Sprintf("%s[%d].resources", strictyaml.Join(path, "containers"), i)
		cpu, memory := asked(c, v1.ResourceCPU), asked(c, v1.ResourceMemory)
		if each := cpu / 1000 / gpus; cpu > 0 && (2*cpu < usual.leastCPU*1000*gpus || cpu > 2*usual.mostCPU*1000*gpus) {
			o.say(field, advice(fmt.Sprintf("%d CPU for each GPU, where %s mostly needs %d to %d", each, what, usual.leastCPU, usual.mostCPU), cpu > usual.mostCPU*1000*gpus))
		}
		bytes := memory / 1000
		if each := bytes / gpus >> 30; memory > 0 && (2*bytes < usual.leastGiB<<30*gpus || bytes > 2*usual.mostGiB<<30*gpus) {
			o.say(field, advice(fmt.Sprintf("%d GiB of memory for each GPU, where %s mostly needs %d to %d", each, what, usual.leastGiB, usual.mostGiB), bytes > usual.mostGiB<<30*gpus))
		}
	}
}

// asked is what a container is guaranteed of CPU or memory, in thousandths.
func asked(c *v1.Container, name v1.ResourceName) int64 {
	q, ok := c.Resources.Requests[name]
	if !ok {
		q = c.Resources.Limits[name]
	}
	if q.Value() > 1<<50 {
		return 1 << 60
	}
	return q.MilliValue()
}

func advice(seen string, more bool) finding.Finding {
	if more {
		return warn("cpu-memory", seen, "ask for less if it is not used: what one pod takes of CPU or memory can leave GPUs of its node without a pod")
	}
	return warn("cpu-memory", seen, "ask for more if the GPU waits for data")
}
