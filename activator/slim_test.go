package activator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/api"
)

// fat is metadata with what API servers and their clients add.
func fat(name string, labels, notes map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: "u", ResourceVersion: "7", GenerateName: "x-", Labels: labels, Annotations: notes,
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}, OwnerReferences: []metav1.OwnerReference{{Name: "o"}},
	}
}

func TestWhatIsKeptOfServices(t *testing.T) {
	s := &v1.Service{
		ObjectMeta: fat("iris", map[string]string{LabelService: "iris"}, map[string]string{api.AnnotationSplit: "r=5", api.AnnotationConcurrency: "3", "other": "long"}),
		Spec:       v1.ServiceSpec{Selector: map[string]string{"app": "iris"}, Ports: []v1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}, ClusterIP: "10.0.0.1"},
	}
	want := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "iris", UID: "u", ResourceVersion: "7", Labels: map[string]string{LabelService: "iris"},
			Annotations: map[string]string{api.AnnotationSplit: "r=5", api.AnnotationConcurrency: "3"},
		},
		Spec: v1.ServiceSpec{Selector: map[string]string{"app": "iris"}, Ports: []v1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}
	got, err := slimService(s)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

func TestWhatIsKeptOfSlicesIsWhereReadyPodsAnswer(t *testing.T) {
	slice := func(labels map[string]string) *discoveryv1.EndpointSlice {
		labels[discoveryv1.LabelServiceName] = "iris"
		return &discoveryv1.EndpointSlice{
			ObjectMeta: fat("iris-x", labels, map[string]string{"note": "1"}), AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
			Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{"10.1.0.1"}, NodeName: new("n"), Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true)}, TargetRef: &v1.ObjectReference{Kind: "Pod", Name: "a", UID: "p"}},
				{Addresses: []string{"10.1.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}},
			},
		}
	}
	theirs := slice(map[string]string{})
	before := ready([]*discoveryv1.EndpointSlice{theirs}, "http")
	if _, err := slimSlice(theirs); err != nil {
		t.Fatal(err)
	}
	if after := ready([]*discoveryv1.EndpointSlice{theirs}, "http"); !cmp.Equal(before, after, cmp.AllowUnexported(endpoints{})) || len(after.pods) != 1 {
		t.Errorf("ready are %v, and before they were slimmed %v", after, before)
	}
	if theirs.Annotations != nil || theirs.OwnerReferences != nil || theirs.ManagedFields != nil || theirs.Endpoints[0].NodeName != nil {
		t.Errorf("more is kept than is read: %+v", theirs)
	}
	mine := slice(map[string]string{discoveryv1.LabelManagedBy: ManagedBy})
	if _, err := slimSlice(mine); err != nil {
		t.Fatal(err)
	}
	if mine.ManagedFields != nil || mine.Annotations["note"] != "1" || len(mine.Endpoints) != 2 || mine.Endpoints[0].NodeName == nil {
		t.Errorf("a slice of an activator, which is written again, has become %+v", mine)
	}
}

func TestWhatIsKeptOfPodsIsWhereTheyAnswer(t *testing.T) {
	p := &v1.Pod{
		ObjectMeta: fat("a", map[string]string{LabelService: "iris"}, map[string]string{"note": "1"}),
		Spec:       v1.PodSpec{NodeName: "n", Containers: []v1.Container{{Name: "side"}, {Name: "c", Image: "i", Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 8080}}}}},
		Status:     v1.PodStatus{PodIP: "10.1.0.1", Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}, {Type: v1.PodReady, Status: v1.ConditionTrue}}},
	}
	port := &v1.ServicePort{Port: 80, TargetPort: intstr.FromString("http")}
	if _, err := slimPod(p); err != nil {
		t.Fatal(err)
	}
	if got := answering([]*v1.Pod{p}, port); len(got.addresses) != 1 || got.addresses[0] != "10.1.0.1:8080" {
		t.Errorf("it answers at %v", got.addresses)
	}
	if p.Annotations != nil || p.Spec.NodeName != "" || len(p.Spec.Containers) != 1 || len(p.Status.Conditions) != 1 {
		t.Errorf("more is kept than is read: %+v", p)
	}
}
