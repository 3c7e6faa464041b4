package kube_test

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube"
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
		unplaced("alone", 2*time.Second, 1),
		unplaced("late", 9*time.Second, 1, of("whole")),
		unplaced("early", time.Second, 1, of("whole")),
		unplaced("rest", 20*time.Second, 1, of("part")),
		unplaced("runs", 19*time.Second, 1, of("part"), bound),
		unplaced("again", 5*time.Second, 1, of("new")),
		unplaced("before", 0, 1, of("new"), ended),
	}
	for _, p := range pods {
		p.UID = types.UID(p.Name)
	}
	tickets := kube.Tickets(pods)
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return queue.Compare(tickets(a), tickets(b)) })
	var got []string
	for _, p := range pods {
		got = append(got, p.Name)
	}
	// "before" has ended: it counts for itself, and its gang is as old as "again".
	if want := []string{"runs", "rest", "early", "late", "alone", "before", "again"}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
}
