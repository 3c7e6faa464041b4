package queues_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/queues"
)

func TestAlike(t *testing.T) {
	committed := map[string]string{api.AnnotationDevices: `{"main":[]}`}
	pod := func(node string, notes map[string]string, change func(*v1.Pod)) *v1.Pod {
		p := asking("a", node, 1, "")
		if p.Annotations = notes; change != nil {
			change(p)
		}
		return p
	}
	labeled := func(labels map[string]string) func(*v1.Pod) { return func(p *v1.Pod) { p.Labels = labels } }
	for _, tt := range []struct {
		name         string
		was, now     *v1.Pod
		hold, counts bool
		bound        bool // and got devices, and nothing else has changed
	}{
		{"a pod without a node that has not changed", pod("", nil, nil), pod("", nil, nil), true, true, false},
		{"a bound pod with committed devices", pod("n", committed, nil), pod("n", committed, nil), true, true, false},
		{"a bound pod without committed devices", pod("n", nil, nil), pod("n", nil, nil), false, false, false},
		{"a pod that is bound now", pod("", nil, nil), pod("n", committed, nil), false, false, true},
		{"a pod that is bound now, with the zone and the region of its node", pod("", nil, labeled(map[string]string{"app": "a"})), pod("n", committed, labeled(map[string]string{"app": "a", v1.LabelTopologyZone: "z", v1.LabelTopologyRegion: "r"})), false, false, true},
		{"a pod that is bound now, with another label", pod("", nil, nil), pod("n", committed, labeled(map[string]string{"app": "a"})), false, false, false},
		{"a pod that is bound now, with a zone and without the label of its queue", pod("", nil, labeled(map[string]string{api.LabelQueue: "red"})), pod("n", committed, labeled(map[string]string{v1.LabelTopologyZone: "z"})), false, false, false},
		{"a pod that is bound now, whose own label for the zone was changed", pod("", nil, labeled(map[string]string{v1.LabelTopologyZone: "y"})), pod("n", committed, labeled(map[string]string{v1.LabelTopologyZone: "z"})), false, false, false},
		{"a pod that is bound now, without devices", pod("", nil, nil), pod("n", nil, nil), false, false, false},
		{"a pod that is bound now, and of another queue", pod("", nil, nil), pod("n", committed, func(p *v1.Pod) { p.Labels = map[string]string{api.LabelQueue: "red"} }), false, false, false},
		{"a pod that is bound now, and had devices before", pod("", committed, nil), pod("n", committed, nil), false, false, false},
		{"a pod that is bound now, and of another user", pod("", map[string]string{api.AnnotationUser: "a"}, nil), pod("n", map[string]string{api.AnnotationUser: "b", api.AnnotationDevices: "{}"}, nil), false, false, false},
		{"a pod that is bound now, and has lost an annotation", pod("", map[string]string{api.AnnotationUser: "a", "b": "c"}, nil), pod("n", map[string]string{api.AnnotationDevices: "{}", "b": "c"}, nil), false, false, false},
		{"a pod that is bound now, and being deleted", pod("", nil, nil), pod("n", committed, func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }), false, false, false},
		{"a pod of another queue", pod("", nil, nil), pod("", nil, func(p *v1.Pod) { p.Labels = map[string]string{api.LabelQueue: "red"} }), false, false, false},
		{"a pod that runs now", pod("n", committed, nil), pod("n", committed, func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }), true, false, false},
		{"a pod that has started", pod("n", committed, nil), pod("n", committed, func(p *v1.Pod) { p.Status.StartTime = &metav1.Time{} }), true, false, false},
		{"a pod that is being deleted", pod("n", committed, nil), pod("n", committed, func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }), true, false, false},
		{"a pod with a condition more", pod("n", committed, nil), pod("n", committed, func(p *v1.Pod) { p.Status.Conditions = make([]v1.PodCondition, 1) }), true, true, false},
	} {
		if got := queues.HoldAlike(tt.was, tt.now); got != tt.hold {
			t.Errorf("%s: holds the same %v, want %v", tt.name, got, tt.hold)
		}
		if got := queues.CountAlike(tt.was, tt.now); got != tt.counts {
			t.Errorf("%s: counts the same %v, want %v", tt.name, got, tt.counts)
		}
		if got := queues.BoundAlike(tt.was, tt.now); got != tt.bound {
			t.Errorf("%s: is bound and else the same %v, want %v", tt.name, got, tt.bound)
		}
	}
}
