package explain_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// newcomers are count pods that do not exist yet and ask for so many GPUs, changed by edits.
func newcomers(name string, count, gpus int, edits ...func(*v1.Pod)) []*v1.Pod {
	var out []*v1.Pod
	for i := range count {
		p := kubetest.Pod(fmt.Sprintf("%s-%d", name, i), "", api.ResourceGPU, gpus)
		p.UID, p.Status = types.UID("can/"+p.Name), v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable,
		}}}
		for _, edit := range edits {
			edit(p)
		}
		out = append(out, p)
	}
	return out
}

// places are where pods would be: "a:0,1 b:0".
func places(taken []*explain.Taken) string {
	var out []string
	for _, one := range taken {
		out = append(out, one.Node+":"+strings.Trim(strings.ReplaceAll(fmt.Sprint(one.GPUs), " ", ","), "[]"))
	}
	return strings.Join(out, " ")
}

func a100s(name string, count int) *v1.Node {
	return kubetest.Inventory(name, kubetest.A100s(name, count), "cpu", 64, "pods", 100, api.ResourceGPU, count)
}

func TestAPlanGivesPlacesInOrder(t *testing.T) {
	labeled := func(n *v1.Node, key, value string) *v1.Node {
		n.Labels[key] = value
		return n
	}
	nodes := []*v1.Node{labeled(a100s("a", 2), api.LabelRack, "1"), labeled(a100s("b", 4), api.LabelRack, "2")}
	apart := func(p *v1.Pod) {
		p.Labels["app"] = "x"
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}, TopologyKey: v1.LabelHostname,
		}}}}
	}
	for _, n := range nodes {
		n.Labels[v1.LabelHostname] = n.Name
	}
	within := func(level string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Annotations[api.AnnotationGang], p.Annotations[api.AnnotationGangMinCount], p.Annotations[api.AnnotationTopology] = "g", "2", level
		}
	}
	waiting := kubetest.Unplaced("waiting", 0, 4)
	for _, tt := range []struct {
		name string
		pods []*v1.Pod // of the cluster
		ask  []*explain.Newcomers
		want []string
	}{
		{"one by one, until one finds none", nil, []*explain.Newcomers{{Pods: newcomers("x", 3, 2)}, {Pods: newcomers("y", 1, 1)}}, []string{"a:0,1 b:0,1 b:2,3", ""}},
		{"what is held is not given", []*v1.Pod{kubetest.Observed(kubetest.Pod("held", "b", api.ResourceGPU, 1), api.ResourceGPU, "GPU-b-2")}, []*explain.Newcomers{{Pods: newcomers("x", 1, 3)}}, []string{"b:0,1,3"}},
		{"a gang gets all or nothing", nil, []*explain.Newcomers{{Pods: newcomers("x", 4, 2), Need: 4}, {Pods: newcomers("y", 1, 4)}}, []string{"", "b:0,1,2,3"}},
		{"a gang begins with those it needs", nil, []*explain.Newcomers{{Pods: newcomers("x", 4, 2), Need: 2}}, []string{"a:0,1 b:0,1 b:2,3"}},
		{"a gang within one rack", nil, []*explain.Newcomers{{Pods: newcomers("x", 2, 2, within("rack")), Need: 2}}, []string{"b:0,1 b:2,3"}},
		{"a gang that no rack can hold", nil, []*explain.Newcomers{{Pods: newcomers("x", 3, 2, within("rack")), Need: 3}}, []string{""}},
		{"pods keep apart", nil, []*explain.Newcomers{{Pods: newcomers("x", 3, 1, apart)}}, []string{"a:0 b:0"}},
		{"one that waits takes its place first", []*v1.Pod{waiting}, []*explain.Newcomers{{Pods: newcomers("x", 2, 2)}}, []string{"a:0,1"}},
		{"a pod with a scheduling gate takes none", nil, []*explain.Newcomers{{Pods: newcomers("x", 1, 1, func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} })}}, []string{""}},
		{"a claim that is missing keeps pods from nodes", nil, []*explain.Newcomers{{Pods: newcomers("x", 1, 1), NoClaims: []string{"ResourceClaim r"}}}, []string{""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := explain.NewPlan(explain.Situation{Nodes: nodes, Pods: tt.pods})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range tt.ask {
				got = append(got, places(p.Take(n)))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What got a place counts for pods after it, also where these are explained.
func TestWhatWaitsIsExplainedBesideWhatGotAPlace(t *testing.T) {
	p, err := explain.NewPlan(explain.Situation{Nodes: []*v1.Node{a100s("a", 4)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := places(p.Take(&explain.Newcomers{Pods: newcomers("x", 1, 3)})); got != "a:0,1,2" {
		t.Fatalf("places %q", got)
	}
	n := &explain.Newcomers{Pods: newcomers("y", 1, 2)}
	if got := p.Take(n); len(got) > 0 {
		t.Fatalf("places %q", places(got))
	}
	for range 2 { // the second on the same counts
		s, err := p.Waiting(n, n.Pods)
		if err != nil {
			t.Fatal(err)
		}
		found, err := explain.Find(s, kubetest.Started)
		if err != nil {
			t.Fatal(err)
		}
		want := "1 of 4 GPUs free, too little for 2 nvidia.com/gpu"
		if len(found.Rejections) != 1 || found.Rejections[0].Why != want {
			t.Errorf("%+v, want %q", found.Rejections, want)
		}
		if len(found.Reliefs) == 0 || found.Reliefs[0].Change != "ask for 1 nvidia.com/gpu instead of 2" {
			t.Errorf("reliefs %+v", found.Reliefs)
		}
	}
}

// Whatever is asked for, no GPU is given twice, and a pod that gets no place fits nowhere beside those that got one.
func TestPlansGiveNothingTwice(t *testing.T) {
	for seed := range int64(40) {
		rng := rand.New(rand.NewSource(seed))
		var nodes []*v1.Node
		for i := range 1 + rng.Intn(4) {
			nodes = append(nodes, a100s(string(rune('a'+i)), 1+rng.Intn(8)))
		}
		p, err := explain.NewPlan(explain.Situation{Nodes: nodes})
		if err != nil {
			t.Fatal(err)
		}
		var pods []*v1.Pod
		held := map[string]bool{}
		for i := range 12 {
			n := &explain.Newcomers{Pods: newcomers(fmt.Sprint("w", i), 1+rng.Intn(3), 1+rng.Intn(4))}
			if rng.Intn(2) == 0 {
				n.Need = 1 + rng.Intn(len(n.Pods))
			}
			taken := p.Take(n)
			for _, one := range taken {
				devices, err := commit.Committed(one.Pod)
				if err != nil || int64(len(devices["c"])) != request.Of(one.Pod)[api.ResourceGPU] || len(one.GPUs) != len(devices["c"]) {
					t.Fatalf("seed %d: devices %v, GPUs %v, %v", seed, devices, one.GPUs, err)
				}
				for _, d := range devices["c"] {
					if held[d.UUID] || !strings.HasPrefix(d.UUID, "GPU-"+one.Node) {
						t.Fatalf("seed %d: %s on %s is given twice, or of another node", seed, d.UUID, one.Node)
					}
					held[d.UUID] = true
				}
				pods = append(pods, one.Pod)
			}
			fits := func(p *v1.Pod) bool { _, ok := trial(t, nodes, pods...).Fits(p); return ok }
			if len(taken) < len(n.Pods) && (n.Need == 0 || len(taken) > 0) && slices.ContainsFunc(n.Pods[len(taken):], fits) {
				t.Fatalf("seed %d: a pod of %s got no place, and fits", seed, n.Pods[0].Name)
			}
		}
	}
}

// TestNewcomersThatWaitAreExpectedOneAfterTheOther: the node is held for an hour from noon on, as its holder declares.
func TestNewcomersThatWaitAreExpectedOneAfterTheOther(t *testing.T) {
	holder := kubetest.Observed(kubetest.Pod("holder", "a", api.ResourceGPU, 2), api.ResourceGPU, "GPU-a-0", "GPU-a-1")
	declares(time.Hour)(holder)
	now := kubetest.Started.Add(10 * time.Minute)
	created := func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(now) }
	plan, err := explain.NewPlan(explain.Situation{Nodes: []*v1.Node{a100s("a", 2)}, Pods: []*v1.Pod{
		holder, kubetest.Unplaced("before", time.Minute, 2, declares(time.Hour)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	together := newcomers("together", 2, 1, created, inGang("g", 2))
	alone := newcomers("alone", 1, 2, created)
	for _, n := range []*explain.Newcomers{{Pods: together, Need: 2}, {Pods: alone}} {
		if taken := plan.Take(n); len(taken) > 0 {
			t.Fatalf("%s gets a place", n.Pods[0].Name)
		}
		plan.Leave(n.Pods)
	}
	starts, err := plan.Starts(queue.NewRunTimes(), nil, explain.KnownEnds{}, now)
	if err != nil {
		t.Fatal(err)
	}
	for of, want := range map[*v1.Pod]time.Duration{together[0]: 2 * time.Hour, together[1]: 2 * time.Hour, alone[0]: 3 * time.Hour} {
		if got := starts[queues.Workload(of)].At.Sub(kubetest.Started); got != want {
			t.Errorf("%s starts %v after noon, want %v", of.Name, got, want)
		}
	}
	if starts, err := plan.Starts(nil, nil, explain.KnownEnds{}, now); err != nil || len(starts) > 0 {
		t.Errorf("without run times: %v, %v", starts, err)
	}
}
