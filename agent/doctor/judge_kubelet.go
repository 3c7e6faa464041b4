package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth.dev/berth/agent/deviceplugin"
)

func judgeKubelet(f Facts) Finding {
	const name = "kubelet"
	for _, path := range slices.Sorted(maps.Keys(f.Kubelet.Unreadable)) {
		return warn(name, fmt.Sprintf("%s: %v", path, f.Kubelet.Unreadable[path]), "run as root; the kubelet rewrites a damaged checkpoint when it restarts")
	}
	switch {
	case !f.Kubelet.Dir:
		return fail(name, deviceplugin.Dir+" is not there", "start the kubelet; in a container, mount that folder (it is the same with every --root-dir)")
	case !f.Kubelet.Socket:
		return fail(name, deviceplugin.Dir+" has no kubelet.sock", "the kubelet is not running: systemctl status kubelet")
	}
	return ok(name, "accepts device plugins")
}

// judgePlugin asks who offers GPUs to the kubelet.
func judgePlugin(f Facts) Finding {
	const name = "device-plugin"
	k := f.Kubelet
	var offered []string
	total := 0
	for _, resource := range slices.Sorted(maps.Keys(k.Registered)) {
		total += k.Registered[resource]
		offered = append(offered, fmt.Sprintf("%d x %s", k.Registered[resource], resource))
	}
	list := strings.Join(offered, ", ")
	const remove = "remove NVIDIA's device plugin (kubectl -n kube-system delete daemonset nvidia-device-plugin-daemonset, or devicePlugin.enabled=false in the GPU operator); a socket left behind can be removed"
	switch {
	case len(k.Own) > 0 && len(k.Foreign) > 0:
		return fail(name, "the agent and another plugin offer GPUs: "+strings.Join(append(slices.Clone(k.Own), k.Foreign...), ", "), remove)
	case len(k.Foreign) > 0:
		return warn(name, "another plugin offers GPUs: "+strings.Join(k.Foreign, ", "), "before the agent serves this node, "+remove)
	case len(k.Own) == 0 && total == 0:
		return warn(name, "no GPU device plugin is registered with the kubelet", "start berth agent; if it runs, see its log")
	case len(k.Own) == 0:
		return warn(name, "the kubelet remembers "+list+", but no plugin serves it", "start berth agent; if it runs, see its log")
	case total == 0:
		return warn(name, "the agent runs, but the kubelet has no device from it", "see the agent's log, and kubectl describe node")
	}
	return ok(name, "the kubelet has %s", list)
}

func judgePodResources(f Facts) Finding {
	if f.Kubelet.PodResources {
		return ok("pod-resources", "reports which pods use which devices")
	}
	return warn("pod-resources", "/var/lib/kubelet/pod-resources/kubelet.sock is not there", "mount the folder into the agent's container; with another kubelet --root-dir it lies there")
}

// judgeMetrics never fails: pods use GPUs without metrics.
func judgeMetrics(f Facts) Finding {
	const name = "metrics"
	switch {
	case errors.Is(f.MetricsErr, errGuarded):
		return ok(name, "%s answers, and serves its metrics only to clients that may read them", f.MetricsURL)
	case f.MetricsErr != nil:
		return warn(name, f.MetricsErr.Error(), "see whether berth agent runs on this node, and whether another exporter holds its port")
	case f.MetricsCount == 0:
		return warn(name, f.MetricsURL+" serves no GPU metrics", "see the finding on the driver, and the agent's log")
	}
	return ok(name, "%s serves %d GPU series", f.MetricsURL, f.MetricsCount)
}
