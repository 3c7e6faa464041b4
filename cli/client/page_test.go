package client

import (
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPagesAreListedToTheEnd lists three pages; then one whose list is forgotten after the
// first page, so all is listed again; then one that is refused.
func TestPagesAreListedToTheEnd(t *testing.T) {
	page := func(o metav1.ListOptions) ([]v1.Pod, string, error) {
		n := 0
		if o.Continue != "" {
			if _, err := fmt.Sscan(o.Continue, &n); err != nil {
				return nil, "", err
			}
		}
		next := fmt.Sprint(n + 1)
		if n == 2 {
			next = ""
		}
		return []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", n)}}, {ObjectMeta: metav1.ObjectMeta{Name: "left-out"}}}, next, nil
	}
	keep := func(p *v1.Pod) *v1.Pod {
		if p.Name == "left-out" {
			return nil
		}
		return p
	}
	names := func(list []*v1.Pod) string {
		out := ""
		for _, p := range list {
			out += p.Name + " "
		}
		return out
	}
	got, err := paged(metav1.ListOptions{}, page, keep)
	if names(got) != "p0 p1 p2 " || err != nil {
		t.Errorf("three pages: %q, %v", names(got), err)
	}
	forgotten := 0
	got, err = paged(metav1.ListOptions{}, func(o metav1.ListOptions) ([]v1.Pod, string, error) {
		if o.Continue == "2" && forgotten == 0 {
			forgotten++
			return nil, "", apierrors.NewResourceExpired("too old")
		}
		if o.Limit == 0 {
			return []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "all"}}}, "", nil
		}
		return page(o)
	}, keep)
	if names(got) != "all " || err != nil || forgotten != 1 {
		t.Errorf("a list that is forgotten: %q, %v", names(got), err)
	}
	if _, err = paged(metav1.ListOptions{}, func(metav1.ListOptions) ([]v1.Pod, string, error) { return nil, "", errors.ErrUnsupported }, keep); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a list that is refused: %v", err)
	}
}

// TestTrimmedPodsTakeAsMuch trims a pod that has a node, and of one that waits the containers.
func TestTrimmedPodsTakeAsMuch(t *testing.T) {
	pod := func(node string) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}, Annotations: map[string]string{v1.LastAppliedConfigAnnotation: "{}", "a": "b"}},
			Spec: v1.PodSpec{
				NodeName: node, Volumes: []v1.Volume{{Name: "token"}, {Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}},
				Containers:  []v1.Container{{Name: "main", Image: "x/y:1", Env: []v1.EnvVar{{Name: "A"}}, Ports: []v1.ContainerPort{{HostPort: 1}}}},
				Tolerations: []v1.Toleration{{Key: "k"}},
			},
		}
	}
	for _, tt := range []struct {
		node                 string
		volumes, tolerations int
	}{{"", 2, 1}, {"n", 1, 0}} {
		got := newTrimmer().pod(pod(tt.node))
		c := got.Spec.Containers[0]
		if got.ManagedFields != nil || len(c.Env) != 0 || len(c.Ports) != 1 || c.Image != "x/y:1" || len(got.Annotations) != 1 ||
			len(got.Spec.Volumes) != tt.volumes || len(got.Spec.Tolerations) != tt.tolerations {
			t.Errorf("a pod on node %q: %+v", tt.node, got)
		}
	}
}

// TestGarbageIsCollectedWhenTheHeapIsLarge holds heaps up to enough to that, and larger ones to
// leastGarbage more than they keep.
func TestGarbageIsCollectedWhenTheHeapIsLarge(t *testing.T) {
	for _, kept := range []uint64{0, 1, 4 << 20, 20 << 20, 70 << 20, 77 << 20, 78 << 20, 100 << 20, 4 << 30} {
		percent := gcPercent(kept)
		heap := kept + kept*uint64(percent)/100
		want := max(enough, kept+kept*leastGarbage/100)
		if heap > want || kept >= 1<<20 && heap < want-want/50 {
			t.Errorf("a process that keeps %d MiB collects at %d %%, with %d MiB; want %d MiB", kept>>20, percent, heap>>20, want>>20)
		}
	}
}
