package explain_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
)

// fleet is 1,000 nodes of eight GPUs, each held, with 18,000 more pods on them, and
// waiting pods of some distinct asks.
func fleet(waiting, asks int) ([]*v1.Node, []*v1.Pod) {
	var nodes []*v1.Node
	var pods []*v1.Pod
	for i := range 1000 {
		name := fmt.Sprintf("n-%04d", i)
		n := kubetest.Inventory(name, kubetest.A100s(name, 8), "cpu", 96, "memory", 1<<40, "pods", 110, api.ResourceGPU, 8)
		n.Labels[api.LabelProduct] = "NVIDIA-A100-SXM4-40GB"
		nodes = append(nodes, n)
		var ids []string
		for k := range 8 {
			ids = append(ids, fmt.Sprintf("GPU-%s-%d", name, k))
		}
		pods = append(pods, kubetest.Observed(kubetest.Pod("h-"+name, name, "cpu", 8, api.ResourceGPU, 8), api.ResourceGPU, ids...))
		for k := range 18 {
			pods = append(pods, kubetest.Pod(fmt.Sprintf("p-%s-%d", name, k), name, "cpu", 1))
		}
	}
	for i := range waiting {
		p := kubetest.Unplaced(fmt.Sprintf("w-%04d", i), time.Duration(i)*time.Second, 1+i%asks)
		p.CreationTimestamp = metav1.NewTime(kubetest.Started.Add(time.Duration(i) * time.Second))
		pods = append(pods, p)
	}
	return nodes, pods
}

// BenchmarkFind is what `berth why POD` computes after it has read the cluster.
func BenchmarkFind(b *testing.B) {
	nodes, pods := fleet(1000, 8)
	s := &explain.Situation{Pod: pods[len(pods)-1], Nodes: nodes, Pods: pods}
	for b.Loop() {
		f := s.Facts(nil, kubetest.Started)
		if _, err := explain.Find(s, kubetest.Started); err != nil || f.Verdict == nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSurvey is what `berth why -A` computes for 2,000 waiting pods of 16 asks.
func BenchmarkSurvey(b *testing.B) {
	nodes, pods := fleet(2000, 16)
	for b.Loop() {
		if list, err := (&explain.Survey{Nodes: nodes, Pods: pods}).Waiting(kubetest.Started); err != nil || len(list) != 2000 {
			b.Fatal(len(list), err)
		}
	}
}

// BenchmarkJudge is one ask on 1,000 nodes, the cluster being counted already.
func BenchmarkJudge(b *testing.B) {
	nodes, pods := fleet(1, 1)
	c, err := explain.NewCluster(nodes, pods)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if len(c.Judge(pods[len(pods)-1]).Causes) == 0 {
			b.Fatal("no cause")
		}
	}
}

// BenchmarkPlan is what `berth can` computes for a file of 100 objects of 8 asks, half of which find no place.
func BenchmarkPlan(b *testing.B) {
	nodes, pods := fleet(0, 8)
	pods = pods[:len(pods)-19*50] // the last 50 nodes are free
	for b.Loop() {
		p, err := explain.NewPlan(explain.Situation{Nodes: nodes, Pods: pods})
		if err != nil {
			b.Fatal(err)
		}
		seen := map[int]bool{}
		for i := range 100 {
			n := &explain.Newcomers{Pods: newcomers(fmt.Sprint("w", i), 1, 8)}
			if len(p.Take(n)) > 0 || seen[i%8] {
				continue
			}
			seen[i%8] = true
			s, err := p.Waiting(n, n.Pods)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := explain.Find(s, kubetest.Started); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkPlanDistinct is what `berth can` computes for objects that all ask for something else, and none of which finds a place, on a
// cluster whose GPUs are all held and in which 2,000 pods wait: what waits is read once, or again for each object.
func BenchmarkPlanDistinct(b *testing.B) {
	nodes, pods := fleet(2000, 8)
	const objects = 50
	for _, way := range []struct {
		name string
		read func(*explain.Situation) *explain.Situation
	}{
		{"once", func(s *explain.Situation) *explain.Situation { return s }},
		{"again", explain.Relined},
	} {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				p, err := explain.NewPlan(explain.Situation{Nodes: nodes, Pods: pods})
				if err != nil {
					b.Fatal(err)
				}
				for i := range objects {
					n := &explain.Newcomers{Pods: newcomers(fmt.Sprint("distinct-", i), 1, 1+i%8, func(p *v1.Pod) {
						p.Spec.Containers[0].Resources.Requests = kubetest.Amounts("cpu", 1+i, api.ResourceGPU, 1+i%8)
					})}
					if len(p.Take(n)) > 0 {
						b.Fatal("it found a place")
					}
					waiting, err := p.Waiting(n, n.Pods)
					if err != nil {
						b.Fatal(err)
					}
					s := way.read(waiting)
					s.Facts(nil, kubetest.Started)
					if _, err := explain.Find(s, kubetest.Started); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N*objects), "ms/object")
		})
	}
}
