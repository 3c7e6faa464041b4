package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/request"
)

// Misuse is why a pod that runs is unlikely to use its GPUs as it should, by its spec and
// status; "" is that nothing is known against it.
func Misuse(pod *v1.Pod, nodes []*v1.Node) (reasons.Code, string) {
	for _, s := range pod.Status.ContainerStatuses {
		for _, r := range s.AllocatedResourcesStatus {
			for _, d := range r.Resources {
				if d.Health == v1.ResourceHealthStatusUnhealthy {
					return reasons.CodeDeviceLost, fmt.Sprintf("device %s of container %s has become unhealthy; drain the node, and reset or replace the GPU as its Xid demands", d.ResourceID, s.Name)
				}
			}
		}
	}
	i := slices.IndexFunc(nodes, func(n *v1.Node) bool { return n.Name == pod.Spec.NodeName })
	if i >= 0 {
		if named, err := commit.Committed(pod); err == nil {
			if text := request.SeveralShares(pod, nodes[i], named); text != "" {
				return reasons.CodeShares, ""
			}
		}
	}
	gpus := len(request.Of(pod)) > 0
	for i := range pod.Spec.Containers {
		if code, text := misusing(&pod.Spec.Containers[i], gpus); code != "" {
			return code, text
		}
	}
	return "", ""
}

// misusing is the same of one container of a pod that asks for GPUs or not.
//
// Source: the environment that NVIDIA's container toolkit, CUDA, and torchrun read.
func misusing(c *v1.Container, gpus bool) (reasons.Code, string) {
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	amounts := request.ContainerAmounts(c)
	count := amounts[api.ResourceGPU]
	visible := request.VisibleDevices(c)
	switch {
	case !gpus && visible != "":
		return reasons.CodeForeignGPUs, fmt.Sprintf("container %s sets NVIDIA_VISIBLE_DEVICES=%s and asks for no GPU, so it uses GPUs that others hold; remove the variable and ask for nvidia.com/gpu", c.Name, visible)
	case !gpus && forGPUs(c.Image):
		return reasons.CodeNoRequest, fmt.Sprintf("container %s runs image %s and asks for no GPU, so it has none; add the limit nvidia.com/gpu: 1", c.Name, c.Image)
	case !gpus:
		return "", ""
	}
	if caps, set := env["NVIDIA_DRIVER_CAPABILITIES"]; set && caps != "all" && !strings.Contains(caps, "compute") {
		return reasons.CodeCapabilities, fmt.Sprintf("container %s sets NVIDIA_DRIVER_CAPABILITIES=%s, so CUDA is not available in it; set it to compute,utility", c.Name, caps)
	}
	if list := env["CUDA_VISIBLE_DEVICES"]; count > 0 {
		for word := range strings.SplitSeq(list, ",") {
			if n, err := strconv.ParseInt(strings.TrimSpace(word), 10, 64); err == nil && n >= count {
				return reasons.CodeHostIndex, fmt.Sprintf("container %s sets CUDA_VISIBLE_DEVICES=%s and has %s, which count from 0 in it; remove the variable", c.Name, list, gpusText(int(count)))
			}
		}
	}
	if n := processes(slices.Concat(c.Command, c.Args)); n > 0 && count > 0 && n != count {
		return reasons.CodeProcesses, fmt.Sprintf("container %s starts %d processes and has %s; start one for each GPU, or ask for as many GPUs", c.Name, n, gpusText(int(count)))
	}
	return "", ""
}

// forGPUs reports whether an image is one that does nothing useful without a GPU, by its name.
func forGPUs(image string) bool {
	name := image[:max(strings.LastIndex(image, ":"), 0)]
	if name == "" {
		name = image
	}
	for _, part := range []string{"nvidia/cuda", "nvcr.io/nvidia/", "vllm/vllm-openai"} {
		if strings.Contains(name, part) && !strings.Contains(name, "k8s-device-plugin") && !strings.Contains(name, "dcgm") && !strings.Contains(name, "gpu-operator") && !strings.Contains(name, "/k8s/") && !strings.Contains(name, "/cloud-native/") {
			return true
		}
	}
	return false
}

// processes is how many processes a command line of torchrun or accelerate starts on a
// node; 0 is not known.
func processes(words []string) int64 {
	for i, word := range words {
		flag, value, joined := strings.Cut(strings.ReplaceAll(word, "_", "-"), "=")
		if flag != "--nproc-per-node" {
			continue
		}
		if !joined && i+1 < len(words) {
			value = words[i+1]
		}
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			return n
		}
	}
	return 0
}

// EndedCode is the code of a pod that has failed.
func EndedCode(pod *v1.Pod) reasons.Code {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue {
			return reasons.CodePreempted
		}
	}
	return reasons.FailedCode(pod.Status.Reason + ": " + pod.Status.Message)
}
