package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	basev1 "k8s.io/component-base/config/v1alpha1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/api"
	"berth.dev/berth/scheduler/devices"
	"berth.dev/berth/scheduler/gpuonly"
)

// Settings are what the configuration of a scheduler is made from.
type Settings struct {
	Kubeconfig string   // file; "" is the ServiceAccount of the pod that it runs in
	Names      []string // schedulerName of the pods that Berth's plugins schedule; none is upstream's profile alone
	Lease      *Lease   // leader election; nil is none
	// OtherPods is what is done about pods without GPUs on GPU nodes: a mode of
	// package gpuonly; "" is its Open.
	OtherPods string
	// ReserveAfter is how long a pod waits, overtaken by others, before a place is kept
	// for it; 0 keeps none, nil is package reserve's default.
	ReserveAfter *time.Duration
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
	cfg := configv1.KubeSchedulerConfiguration{
		TypeMeta:         metav1.TypeMeta{APIVersion: configv1.SchemeGroupVersion.String(), Kind: "KubeSchedulerConfiguration"},
		LeaderElection:   election(s.Lease),
		ClientConnection: basev1.ClientConnectionConfiguration{Kubeconfig: s.Kubeconfig, QPS: -1, ContentType: runtime.ContentTypeProtobuf},
	}
	for _, name := range s.Names {
		cfg.Profiles = append(cfg.Profiles, profile(name, s))
	}
	text, err := yaml.Marshal(compact(cfg))
	if err != nil {
		panic(fmt.Sprintf("scheduler configuration: %v", err)) // strings and numbers always marshal
	}
	return string(text)
}

// election is leader election by l, or none.
func election(l *Lease) basev1.LeaderElectionConfiguration {
	if l == nil {
		return basev1.LeaderElectionConfiguration{LeaderElect: new(false)}
	}
	return basev1.LeaderElectionConfiguration{
		LeaderElect: new(true), ResourceLock: "leases", ResourceNamespace: l.Namespace, ResourceName: l.Name,
		LeaseDuration: metav1.Duration{Duration: l.Duration},
		RenewDeadline: metav1.Duration{Duration: l.Deadline},
		RetryPeriod:   metav1.Duration{Duration: l.Retry},
	}
}

// profile is a profile with Berth's plugins. Gangs are planned first. The devices'
// plugin names a pod's node before the other plugins look at any, makes room
// before the default preemption does, and binds before the default binder does.
// What a user prefers (affinity, taints) outweighs how well the devices are
// packed, and that outweighs the spreading that nobody asked for.
func profile(name string, s Settings) configv1.KubeSchedulerProfile {
	everywhere := enabled(devices.GangsName, devices.QueuesName, devices.GangPlansName, devices.WaitingName, devices.Name, devices.PreemptionName)
	everywhere.Enabled[4].Weight = new(int32(5))
	args := []configv1.PluginConfig{{Name: "NodeResourcesFit", Args: runtime.RawExtension{Object: &configv1.NodeResourcesFitArgs{
		IgnoredResources: counted, IgnoredResourceGroups: []string{"volcano.sh"},
	}}}}
	if s.ReserveAfter != nil {
		args = append(args, configv1.PluginConfig{Name: devices.PreemptionName, Args: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"reserveAfter":%q}`, *s.ReserveAfter)}})
	}
	if s.OtherPods != "" && s.OtherPods != gpuonly.Open {
		everywhere.Enabled = append(everywhere.Enabled, configv1.Plugin{Name: gpuonly.Name})
		args = append(args, configv1.PluginConfig{Name: gpuonly.Name, Args: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"mode":%q}`, s.OtherPods)}})
	}
	score := enabled("NodeAffinity", "InterPodAffinity", "TaintToleration")
	for i := range score.Enabled {
		score.Enabled[i].Weight = new(int32(20))
	}
	return configv1.KubeSchedulerProfile{SchedulerName: &name, PluginConfig: args, Plugins: &configv1.Plugins{
		MultiPoint: everywhere,
		QueueSort:  configv1.PluginSet{Disabled: []configv1.Plugin{{Name: "PrioritySort"}}},
		PreFilter:  enabled(devices.QueuesName, devices.GangPlansName, devices.Name),
		PostFilter: enabled(devices.GangPlansName, devices.Name, devices.PreemptionName),
		Bind:       enabled(devices.Name),
		Score:      score,
	}}
}

// enabled is a set of plugins in this order.
func enabled(names ...string) configv1.PluginSet {
	var set configv1.PluginSet
	for _, name := range names {
		set.Enabled = append(set.Enabled, configv1.Plugin{Name: name})
	}
	return set
}

// compact is cfg without the fields that are not set, which a configuration that a
// person reads leaves to upstream's defaults: its types write most of them out.
func compact(cfg configv1.KubeSchedulerConfiguration) any {
	text, err := json.Marshal(cfg)
	var tree map[string]any
	if err == nil {
		err = json.Unmarshal(text, &tree)
	}
	if err != nil {
		panic(fmt.Sprintf("scheduler configuration: %v", err))
	}
	return pruned(tree, true)
}

// pruned removes what is empty from tree; false stays, and so does a time of 0 in arguments of plugins: it is set.
func pruned(tree any, zeros bool) any {
	switch tree := tree.(type) {
	case map[string]any:
		maps.DeleteFunc(tree, func(key string, v any) bool {
			switch v := pruned(v, zeros && key != "args").(type) {
			case map[string]any:
				return len(v) == 0
			case string:
				return v == "" || zeros && v == "0s"
			case float64:
				return v == 0
			}
			return v == nil
		})
	case []any:
		for _, v := range tree {
			pruned(v, zeros)
		}
	}
	return tree
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
