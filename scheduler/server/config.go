package server

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"berth.dev/berth/api"
	"berth.dev/berth/scheduler/devices"
	"berth.dev/berth/scheduler/strays"
)

// Settings are what the configuration of a scheduler is made from.
type Settings struct {
	Kubeconfig string   // file; "" is the ServiceAccount of the pod that it runs in
	Names      []string // schedulerName of the pods that Berth's plugins schedule; none is upstream's profile alone
	Lease      *Lease   // leader election; nil is none
	// OtherPods is what is done about pods without GPUs on GPU nodes: a mode of
	// package strays; "" is its Open.
	OtherPods string
}

// Lease says how the scheduler that leads is elected.
type Lease struct {
	Namespace, Name string
	// A leader that has not renewed for Duration is followed by another; one that
	// could not renew for Deadline stops; Retry is the time between two tries.
	// Duration must be longer than Deadline, and that than 1.2 times Retry.
	Duration, Deadline, Retry time.Duration
}

// DefaultLease is upstream's timing under Berth's name.
func DefaultLease() Lease {
	return Lease{Namespace: "kube-system", Name: "berth-scheduler", Duration: 15 * time.Second, Deadline: 10 * time.Second, Retry: 2 * time.Second}
}

// Configuration is a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1)
// in YAML. The limits on the scheduler's own requests are off: upstream's 50 a
// second would be the limit on pods, and API servers defend themselves by
// priority and fairness.
func Configuration(s Settings) string {
	var b strings.Builder
	b.WriteString("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
	if l := s.Lease; l != nil {
		fmt.Fprintf(&b, "leaderElection: {leaderElect: true, resourceLock: leases, resourceNamespace: %q, resourceName: %q, leaseDuration: %s, renewDeadline: %s, retryPeriod: %s}\n",
			l.Namespace, l.Name, l.Duration, l.Deadline, l.Retry)
	} else {
		b.WriteString("leaderElection: {leaderElect: false}\n")
	}
	fmt.Fprintf(&b, "clientConnection: {kubeconfig: %s, qps: -1, contentType: application/vnd.kubernetes.protobuf}\n", strconv.Quote(s.Kubeconfig))
	if len(s.Names) == 0 {
		return b.String()
	}
	b.WriteString("profiles:\n")
	for _, name := range s.Names {
		b.WriteString(profile(name, s.OtherPods))
	}
	return b.String()
}

// profile is a profile with Berth's plugins. Gangs are planned first. The devices'
// plugin names a pod's node before the other plugins look at any, makes room
// before the default preemption does, and binds before the default binder does.
// What a user prefers (affinity, taints) outweighs how well the devices are
// packed, and that outweighs the spreading that nobody asked for.
func profile(name, otherPods string) string {
	more, args := "", ""
	if otherPods != "" && otherPods != strays.Open {
		more, args = ", {name: "+strays.Name+"}", "  - name: "+strays.Name+"\n    args: {mode: "+otherPods+"}\n"
	}
	return "- schedulerName: " + strconv.Quote(name) + "\n  plugins:\n" +
		"    multiPoint: {enabled: [{name: " + devices.GangsName + "}, {name: " + devices.GangPlansName + "}, {name: " + devices.WaitingName + "}, {name: " + devices.Name + ", weight: 5}, {name: " + devices.PreemptionName + "}" + more + "]}\n" +
		"    queueSort: {disabled: [{name: PrioritySort}]}\n" +
		"    preFilter: {enabled: [{name: " + devices.GangPlansName + "}, {name: " + devices.Name + "}]}\n" +
		"    postFilter: {enabled: [{name: " + devices.GangPlansName + "}, {name: " + devices.Name + "}, {name: " + devices.PreemptionName + "}]}\n" +
		"    bind: {enabled: [{name: " + devices.Name + "}]}\n" +
		"    score: {enabled: [{name: NodeAffinity, weight: 20}, {name: InterPodAffinity, weight: 20}, {name: TaintToleration, weight: 20}]}\n" +
		"  pluginConfig:\n  - name: NodeResourcesFit\n    args: {ignoredResources: [" + strings.Join(counted, ", ") + "], ignoredResourceGroups: [volcano.sh]}\n" + args
}

// counted are the resources that Berth's plugin counts device by device, and the
// plugin NodeResourcesFit therefore not at all: a share in HAMi's spelling asks
// for nvidia.com/gpu: 1 and takes none, and most nodes do not offer the resources
// of HAMi and Volcano (volcano.sh/vgpu-*).
var counted = []string{api.ResourceGPU, api.ResourceGPUMemory, api.ResourceHAMiMemory, api.ResourceHAMiPercentage, api.ResourceHAMiCores}

// decode reads a KubeSchedulerConfiguration, with upstream's defaults for what it
// leaves out.
func decode(text []byte) (*config.KubeSchedulerConfiguration, error) {
	obj, kind, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("it is a %s, not a KubeSchedulerConfiguration", kind.Kind)
	}
	cfg.APIVersion = kind.GroupVersion().String() // conversion leaves it empty, and plugins are told of it
	return cfg, nil
}

// commits says whether a profile of cfg has Berth's plugin.
func commits(cfg *config.KubeSchedulerConfiguration) bool {
	for i := range cfg.Profiles {
		if cfg.Profiles[i].Plugins == nil {
			continue
		}
		for _, p := range cfg.Profiles[i].Plugins.MultiPoint.Enabled {
			if p.Name == devices.Name {
				return true
			}
		}
	}
	return false
}
