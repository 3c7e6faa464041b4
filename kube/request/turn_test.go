package request_test

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
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
	tickets := request.Tickets(pods)
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
