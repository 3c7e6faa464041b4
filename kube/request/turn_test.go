package request_test

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/request"
)

func TestTickets(t *testing.T) {
	of := func(gang string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Annotations = map[string]string{api.AnnotationGang: gang, api.AnnotationGangMinCount: "2"}
		}
	}
	bound := func(p *v1.Pod) { p.Spec.NodeName = "n" }
	ended := func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }
	pods := []*v1.Pod{
		kubetest.Unplaced("alone", 2*time.Second, 1),
		kubetest.Unplaced("late", 9*time.Second, 1, of("whole")),
		kubetest.Unplaced("early", time.Second, 1, of("whole")),
		kubetest.Unplaced("rest", 20*time.Second, 1, of("part")),
		kubetest.Unplaced("runs", 19*time.Second, 1, of("part"), bound),
		kubetest.Unplaced("more", 0, 1, of("enough")),
		kubetest.Unplaced("first", 0, 1, of("enough"), bound),
		kubetest.Unplaced("second", 0, 1, of("enough"), bound),
		kubetest.Unplaced("again", 5*time.Second, 1, of("new")),
		kubetest.Unplaced("before", 0, 1, of("new"), ended),
	}
	for _, p := range pods {
		p.UID = types.UID(p.Name)
	}
	tickets := request.Tickets(pods, nil)
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return queue.Compare(tickets(a), tickets(b)) })
	var got []string
	for _, p := range pods {
		got = append(got, p.Name)
	}
	// "before" has ended: it counts for itself, and its gang is as old as "again".
	// "first" and "second" are all that their gang needs, so "more" comes last.
	got = slices.DeleteFunc(got, func(name string) bool { return name == "first" || name == "second" })
	if want := []string{"runs", "rest", "early", "late", "alone", "before", "again", "more"}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
}

func TestPodsAreAsOldAsTheirJobs(t *testing.T) {
	job := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "bert", UID: "job", CreationTimestamp: metav1.Time{Time: kubetest.Started}}}
	owners := func(_ string, ref *metav1.OwnerReference) metav1.Object {
		if ref.Name != job.Name {
			return nil
		}
		return job
	}
	of := func(apiVersion, kind, name string, uid types.UID) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true)}}
		}
	}
	other := kubetest.Unplaced("other", 5*time.Second, 1)
	other.UID = "other"
	for _, tt := range []struct {
		name  string
		edit  func(*v1.Pod)
		known request.Owners
		first bool
	}{
		{"the pod of a PyTorchJob that moved comes before what is newer than the job", of("kubeflow.org/v1", "PyTorchJob", "bert", "job"), owners, true},
		{"and that of a TrainJob", of("trainer.kubeflow.org/v1alpha1", "TrainJob", "bert", "job"), owners, true},
		{"one whose job cannot be read is as old as it is", of("kubeflow.org/v1", "PyTorchJob", "gone", "job"), owners, false},
		{"nor does another job of the same name count", of("kubeflow.org/v1", "PyTorchJob", "bert", "new"), owners, false},
		{"a Job of Kubernetes makes its pods no older", of("batch/v1", "Job", "bert", "job"), owners, false},
		{"no owners are known", of("kubeflow.org/v1", "PyTorchJob", "bert", "job"), nil, false},
	} {
		moved := kubetest.Unplaced("moved", 9*time.Second, 1, tt.edit)
		moved.UID = "moved"
		tickets := request.Tickets([]*v1.Pod{moved, other}, tt.known)
		if got := queue.Compare(tickets(moved), tickets(other)) < 0; got != tt.first {
			t.Errorf("%s: it comes first: %v", tt.name, got)
		}
		if got := queue.Compare(request.TurnOf(moved, tt.known), request.TurnOf(other, tt.known)) < 0; got != tt.first {
			t.Errorf("%s: alone it comes first: %v", tt.name, got)
		}
	}
}

func TestFewestFirst(t *testing.T) {
	pods := []*v1.Pod{
		kubetest.Unplaced("two", 0, 2), kubetest.Unplaced("one", 0, 1), kubetest.Unplaced("also", 0, 1),
		kubetest.Pod("none", ""),
	}
	var got []string
	for _, p := range request.FewestFirst(pods) {
		got = append(got, p.Name)
	}
	if want := []string{"none", "one", "also", "two"}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
	if pods[0].Name != "two" {
		t.Error("the pods that were given have another order now")
	}
}
