package explain_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
)

// A Plan reads what waits once, and explains newcomers from that. The twin reads the nodes and pods again for each of them.
func TestAPlanExplainsAsIfItHadReadAllAgain(t *testing.T) {
	explained, every := 0, cmp.Exporter(func(reflect.Type) bool { return true })
	for seed := range int64(60) {
		rng := rand.New(rand.NewSource(seed))
		var nodes []*v1.Node
		for i := range 2 + rng.Intn(4) {
			n := a100s(fmt.Sprint("n", i), 1+rng.Intn(4))
			n.Labels["kind"] = fmt.Sprint(rng.Intn(2))
			nodes = append(nodes, n)
		}
		vary := func(p *v1.Pod) {
			switch rng.Intn(8) {
			case 0:
				p.Annotations[api.AnnotationGang], p.Annotations[api.AnnotationGangMinCount] = fmt.Sprint("g", rng.Intn(2)), "2"
			case 1:
				p.Spec.NodeSelector = map[string]string{"kind": fmt.Sprint(rng.Intn(3))}
			case 2:
				p.Spec.Priority = new(int32(rng.Intn(3)))
			case 3:
				p.Spec.SchedulerName = fmt.Sprint("scheduler-", rng.Intn(2))
			case 4:
				p.CreationTimestamp = metav1.NewTime(kubetest.Started.Add(time.Duration(rng.Intn(9)) * time.Minute))
			}
		}
		var pods []*v1.Pod
		for i := range rng.Intn(40) {
			p := kubetest.Unplaced(fmt.Sprint("w", i), time.Duration(rng.Intn(9))*time.Minute, 1+rng.Intn(4))
			if vary(p); rng.Intn(6) == 0 {
				p.Status.NominatedNodeName = nodes[rng.Intn(len(nodes))].Name
			}
			pods = append(pods, p)
		}
		plan, err := explain.NewPlan(explain.Situation{Nodes: nodes, Pods: pods})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			n := &explain.Newcomers{Pods: newcomers(fmt.Sprint(rng.Intn(30), "-", i), 1+rng.Intn(3), 1+rng.Intn(3), vary)}
			if rng.Intn(3) == 0 {
				n.Need = len(n.Pods)
			}
			if rng.Intn(4) == 0 && len(pods) > 0 {
				n.Pods[0].Name = pods[rng.Intn(len(pods))].Name // another of that name stands in line
			}
			left := n.Pods[len(plan.Take(n)):]
			if len(left) == 0 {
				continue
			}
			s, err := plan.Waiting(n, left)
			if err != nil {
				t.Fatal(err)
			}
			twin := explain.Reread(s)
			now := kubetest.Started.Add(time.Hour)
			if diff := cmp.Diff(twin.Facts(nil, now), s.Facts(nil, now), every); diff != "" {
				t.Fatalf("seed %d, newcomer %d: facts (-twin +plan):\n%s", seed, i, diff)
			}
			want, err := explain.Find(twin, now)
			if err != nil {
				t.Fatal(err)
			}
			got, err := explain.Find(s, now)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, every); diff != "" {
				t.Fatalf("seed %d, newcomer %d: findings (-twin +plan):\n%s", seed, i, diff)
			}
			explained++
		}
	}
	if explained < 300 {
		t.Errorf("%d newcomers were explained, too few to see a difference", explained)
	}
}
