package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestPeersFailingCases rebuilds what users of other GPU schedulers have
// reported, on a real control plane with Berth's scheduler. Each case names its
// report; the words are ours. Two reports are unit tests elsewhere: the storm in
// scheduler/devices has their races by the thousand.
//
// rows: GS-02
func TestPeersFailingCases(t *testing.T) {
	t.Parallel()
	takeTurn(t)
	dir := filepath.Join(t.TempDir(), "d")
	purgeAtEnd(t, dir)
	_, client := startPlane(t, dir, "--fleet", "fleets/peers.yaml", "--scheduler", "berth")
	p := peers{dir: dir, client: client}
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"16 half GPUs at once are two on each of 8 cards", p.halves},
		{"replicas made at once hold what their annotation says", p.concurrent},
		{"the container gets the 8 cards that were chosen", p.eight},
		{"a pod that does not end keeps its card and stops nobody", p.terminating},
		{"a pod whose binding is always refused starves nobody", p.refused},
		{"of two gangs that each fit alone one runs, and then the other", p.gangs},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer p.clear(t)
			c.run(t)
		})
	}
}

// peers is the cluster of the cases.
type peers struct {
	dir    string
	client kubernetes.Interface
}

// halves is KAI-Scheduler issue 2153, "GPU fractions: binder over-packs a card
// and livelocks on reservation when many pods are submitted at once": 16 pods of
// half a GPU on a node of 8 went up to four to a card, while made one by one
// they went two to each.
func (p *peers) halves(t *testing.T) {
	j := newJudge(t, p.client, nil)
	p.create(t, 16, func(i int) *v1.Pod {
		pod := on("whole-1", asking(fmt.Sprint("half-", i), "nvidia.com/gpu-memory", 20))
		if i%2 == 0 { // as the report spells it
			pod.Annotations = map[string]string{"gpu-fraction": "0.5"}
			pod.Spec.Containers[0].Resources.Limits = nil
		}
		return pod
	})
	await(t, "16 pods run", func() bool { return j.count(running) == 16 })
	perGPU := map[string]int{}
	for _, pod := range list(t, p.client) {
		got, err := commitment(&pod)
		if err != nil || len(got) != 1 {
			t.Fatalf("pod %s: %v, %v", pod.Name, got, err)
		}
		perGPU[got[0].UUID]++
	}
	for uuid, n := range perGPU {
		if n != 2 || len(perGPU) != 8 {
			t.Errorf("%s has %d pods; %d GPUs are used: want 2 on each of 8", uuid, n, len(perGPU))
		}
	}
}

// concurrent is HAMi issue 2232: where pods are made concurrently, the card in a
// pod's annotation and the card that it uses differ, so that cards are given
// twice and others idle (filter calls chose from the same state, as the fix in
// its pull request 2470 says). It is also volcano issue 5532, "deviceshare/vGPU:
// non-transactional allocation annotations can drift from the bound node and
// corrupt device-plugin allocation candidates": the judge reads node and devices
// in every single event of a pod.
func (p *peers) concurrent(t *testing.T) {
	j := newJudge(t, p.client, nil)
	p.create(t, 16, func(i int) *v1.Pod {
		pod := asking(fmt.Sprint("pod-", i), "nvidia.com/gpu-memory", 20)
		if i/2%4 == 0 {
			pod = asking(pod.Name, "nvidia.com/gpu", 1)
		}
		pod.Spec.SchedulerName = []string{"default-scheduler", "berth-scheduler"}[i%2]
		return on(fmt.Sprint("whole-", 1+i%2), pod)
	})
	await(t, "16 pods run, 8 on each node", func() bool { return j.count(running) == 16 })
	for _, pod := range list(t, p.client) {
		got, err := commitment(&pod)
		if err != nil || len(got) != 1 {
			t.Fatalf("pod %s: %v, %v", pod.Name, got, err)
		}
		if seen := p.inside(t, pod.Name); !slices.Equal(seen, []string{got[0].UUID}) {
			t.Errorf("pod %s: %s is committed, and its container sees %v", pod.Name, got[0].UUID, seen)
		}
	}
}

