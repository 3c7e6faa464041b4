package queue_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/controller/queue"
)

// BenchmarkPass is a pass of which one pod has changed, with 1,000 queues, 5,000 pods that run and
// 10,000 that wait. Two statuses are written. It is what a second or more of
// changes in a busy cluster costs.
func BenchmarkPass(b *testing.B) {
	s, list := thousand()
	c, now := s.count, epoch
	for k := range 15_000 {
		node := ""
		if k < 5000 {
			node = "node-1"
		}
		s.pod(fmt.Sprintf("q%d", k%999), fmt.Sprintf("p%d", k), node)
	}
	c.Pass(b.Context(), list, now)
	change := s.pods["p1"].DeepCopy()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		change.Labels = map[string]string{"at": metav1.NewTime(now).String()}
		c.Set("p-p1", change)
		c.Pass(b.Context(), list, now)
	}
}

// thousand is a cluster of 1,000 queues.
func thousand() (*stage, []v1alpha1.Queue) {
	all := []*v1alpha1.Queue{queueOf("org", "", "20000")}
	for k := range 999 {
		all = append(all, queueOf(fmt.Sprintf("q%d", k), "org", "5"))
	}
	s := newStage(&testing.T{}, all...)
	var list []v1alpha1.Queue
	for _, q := range all {
		list = append(list, *q)
	}
	s.count = queue.NewCount(s.client, s, queue.NewRoom(), s.clock)
	return s, list
}

// BenchmarkBusy is a second in which 130 pods, each of another queue, get a node: its pass, and how many statuses
// are written. Run it with -benchtime 60x.
func BenchmarkBusy(b *testing.B) {
	const a = 130 // pods a second
	s, list := thousand()
	now, came := epoch, 0
	s.count.Pass(b.Context(), list, now)
	s.writes = 0
	for b.Loop() {
		now = now.Add(time.Second)
		for range a {
			s.pod(fmt.Sprintf("q%d", came%999), fmt.Sprintf("p%d", came), "node-1")
			came++
		}
		s.count.Pass(b.Context(), list, now)
	}
	b.ReportMetric(float64(s.writes)/float64(b.N), "writes/s")
}
