package queues_test

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// train is a suspended Job of 4 pods with 2 GPUs each that waits for its turn.
func train(how ...func(*batchv1.Job)) *batchv1.Job {
	pod := kubetest.Pod("", "", "nvidia.com/gpu", 2)
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "train", UID: "uid", CreationTimestamp: metav1.NewTime(time.Unix(100, 0)), Annotations: map[string]string{api.AnnotationResume: api.ResumeInTurn}},
		Spec: batchv1.JobSpec{
			Suspend: new(true), Parallelism: new(int32(4)),
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: pod.Spec},
		},
	}
	for _, do := range how {
		do(j)
	}
	return j
}

func with(name, value string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Annotations[name] = value }
}

func TestWhichJobsWaitForTheirTurn(t *testing.T) {
	for name, c := range map[string]struct {
		j    *batchv1.Job
		want bool
		why  string // a part
	}{
		"one that says so":              {train(), true, ""},
		"not one that says nothing":     {train(func(j *batchv1.Job) { j.Annotations = nil }), false, ""},
		"not one that runs":             {train(func(j *batchv1.Job) { j.Spec.Suspend = nil }), false, ""},
		"not with another value":        {train(with(api.AnnotationResume, "now")), false, "only in-turn is known"},
		"not one of Kueue's":            {train(func(j *batchv1.Job) { j.Labels = map[string]string{api.LabelKueueQueue: "q"} }), false, "Kueue resumes it"},
		"not one that was parked later": {train(with(api.AnnotationResumed, "2026-11-24T06:00:00Z")), false, "without the annotation berth.dev/resumed"},
		"not one of another controller": {train(func(j *batchv1.Job) { j.Spec.ManagedBy = new("x/y") }), false, "spec.managedBy is x/y"},
		"one of Kubernetes' controller": {train(func(j *batchv1.Job) { j.Spec.ManagedBy = new(batchv1.JobControllerName) }), true, ""},
		"not one of no pods":            {train(func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(0)) }), false, "spec.parallelism is 0"},
		"not one that has failed": {train(func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: v1.ConditionTrue}}
		}), false, ""},
		"not one that is deleted": {train(func(j *batchv1.Job) { j.DeletionTimestamp = new(metav1.Now()) }), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if ok, why := queues.Of(c.j, nil).InTurn(); ok != c.want || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
				t.Errorf("InTurn() = %v, %q; want %v, %q", ok, why, c.want, c.why)
			}
		})
	}
}

func TestWhatAJobAsksFor(t *testing.T) {
	for name, c := range map[string]struct {
		j           *batchv1.Job
		count, need int
		resizes     bool
		problem     string // a part
	}{
		"all its pods":                                {train(), 4, 4, false, ""},
		"no more pods than it needs":                  {train(func(j *batchv1.Job) { j.Spec.Completions, j.Status.Succeeded = new(int32(5)), 3 }), 2, 2, false, ""},
		"fewer, as Kueue's annotation says":           {train(with(api.AnnotationKueueMinParallelism, "3")), 4, 3, true, ""},
		"fewer, as Berth's says":                      {train(with(api.AnnotationMinParallelism, "1"), with(api.AnnotationKueueMinParallelism, "3")), 4, 1, true, ""},
		"all where the least is more":                 {train(with(api.AnnotationMinParallelism, "9")), 4, 4, true, ""},
		"all where the least is nonsense":             {train(with(api.AnnotationMinParallelism, "two")), 4, 4, false, `"two", which is not a valid number of pods`},
		"all where the least is nothing":              {train(with(api.AnnotationMinParallelism, "0")), 4, 4, false, `"0"`},
		"as many as before it was started with fewer": {train(with(api.AnnotationParallelism, "6")), 6, 6, false, ""},
		"the least of its gang": {train(func(j *batchv1.Job) {
			j.Spec.Template.Annotations[api.AnnotationGang], j.Spec.Template.Annotations[api.AnnotationGangMinCount] = "g", "2"
		}), 4, 2, false, ""},
		"no fewer than its gang needs": {train(with(api.AnnotationMinParallelism, "1"), func(j *batchv1.Job) {
			j.Spec.Template.Annotations[api.AnnotationGang], j.Spec.Template.Annotations[api.AnnotationGangMinCount] = "g", "2"
		}), 4, 2, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := queues.Of(c.j, nil)
			pods, need := s.Pods()
			if len(pods) != c.count || need != c.need || s.Resizes != c.resizes || !strings.Contains(s.Problem, c.problem) || (s.Problem == "") != (c.problem == "") {
				t.Errorf("the Job asks for %d pods and needs %d, resizes %v, problem %q; want %d, %d, %v, %q", len(pods), need, s.Resizes, s.Problem, c.count, c.need, c.resizes, c.problem)
			}
		})
	}
}

