package lint

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/strictyaml"
	"berth.dev/berth/kube/request"
)

// resources applies the rules of GPUs to what a container, or a kind that stands for one, asks for.
func (o *object) resources(n *yaml.Node, path string) {
	limits, requests := at(n, "limits"), at(n, "requests")
	for _, part := range []struct {
		name string
		list *yaml.Node
	}{{"limits", limits}, {"requests", requests}} {
		for _, name := range keysOf(part.list) {
			o.amount(name, textAt(part.list, name), strictyaml.Join(strictyaml.Join(path, part.name), name))
		}
	}
	for _, name := range keysOf(requests) {
		if !request.IsGPU(name) {
			continue
		}
		field := strictyaml.Join(strictyaml.Join(path, "requests"), name)
		asks, most := textAt(requests, name), textAt(limits, name)
		switch {
		case at(limits, name) == nil:
			o.say(field, fail("requests-differ", fmt.Sprintf("a request of %s without a limit: Kubernetes refuses the pod%s, because GPUs are not overcommitted", name, o.late()),
				fmt.Sprintf("write it as a limit: %s: %s", name, asks)))
		case !equal(asks, most):
			o.say(field, fail("requests-differ", fmt.Sprintf("the request of %s %s is not the limit of %s: Kubernetes refuses the pod%s, because GPUs are not overcommitted", asks, name, most, o.late()),
				"keep the limit alone: Kubernetes takes it as the request too"))
		}
	}
}

// late says when a mistake in a pod shows: not in what kubectl apply prints, where a controller makes the pods of a kind
// that the API server does not know. It judges pods with the objects that it knows.
func (o *object) late() string {
	if _, own := types[o.apiVersion+"/"+o.kind]; own || o.kind == "Pod" || o.kind == "" {
		return ""
	}
	return " when it is created, which kubectl apply of the " + o.kind + " does not show"
}

// equal reports whether two amounts are the same, or cannot be compared.
func equal(a, b string) bool {
	x, err1 := resource.ParseQuantity(a)
	y, err2 := resource.ParseQuantity(b)
	return err1 != nil || err2 != nil || x.Cmp(y) == 0
}

// amount checks the name and the amount of one resource.
func (o *object) amount(name, text, field string) {
	if !request.IsGPU(name) {
		if near := meant(name); near != "" {
			o.say(field, fail("resource-name", fmt.Sprintf("no device plugin offers %s, so the pod would wait forever", name), "did you mean "+near+"?"))
		}
		return
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return // unreadable says so
	}
	if q.MilliValue()%1000 != 0 {
		o.say(field, fail("whole-gpus", fmt.Sprintf("%s of %s: Kubernetes takes only whole numbers", text, name),
			"ask for part of a GPU by memory, such as "+api.ResourceGPUMemory+": 8 for 8 GiB, or by the annotation gpu-fraction"))
	}
}

// others are names of GPUs, and of what comes with them, that device plugins other than NVIDIA's offer.
var others = []string{"amd.com/", "gpu.intel.com/", "habana.ai/", "huawei.com/", "aws.amazon.com/", "cloud-tpus.google.com/", "google.com/", "cambricon.com/", "aliyun.com/", "tencent.com/", "run.ai/", "squat.ai/", "rdma/", "openshift.io/"}

// meant is the resource that a wrong name of GPUs is near to; "" is that the name may be right.
func meant(name string) string {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "requests."), "limits.")
	lower := strings.ToLower(name)
	if !strings.Contains(lower, "gpu") && !strings.HasPrefix(lower, "nvidia") || request.IsGPU(name) ||
		slices.ContainsFunc(others, func(p string) bool { return strings.HasPrefix(lower, p) }) {
		return ""
	}
	if strings.Contains(lower, "mem") {
		return api.ResourceGPUMemory
	}
	if !strings.HasPrefix(lower, "nvidia") && strings.Contains(lower, ".") {
		return "" // of another maker
	}
	if near := gpu.NearestWord(name, []string{api.ResourceGPU, api.ResourceGPUShared, api.ResourceGPUMemory}); near != "" {
		return near
	}
	return api.ResourceGPU
}

func keysOf(n *yaml.Node) []string {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var out []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		out = append(out, n.Content[i].Value)
	}
	return out
}