// eight is HAMi issue 1741, "Device allocation mismatch: scheduler assigns 8
// GPUs but Allocate only receives 5 unique devices": on cards that are offered
// as several devices each, a kubelet's own pick had one card four times. Some
// shares are held before, so that a kubelet's pick would be another here, too.
func (p *peers) eight(t *testing.T) {
	j := newJudge(t, p.client, nil)
	p.create(t, 3, func(i int) *v1.Pod { return on("shared-1", asking(fmt.Sprint("before-", i), "nvidia.com/gpu", 1)) })
	await(t, "3 pods run", func() bool { return j.count(running) == 3 })
	p.create(t, 1, func(int) *v1.Pod { return on("shared-1", asking("eight", "nvidia.com/gpu", 8)) })
	await(t, "the fourth runs", func() bool { return j.count(running) == 4 })
	pod, err := p.client.CoreV1().Pods("default").Get(t.Context(), "eight", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := commitment(pod)
	if err != nil {
		t.Fatal(err)
	}
	var cards []string
	for _, d := range got {
		cards = append(cards, d.UUID)
	}
	slices.Sort(cards)
	if n := len(slices.Compact(slices.Clone(cards))); n != 8 {
		t.Errorf("eight shares are of %d cards, and eight cards have one free: %v", n, cards)
	}
	if seen := p.inside(t, "eight"); !slices.Equal(seen, cards) {
		t.Errorf("committed are %v, and the container sees %v", cards, seen)
	}
}

// terminating is KAI-Scheduler issue 1492, "Scheduler should detect repeatedly
// failed scheduling decisions and try alternatives (stale pipelining loop)": the
// GPU of a pod that stays in Terminating was counted as soon free, and pods
// waited for it for ever while other nodes had room.
func (p *peers) terminating(t *testing.T) {
	j := newJudge(t, p.client, nil)
	p.create(t, 8, func(i int) *v1.Pod { return on("whole-1", asking(fmt.Sprint("old-", i), "nvidia.com/gpu-memory", 30)) })
	await(t, "8 pods run", func() bool { return j.count(running) == 8 })
	p.berth(t, "sim", "break", "kubelet", "whole-1") // it hears of no deletion
	defer p.berth(t, "sim", "heal", "kubelet", "whole-1")
	await(t, "the kubelet is silent", func() bool { return !p.ready(t, "whole-1") })
	if err := p.client.CoreV1().Pods("default").Delete(t.Context(), "old-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.create(t, 1, func(int) *v1.Pod { return asking("new", "nvidia.com/gpu-memory", 30) })
	await(t, "a pod that fits elsewhere runs there", func() bool {
		return j.count(func(pod *v1.Pod) bool { return pod.Name == "new" && running(pod) && pod.Spec.NodeName == "whole-2" }) == 1
	})
	p.create(t, 1, func(int) *v1.Pod { return on("whole-1", asking("bound-there", "nvidia.com/gpu-memory", 30)) })
	await(t, "one that must go there is told why it waits", func() bool {
		return j.count(func(pod *v1.Pod) bool { return pod.Name == "bound-there" && unschedulable(pod) != "" }) == 1
	})
	p.berth(t, "sim", "heal", "kubelet", "whole-1")
	await(t, "it runs when the other one is gone", func() bool {
		return j.count(func(pod *v1.Pod) bool { return pod.Name == "bound-there" && running(pod) }) == 1
	})
}

// refused is KAI-Scheduler issue 2074, "Pods with permanently-rejected binds win
// GPU allocation every cycle, starving other schedulable pods indefinitely": an
// admission policy refuses one pod's every binding, and others that want the
// same GPUs come after it.
func (p *peers) refused(t *testing.T) {
	j := newJudge(t, p.client, nil)
	defer p.refuse(t, "doomed")()
	high, err := p.client.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000, PreemptionPolicy: new(v1.PreemptNever),
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	doomed := on("whole-1", asking("doomed", "nvidia.com/gpu", 8))
	doomed.Spec.PriorityClassName = high.Name
	await(t, "the API server takes pods of the class", func() bool {
		_, err := p.client.CoreV1().Pods("default").Create(t.Context(), doomed, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil
	})
	p.create(t, 1, func(int) *v1.Pod { return doomed })
	await(t, "its binding is refused", func() bool {
		events, err := p.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=doomed"})
		return err == nil && slices.ContainsFunc(events.Items, func(e v1.Event) bool { return strings.Contains(e.Message, "nobody binds doomed") })
	})
	p.create(t, 8, func(i int) *v1.Pod { return on("whole-1", asking(fmt.Sprint("other-", i), "nvidia.com/gpu", 1)) })
	await(t, "all others run", func() bool { return j.count(running) == 8 })
}

// gangs is volcano issue 1387, "enable-gang-scheduling not work", which is also
// Kubeflow trainer issue 1264: two equal jobs are made at once where there is
// room for one, each gets a part of the GPUs, and both wait for ever. (There a
// quota was what they shared; pods count against a quota when they are made,
// whoever schedules them. Here it is the GPUs.)
func (p *peers) gangs(t *testing.T) {
	j := newJudge(t, p.client, nil)
	p.create(t, 24, func(i int) *v1.Pod {
		pod := asking(fmt.Sprint("worker-", i), "nvidia.com/gpu", 1)
		pod.Labels = map[string]string{"gang": []string{"a", "b"}[i%2]}
		pod.Annotations = map[string]string{"berth.dev/gang": pod.Labels["gang"], "berth.dev/gang-min-count": "12"}
		pod.Spec.NodeSelector = map[string]string{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}
		return pod
	})
	of := func(gang string) func(*v1.Pod) bool {
		return func(pod *v1.Pod) bool { return pod.Labels["gang"] == gang && pod.Spec.NodeName != "" }
	}
	await(t, "one of them runs whole", func() bool { return j.count(running) == 12 })
	first, second := "a", "b"
	if j.count(of(second)) > 0 {
		first, second = second, first
	}
	if n, m := j.count(of(first)), j.count(of(second)); n != 12 || m != 0 {
		t.Fatalf("gang %s has %d of 12 pods bound, and gang %s has %d", first, n, second, m)
	}
	err := p.client.CoreV1().Pods("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "gang=" + first})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "then the other does", func() bool { return j.count(of(second)) == 12 && j.count(running) == 12 })
}

// refuse denies every binding of a pod, and returns when that is in force. What
// it returns ends it.
func (p *peers) refuse(t *testing.T, name string) (end func()) {
	t.Helper()
	policies, bindings := p.client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), p.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_, err := policies.Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/binding"}},
				},
			}}},
			Validations: []admissionv1.Validation{{Expression: "request.name != '" + name + "'", Message: "nobody binds " + name}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bindings.Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "refuse", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	probe := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: v1.ObjectReference{Kind: "Node", Name: "whole-1"}}
	await(t, "the policy is in force", func() bool {
		err := p.client.CoreV1().Pods("default").Bind(t.Context(), probe, metav1.CreateOptions{})
		return err != nil && strings.Contains(err.Error(), "nobody binds")
	})
	return func() {
		_ = bindings.Delete(t.Context(), "refuse", metav1.DeleteOptions{}) // the cluster goes soon
		_ = policies.Delete(t.Context(), "refuse", metav1.DeleteOptions{})
	}
}

