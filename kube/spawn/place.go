package spawn

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/request"
)

func image(f *Facts) (finding.Status, string, string) {
	var remarks []string
	names := map[string]bool{}
	for i := range f.Pod.Spec.Containers {
		c := &f.Pod.Spec.Containers[i]
		names[c.Image] = true
		if pod, why := pullTrouble(f.Pods, c.Image); pod != "" {
			return finding.Fail, fmt.Sprintf("image %s cannot be pulled by pod %s, which has it too: %s", c.Image, pod, why), "correct its name, or see that the registry lets this cluster in"
		}
		if r := reasons.ImageRemark(c.Image); r != "" {
			remarks = append(remarks, r)
		}
		if r := cudaRemark(f, c); r != "" {
			return finding.Fail, r, "a process in it finds no GPU until then"
		}
	}
	if len(remarks) > 0 {
		return finding.Warn, strings.Join(remarks, "; "), "write a version in the profile"
	}
	var all []string
	for name := range names {
		all = append(all, name)
	}
	if len(all) != 1 {
		return finding.OK, fmt.Sprintf("%d images", len(all)), ""
	}
	return finding.OK, all[0], ""
}

// cudaRemark says that a container needs a newer CUDA than the nodes' drivers give.
func cudaRemark(f *Facts, c *v1.Container) string {
	require := ""
	for _, e := range c.Env {
		if e.Name == "NVIDIA_REQUIRE_CUDA" {
			require = e.Value
		}
	}
	need, from := reasons.RequiredCUDA(require, c.Image)
	if request.Of(f.Pod) == nil || need == (reasons.CUDA{}) {
		return ""
	}
	return reasons.CUDARemark(c.Image, need, from, explain.NewestCUDA(f.Nodes, f.Pod))
}

// pullTrouble names a pod that cannot pull an image, and why; "" is that none is
// known.
func pullTrouble(pods []*v1.Pod, image string) (pod, why string) {
	for _, p := range pods {
		for i := range p.Status.ContainerStatuses {
			s := &p.Status.ContainerStatuses[i]
			if s.State.Waiting == nil || s.State.Waiting.Reason != "ErrImagePull" && s.State.Waiting.Reason != "ImagePullBackOff" {
				continue
			}
			for j := range p.Spec.Containers {
				if p.Spec.Containers[j].Name == s.Name && p.Spec.Containers[j].Image == image {
					return p.Namespace + "/" + p.Name, s.State.Waiting.Reason + ": " + s.State.Waiting.Message
				}
			}
		}
	}
	return "", ""
}

func nodes(f *Facts) (finding.Status, string, string) {
	live, err := explain.NewCluster(f.Nodes, f.Pods)
	if err != nil {
		return finding.Warn, err.Error(), "`berth nodes` shows what is counted"
	}
	live.SetVolumes(f.Volumes)
	verdict := live.Judge(f.Pod)
	if why := verdict.Lacks(); why != "" {
		return finding.Fail, why, firstStep(f)
	}
	reached := len(f.Nodes)
	for _, o := range reasons.Rejections(verdict.Nodes) {
		if o.Never() {
			reached -= len(o.Nodes)
		}
	}
	if reached == 0 {
		return finding.Fail, fmt.Sprintf("none of the %d nodes is one that it may use and can reach", len(f.Nodes)), firstStep(f)
	}
	return finding.OK, fmt.Sprintf("it may use %d of %d", reached, len(f.Nodes)), ""
}

// firstStep is what the nearest nodes would need for the notebook to go there.
func firstStep(f *Facts) string {
	live, err := explain.NewCluster(f.Nodes, f.Pods)
	if err != nil {
		return ""
	}
	live.SetVolumes(f.Volumes)
	for _, o := range live.Rejections(f.Pod) {
		if o.Do != "" {
			return fmt.Sprintf("%s %s: %s", o.Nodes[0], o.Why, o.Do)
		}
	}
	return "`berth nodes` shows what there is"
}

func gpus(f *Facts) (finding.Status, string, string) {
	asks := explain.AmountsOf(f.Pod)
	want := reasons.Amounts(asks)
	if len(asks) == 0 {
		want = "room"
	}
	live, err := explain.NewCluster(f.Nodes, f.Pods)
	if err != nil {
		return finding.Warn, err.Error(), "`berth nodes` shows what is counted"
	}
	live.SetVolumes(f.Volumes)
	ahead := 0
	for _, p := range f.Pods {
		if p.Spec.NodeName == "" && len(asks) > 0 && request.Of(p)[asks[0].Resource] > 0 {
			ahead++
		}
	}
	line := ""
	if ahead > 0 {
		line = fmt.Sprintf("; %d wait for %s already", ahead, asks[0].Resource)
	}
	if node, ok := live.Fits(f.Pod); ok {
		status := finding.OK
		do := ""
		if ahead > 0 {
			status, do = finding.Warn, "`berth gpus` shows who holds what"
		}
		return status, fmt.Sprintf("%s free on %s now%s", want, node, line), do
	}
	do := "wait: it starts by itself; `berth gpus` shows who holds what"
	if reliefs := live.Reliefs(f.Pod); len(reliefs) > 0 {
		do = fmt.Sprintf("wait, or %s: it then fits on %s now", reliefs[0].Change, reliefs[0].Node)
	}
	return finding.Warn, fmt.Sprintf("no node has %s free: it would wait%s", want, line), do
}
