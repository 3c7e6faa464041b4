package cli_test

import (
	"context"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/api"
	"berth.dev/berth/test/golden"
)

// edit changes a pod of a stage.
func (s *stage) edit(namespace, name string, change func(*v1.Pod)) {
	s.t.Helper()
	p, err := s.client.CoreV1().Pods(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	change(p)
	if _, err := s.client.CoreV1().Pods(namespace).Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// whenStage is a cluster where a Job ends in an hour and a notebook is to be
// stopped in a quarter of one, and vision/wants waits for three GPUs.
func whenStage(t *testing.T) *stage {
	t.Helper()
	s := notebooks(t, append(books(), book("vision", "wants", asks(gpuResource, "3"), set("new", "metadata", "uid"),
		told("Waiting", "the only one", "Queued", "waits for 3 nvidia.com/gpu, the only one")),
		book("nlp", "lazy", asks(gpuResource, "1"), told("Bound", "gpu-a100-1", "Ready", "on node gpu-a100-1"),
			annotated(api.AnnotationLastActivity, at(2*time.Hour)), annotated(api.AnnotationNotebookStopsAt, at(-15*time.Minute))))...)
	s.edit("nlp", "tokenizer-experiment", func(p *v1.Pod) { p.Labels[api.LabelNotebook] = "lazy" })
	// It has run for three hours.
	resnet := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "resnet"}}
	resnet.Spec.ActiveDeadlineSeconds, resnet.Status.StartTime = new(int64(4*60*60)), &metav1.Time{Time: now.Add(-3 * time.Hour)}
	if _, err := s.client.BatchV1().Jobs("vision").Create(context.Background(), resnet, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// rows: NB-39 NB-66 JH-36

// TestNotebookWhyTellsWhen: when there is room, and what that rests on.
func TestNotebookWhyTellsWhen(t *testing.T) {
	s := whenStage(t)
	golden.File(t, "notebook_why_when.txt", s.ok("notebook", "why", "-n", "vision", "wants"))
	got := s.ok("notebook", "why", "-n", "vision", "wants", "-o", "jsonpath={.items[0].when.atTheLatest} {.items[0].when.perhaps}")
	if want := now.Add(time.Hour+30*time.Second).UTC().Format(time.RFC3339) + " " + now.Add(15*time.Minute+30*time.Second).UTC().Format(time.RFC3339); got != want {
		t.Errorf("the times are %q, want %q", got, want)
	}
}

// TestWhyTellsWhen: `berth why` tells it of any pod that waits for GPUs.
func TestWhyTellsWhen(t *testing.T) {
	s := whenStage(t)
	three := pod("vision", "more", "", gpuResource, "a", "b", "c")
	three.Status = v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable"}}}
	if _, err := s.client.CoreV1().Pods("vision").Create(context.Background(), three, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const want = "\nWHEN     room at the latest at 13:01 UTC, when vision/resnet reaches its activeDeadlineSeconds; perhaps at 12:16 UTC, if nobody uses nlp/lazy until then: it is stopped for that\n"
	if got := s.ok("why", "-n", "vision", "more"); !strings.Contains(got, want) {
		t.Errorf("it prints\n%s\nwithout\n%s", got, want)
	}
	if got := s.ok("why", "-n", "vision", "resnet-0"); strings.Contains(got, "WHEN") {
		t.Errorf("of one that runs it prints\n%s", got)
	}
}

// TestWhenIsUnknownToWhoMayNotSee: who may not list nodes is told no time, and why.
func TestWhenIsUnknownToWhoMayNotSee(t *testing.T) {
	s := whenStage(t)
	s.client.(*fake.Clientset).PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
	})
	if got := s.ok("notebook", "why", "-n", "vision", "wants"); !strings.Contains(got, "\nWHEN     unknown: you may not see who holds these GPUs\n") {
		t.Errorf("it prints\n%s", got)
	}
}