// create makes n pods at once.
func (p *peers) create(t *testing.T, n int, pod func(i int) *v1.Pod) {
	t.Helper()
	var makers sync.WaitGroup
	for i := range n {
		makers.Go(func() {
			if _, err := p.client.CoreV1().Pods("default").Create(t.Context(), pod(i), metav1.CreateOptions{}); err != nil {
				t.Errorf("create a pod: %v", err)
			}
		})
	}
	makers.Wait()
}

// ready reports whether a node is.
func (p *peers) ready(t *testing.T, node string) bool {
	t.Helper()
	n, err := p.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	})
}

// clear removes all pods and waits until they are gone.
func (p *peers) clear(t *testing.T) {
	now := int64(0)
	pods := p.client.CoreV1().Pods("default")
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	_ = p.client.SchedulingV1().PriorityClasses().Delete(t.Context(), "high", metav1.DeleteOptions{})
	await(t, "all pods are gone", func() bool { return len(list(t, p.client)) == 0 })
}

// inside is what nvidia-smi in a pod's container says it sees, sorted.
func (p *peers) inside(t *testing.T, name string) []string {
	t.Helper()
	out, err := exec.Command(program("kubectl"), "--kubeconfig", filepath.Join(p.dir, "kubeconfig"), "exec", name, "--", "nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader").Output()
	if err != nil {
		t.Fatalf("nvidia-smi in pod %s: %v", name, err)
	}
	return slices.Sorted(slices.Values(strings.Fields(string(out))))
}

// berth runs a command of berth on the cluster.
func (p *peers) berth(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(program("berth"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(p.dir, "kubeconfig"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("berth %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// asking is a pod whose container asks for n of a resource, and ends at once
// when it is told to.
func asking(name, what string, n int64) *v1.Pod {
	pod := gpuPod(name, 0)
	pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceName(what): *resource.NewQuantity(n, resource.DecimalSI)}
	return pod
}

// on selects the node of a pod.
func on(node string, pod *v1.Pod) *v1.Pod {
	pod.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": node}
	return pod
}

// unschedulable is the scheduler's message on a pod that waits, or "".
func unschedulable(p *v1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}