func TestUnmadePodsAreAsTheyWillBe(t *testing.T) {
	classes := queues.NewPriorityClasses([]schedulingv1.PriorityClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "usual"}, Value: 5, GlobalDefault: true},
		{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 100, PreemptionPolicy: new(v1.PreemptNever)},
		{ObjectMeta: metav1.ObjectMeta{Name: "normal"}, Value: 50},
	}, []*v1alpha1.Queue{queueOf("vision", 0, isDefault, func(s *v1alpha1.QueueSpec) {
		s.DefaultPriorityClasses = &v1alpha1.QueuePriorityClasses{Training: "normal"}
	})}, nil)
	inQueue, _ := queues.Of(train(), classes).Pods()
	if got := request.Priority(inQueue[0]); got != 50 {
		t.Errorf("the pods have priority %d, want 50 of the queue's class for training", got)
	}
	classes.Default = nil
	pods, _ := queues.Of(train(), classes).Pods()
	if p := pods[3]; p.UID != "uid/3" || request.Priority(p) != 5 || request.NeverPreempts(p) || request.Of(p)["nvidia.com/gpu"] != 2 {
		t.Errorf("the last pod is %s of priority %d with %v", p.UID, request.Priority(p), request.Of(p))
	}
	j := train(with(api.AnnotationUser, "ann"), func(j *batchv1.Job) { j.Spec.Template.Spec.PriorityClassName = "high" })
	s := queues.Of(j, classes)
	owners := func(namespace string, ref *metav1.OwnerReference) metav1.Object {
		if namespace != "ns" || ref.Kind != "Job" || ref.Name != "train" {
			t.Errorf("asked for %s %s/%s", ref.Kind, namespace, ref.Name)
		}
		return j
	}
	if p := s.Sets[0].Pod; request.UserOf(p, owners) != "ann" || request.Priority(p) != 100 || !request.NeverPreempts(p) {
		t.Errorf("a pod of user %q has priority %d", request.UserOf(p, owners), request.Priority(p))
	}
	if len(j.Spec.Template.Annotations) > 0 {
		t.Errorf("the template got annotations: %v", j.Spec.Template.Annotations)
	}
}

func TestSuspendedJobsStandInLine(t *testing.T) {
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "vision"}, Spec: v1alpha1.QueueSpec{Default: true, Quotas: []v1alpha1.QueueQuota{{GPUs: v1alpha1.GPUsAll, Nominal: kubetest.Amounts("n", 8)["n"]}}}}
	holds := kubetest.Pod("p", "n", "nvidia.com/gpu", 1)
	c := queues.Read(&queues.Situation{Queues: []*v1alpha1.Queue{q}, Pods: []*v1.Pod{holds}, Suspended: queues.InTurn(
		[]metav1.Object{train(), train(func(j *batchv1.Job) { j.Annotations = nil; j.UID = "parked" }), train(func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(3)); j.UID = "fits" })},
		func() *queues.PriorityClasses { return nil })})
	line := c.Book.Waiting("vision")
	if len(line) != 1 || line[0].ID != "uid" || c.Suspended("uid") == nil || c.Suspended("fits") == nil || c.Suspended("parked") != nil {
		t.Fatalf("%+v wait, want the Job of 8 GPUs", line)
	}
	if v := c.Book.Try(&line[0]); v.Cause != quota.Used || v.Asked != 8*quota.Whole {
		t.Errorf("the Job: %+v", v)
	}
}
