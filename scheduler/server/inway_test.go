package server

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPodsThatFiltersMindAreEvicted has pods of lower priority in the way of an urgent
// one by what kube-scheduler's filters say, where GPUs are free. Those in the way go,
// and no others.
func TestPodsThatFiltersMindAreEvicted(t *testing.T) {
	bubbles(t)
	withLabel := func(name string, priority int32, gpus int64, value string) *v1.Pod {
		p := gpuPod(name, priority, gpus)
		p.Labels = map[string]string{"app": value}
		return p
	}
	against := func(p *v1.Pod, value, key string) *v1.Pod {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}},
		}}}}
		return p
	}
	spreading := func(p *v1.Pod) *v1.Pod {
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
		return p
	}
	never := func(p *v1.Pod) *v1.Pod {
		policy := v1.PreemptNever
		p.Spec.PreemptionPolicy = &policy
		return p
	}
	cpu := func(name string, priority int32) *v1.Pod {
		p := gpuPod(name, priority, 0)
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{}
		return p
	}
	const host = v1.LabelHostname
	for _, tt := range []struct {
		name  string
		nodes []string // of 4 GPUs each
		there []*v1.Pod
		comes *v1.Pod
		gone  []string
		waits bool
	}{
		{
			"one with the same host port",
			[]string{"n0"},
			[]*v1.Pod{hostPort(gpuPod("port", 100, 1), 1), hostPort(gpuPod("other", 100, 1), 2), gpuPod("plain", 100, 1)},
			hostPort(gpuPod("urgent", 1000, 1), 1),
			[]string{"port"},
			false,
		},
		{
			"one with the same host port and no GPU",
			[]string{"n0"},
			[]*v1.Pod{hostPort(cpu("port", 100), 1), gpuPod("plain", 100, 1)},
			hostPort(gpuPod("urgent", 1000, 1), 1),
			[]string{"port"},
			false,
		},
		{
			"one that the urgent pod wants to be apart from",
			[]string{"n0"},
			[]*v1.Pod{withLabel("noisy", 100, 1, "noisy"), gpuPod("plain", 100, 1)},
			against(gpuPod("urgent", 1000, 1), "noisy", host),
			[]string{"noisy"},
			false,
		},
		{
			"one that wants to be apart from the urgent pod",
			[]string{"n0"},
			[]*v1.Pod{against(gpuPod("shy", 100, 1), "urgent", host), gpuPod("plain", 100, 1)},
			withLabel("urgent", 1000, 1, "urgent"),
			[]string{"shy"},
			false,
		},
		{
			"those that make the spread uneven",
			[]string{"n0", "n1"},
			[]*v1.Pod{gpuPod("full", 2000, 4), withLabel("a", 100, 1, "s"), withLabel("b", 100, 1, "s"), gpuPod("plain", 100, 1)},
			spreading(withLabel("urgent", 1000, 1, "s")),
			[]string{"a", "b"},
			false,
		},
		{
			"one with the port and one with GPUs, of all that could go",
			[]string{"n0"},
			[]*v1.Pod{hostPort(gpuPod("port", 100, 1), 1), gpuPod("two", 100, 2), gpuPod("one", 100, 1)},
			hostPort(gpuPod("urgent", 1000, 3), 1),
			[]string{"port", "two"},
			false,
		},
		{
			"none for a pod that evicts no other",
			[]string{"n0"},
			[]*v1.Pod{hostPort(gpuPod("port", 100, 1), 1)},
			never(hostPort(gpuPod("urgent", 1000, 1), 1)), nil, true,
		},
		{
			"none of equal priority",
			[]string{"n0"},
			[]*v1.Pod{hostPort(gpuPod("port", 1000, 1), 1)},
			hostPort(gpuPod("urgent", 1000, 1), 1), nil, true,
		},
		{
			"none that a disruption budget keeps",
			[]string{"n0"},
			[]*v1.Pod{hostPort(withLabel("port", 100, 1, "kept"), 1)},
			hostPort(gpuPod("urgent", 1000, 1), 1), nil, true,
		},
		{
			"none of a node that the urgent pod must not use, whichever pods go",
			[]string{"n0"},
			[]*v1.Pod{gpuPod("plain", 100, 4)},
			func() *v1.Pod {
				p := gpuPod("urgent", 1000, 1)
				p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
					TopologyKey: host, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "absent"}},
				}}}}
				return p
			}(), nil, true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lab{cluster: newCluster(t, 3)}
				for _, name := range tt.nodes {
					l.put("nodes", t4s(t, name, 4))
				}
				l.start()
				defer func() { l.stop() }()
				l.budget("kept", 0)
				for _, p := range tt.there {
					l.put("pods", p)
					rests(t, time.Second)
				}
				if l.bound() != len(tt.there) {
					t.Fatalf("%d of %d are bound", l.bound(), len(tt.there))
				}
				l.put("pods", tt.comes)
				rests(t, 30*time.Second)
				l.mu.Lock()
				gone := slices.Sorted(slices.Values(l.evicted))
				l.mu.Unlock()
				if diff := cmp.Diff(tt.gone, gone); diff != "" {
					t.Errorf("evicted: -want +got\n%s", diff)
				}
				for _, p := range list[*v1.Pod](l.cluster, "pods") {
					if p.Name == tt.comes.Name && (p.Spec.NodeName == "") != tt.waits {
						t.Errorf("the urgent pod is on node %q: %s", p.Spec.NodeName, said(p))
					}
				}
			})
		})
	}
}
