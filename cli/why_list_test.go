package cli_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// pending is a pod that the scheduler has refused, changed by edits.
func pending(namespace, name string, gpus string, edits ...func(*v1.Pod)) *v1.Pod {
	p := pod(namespace, name, "", "nvidia.com/gpu")
	p.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute))
	p.Status = v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
	}}}
	p.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"] = resource.MustParse(gpus)
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func TestWhyListsAllThatWaits(t *testing.T) {
	s := newStage(t, node("n-1", "Tesla T4", 4, "", "nvidia.com/gpu", 4),
		pending("vision", "large-a", "9"), pending("vision", "large-b", "9"),
		pending("nlp", "picky", "1", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"gpu": "none"} }),
		pending("vision", "gated", "1", func(p *v1.Pod) {
			p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/wait"}}
			p.Status.Conditions[0].Reason, p.Status.Conditions[0].Message = v1.PodReasonSchedulingGated, "Scheduling is blocked due to non-empty scheduling gates"
		}))
	got := s.ok("why", "-A")
	want := []string{
		"CODE       WORKLOAD            PODS  FOR  WHY",
		"BERTH-C05  vision pod/large-a  1     60s  it asks for 9 nvidia.com/gpu, and no node that it may use has more than 4; ask for less",
		"BERTH-C05  vision pod/large-b  1     60s  it asks for 9 nvidia.com/gpu, and no node that it may use has more than 4; ask for less",
		"BERTH-B01  vision pod/gated    1     60s  blocked by scheduling gate example.com/wait",
		"BERTH-C33  nlp pod/picky       1     60s  no node has the label gpu=none",
	}
	lines := strings.Split(got, "\n")
	for i, line := range want {
		if i >= len(lines) || !strings.HasPrefix(lines[i], line) {
			t.Errorf("berth why -A:\n%s\nwant line %d to begin with %q", got, i+1, line)
		}
	}
	if got := s.ok("why", "-n", "nlp"); strings.Contains(got, "large") || !strings.Contains(got, "pod/picky") {
		t.Errorf("berth why -n nlp:\n%s", got)
	}
	if got := s.ok("why", "-n", "empty"); got != "nothing waits in namespace empty\n" {
		t.Errorf("berth why -n empty: %q", got)
	}
}

func TestWhyTellsOfOwnersWithoutPods(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "vision", Name: "it"}
	for _, tt := range []struct {
		name, arg string
		object    runtime.Object
		want      string
	}{
		{"0 replicas", "deployment/it", &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: new(int32)}}, "vision/it: Stopped\n\nWHY      spec.replicas is 0"},
		{"of any kind", "it", &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: new(int32)}}, "kubectl scale statefulset -n vision it --replicas=1 starts one"},
		{"a DaemonSet with 0 desired", "ds/it", &appsv1.DaemonSet{ObjectMeta: meta}, "vision/it: NoNodes\n\nWHY      its pods fit no node"},
		{"a CronJob that has not run", "cronjob/it", &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "0 3 * * *"}}, `its first run is still to come: its schedule is "0 3 * * *"`},
		{"a Job that is suspended", "job/it", &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Suspend: new(true)}}, "vision/it: Suspended\n\nWHY      spec.suspend is set"},
		{
			"a Job that failed, its pods gone", "job/it",
			&batchv1.Job{ObjectMeta: meta, Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: v1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "Job has reached the specified backoff limit"}}}},
			"vision/it: Failed\n\nWHY      the Job failed: BackoffLimitExceeded: Job has reached the specified backoff limit",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, node("n-1", "Tesla T4", 4, "", "nvidia.com/gpu", 4), tt.object)
			if got := s.ok("why", "-n", "vision", tt.arg); !strings.Contains(got, tt.want) {
				t.Errorf("berth why %s:\n%s\nwant %q", tt.arg, got, tt.want)
			}
		})
	}
}

// TestWhyForAUserNamesNothingOfOthers: what is printed for a user names no workload of another
// namespace, and for an administrator those that hold the GPUs.
func TestWhyForAUserNamesNothingOfOthers(t *testing.T) {
	holder := pod("secret", "plan-x", "n-1", "nvidia.com/gpu", "GPU-n-1-0")
	s := newStage(t, node("n-1", "Tesla T4", 1, "", "nvidia.com/gpu", 1), holder, pending("vision", "mine", "1"))
	for _, tt := range []struct {
		args  []string
		named bool
	}{{[]string{"--for", "user"}, false}, {[]string{"--for", "user", "-o", "json"}, false}, {[]string{"--for", "admin"}, true}, {nil, true}} {
		got := s.ok(append([]string{"why", "mine", "-n", "vision"}, tt.args...)...)
		if named := strings.Contains(got, "plan-x") || strings.Contains(got, "secret"); named != tt.named {
			t.Errorf("berth why %v:\n%s", tt.args, got)
		}
		if !tt.named && len(tt.args) == 2 && !strings.Contains(got, "n-1   another namespace  1 ") {
			t.Errorf("berth why %v does not say that another namespace holds the GPU:\n%s", tt.args, got)
		}
	}
}

// TestWhyOfANamespaceAlone: an account that may read one namespace gets the list of it, and
// each pod, in the words of the scheduler, without what it may not read.
func TestWhyOfANamespaceAlone(t *testing.T) {
	said := func(p *v1.Pod) {
		p.Status.Conditions[0].Message = "waits for 1 nvidia.com/gpu; of 4 that nodes offer it, no node has that many free. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod. [room]"
	}
	s := newStage(t, node("n-1", "Tesla T4", 4, "", "nvidia.com/gpu", 4), pending("vision", "mine", "1", said), pending("secret", "plan-x", "1"))
	for _, resource := range []string{"nodes", "pods"} {
		s.client.(*fake.Clientset).PrependReactor("list", resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
			return a.GetNamespace() == "", nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
		})
	}
	const sentence = "waits for 1 nvidia.com/gpu; of 4 that nodes offer it, no node has that many free"
	for _, args := range [][]string{{"why", "-n", "vision"}, {"why", "-n", "vision", "mine"}} {
		if got := s.ok(args...); !strings.Contains(got, sentence) || strings.Contains(got, "plan-x") || strings.Count(got, "waits for 1 nvidia.com/gpu") != 1 {
			t.Errorf("berth %v:\n%s", args, got)
		}
	}
	if _, stderr, code := s.run("berth", "why", "-A"); code != 1 || !strings.Contains(stderr, "request a role that allows it") {
		t.Errorf("berth why -A: exit code %d, %s", code, stderr)
	}
}
