package training

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	controller "berth.dev/berth/controller/runtime"
	"berth.dev/berth/test/soak"
)

// tfJob returns a TFJob with a Chief and two workers.
func tfJob(change ...func(*kubeflow.TFJob)) *kubeflow.TFJob {
	two, template := int32(2), runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"tensorflow","image":"x"}]}}`)}
	o := &kubeflow.TFJob{}
	o.Namespace, o.Name, o.Generation = "ml", "mnist", 1
	o.Spec.TFReplicaSpecs = map[string]kubeflow.ReplicaSpec{"Chief": {Template: template}, "Worker": {Replicas: &two, Template: template}}
	for _, c := range change {
		c(o)
	}
	return o
}

// onFailure restarts all replicas.
func onFailure(o *kubeflow.TFJob) {
	for t, r := range o.Spec.TFReplicaSpecs {
		r.RestartPolicy = "OnFailure"
		o.Spec.TFReplicaSpecs[t] = r
	}
}

const (
	allPods     = "pod chief-0, pod worker-0, pod worker-1"
	allServices = "service chief-0, service worker-0, service worker-1"
)

func TestALife(t *testing.T) {
	c := newCluster(t, tfJob())
	c.settle()
	if got := c.children(); got != allPods+", "+allServices {
		t.Errorf("a new job has %s", got)
	}
	if got := c.state(); got != "Created=True" {
		t.Errorf("a new job is %s", got)
	}
	if len(c.writes) != 7 {
		t.Errorf("a new job takes the writes %q, want its status, three Services, and three pods", c.writes)
	}
	c.set("chief-0 Running, worker-0 Running, worker-1 Running")
	c.settle()
	if got := c.state(); got != "Created=True, Running=True" || len(c.writes) != 8 {
		t.Errorf("conditions %s after the writes %q", got, c.writes[7:])
	}
	c.start(kinds[0])
	c.settle()
	if len(c.writes) != 8 {
		t.Errorf("a restart of the controller writes %q", c.writes[8:])
	}
	c.set("chief-0 Succeeded 0")
	c.settle()
	if got := c.state(); got != "Created=True, Running=False, Succeeded=True" {
		t.Errorf("it ends as %s", got)
	}
	if s := c.job().Status; s.CompletionTime == nil || s.ReplicaStatuses["Worker"] != (kubeflow.ReplicaStatus{Succeeded: 2}) {
		t.Errorf("its last status is %+v", s)
	}
}

// TestOneWritePerChange counts the writes of a job's life: one for each change, and none when the controller starts again, whatever state the
// job is in.
func TestOneWritePerChange(t *testing.T) {
	c := newCluster(t, tfJob(onFailure, func(o *kubeflow.TFJob) { o.Spec.RunPolicy.CleanPodPolicy = new("None") }))
	c.settle()
	change := func(name string, do func(), want ...string) {
		t.Helper()
		c.writes = nil
		do()
		c.settle()
		slices.Sort(c.writes) // several are under way at once
		if slices.Sort(want); !slices.Equal(c.writes, want) {
			t.Errorf("%s: writes %q, want %q", name, c.writes, want)
		}
		c.writes = nil
		c.start(kinds[0])
		c.settle()
		if len(c.writes) > 0 {
			t.Errorf("%s: a restart of the controller writes %q", name, c.writes)
		}
	}
	set := func(text string) func() { return func() { c.set(text) } }
	const status = "patch status of mnist"
	change("a worker runs", set("worker-0 Running"), status)
	change("the Chief runs", set("chief-0 Running"), status)
	change("the last worker runs", set("worker-1 Running"), status)
	change("nothing happens", func() {})
	change("a worker fails", set("worker-1 Failed 1"), "patch mnist", status, "delete mnist-worker-1", status, "create mnist-worker-1")
	change("the worker runs again", set("worker-1 Running"), status)
	change("the job is suspended", func() { c.suspend(true) }, "patch mnist", status, "delete mnist-chief-0", "delete mnist-worker-0", "delete mnist-worker-1",
		"delete mnist-chief-0", "delete mnist-worker-0", "delete mnist-worker-1")
	change("the job is resumed", func() { c.suspend(false) }, status, "create mnist-chief-0", "create mnist-worker-0", "create mnist-worker-1",
		"create mnist-chief-0", "create mnist-worker-0", "create mnist-worker-1")
	change("all run", set(running), status)
	change("the Chief succeeds, and the workers count as succeeded then", set("chief-0 Succeeded 0"), status, status)
}

// suspend suspends the job or resumes it.
func (c *testCluster) suspend(is bool) {
	c.t.Helper()
	o := &kubeflow.TFJob{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist"}, o); err != nil {
		c.t.Fatal(err)
	}
	o.Spec.RunPolicy.Suspend = &is
	if err := c.client.Update(c.t.Context(), o); err != nil {
		c.t.Fatal(err)
	}
}

// TestKilledAtAnyWrite runs a job that restarts a worker and then ends, with a controller that is killed at each write
// in turn, before it is carried out and after. The job ends in the same way each time.
func TestKilledAtAnyWrite(t *testing.T) {
	soak.Plainly(t)
	life := func(breaks int, done bool) (*testCluster, string) {
		c := newCluster(t, tfJob(onFailure, func(o *kubeflow.TFJob) { o.Spec.RunPolicy.CleanPodPolicy = new("Running") }))
		c.breaks, c.done = breaks, done
		c.settle()
		c.set("chief-0 Running, worker-0 Running, worker-1 Running")
		c.settle()
		c.set("worker-1 Failed 1")
		c.settle()
		story := c.state() + "; " + c.children() + "; " + strings.ReplaceAll(c.job().Annotations[api.AnnotationRestarts], c.uidOf("worker-1"), "new")
		c.set("worker-1 Running, chief-0 Succeeded 0")
		c.settle()
		return c, story + "; " + c.state() + "; " + c.children()
	}
	whole, want := life(0, false)
	if !strings.Contains(want, `"times":1`) || !strings.HasSuffix(want, "Succeeded=True; pod chief-0 Succeeded, service chief-0") {
		t.Fatalf("undisturbed: %s", want)
	}
	for n := range whole.writes {
		for _, done := range []bool{false, true} {
			if _, got := life(n+1, done); counted(got) != counted(want) {
				t.Errorf("killed at write %d (%s; carried out: %v):\n%s\nwant\n%s", n+1, whole.writes[n], done, got, want)
			}
		}
	}
}

// counted leaves out the UID of a pod that is gone, which depends on how often pods were created.
func counted(story string) string {
	before, after, ok := strings.Cut(story, `,"uid":"`)
	if !ok {
		return story
	}
	_, after, _ = strings.Cut(after, `"`)
	return before + after
}

// uidOf returns the UID of a pod.
func (c *testCluster) uidOf(name string) string {
	pod := &corev1.Pod{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist-" + name}, pod); err != nil {
		return "none"
	}
	return string(pod.UID)
}

func TestRefused(t *testing.T) {
	waits := func(c *testCluster) (reason, message string) {
		for _, cond := range c.job().Status.Conditions {
			if cond.Type == "GPUQueued" && cond.Status == corev1.ConditionTrue {
				return cond.Reason, cond.Message
			}
		}
		return "", ""
	}
	t.Run("a pod that quota refuses is in the status, and created once it is allowed", func(t *testing.T) {
		c := newCluster(t, tfJob())
		c.refuse = "Pod"
		c.settle()
		reason, message := waits(c)
		if reason != "FailedCreatePod" || !strings.Contains(message, "exceeded quota: gpus") {
			t.Errorf("the status says %s: %s", reason, message)
		}
		c.refuse = ""
		c.settle()
		if reason, _ := waits(c); reason != "" || c.children() != allPods+", "+allServices {
			t.Errorf("allowed: the status says %q, and there are %s", reason, c.children())
		}
	})
	t.Run("a Service of someone else is left alone", func(t *testing.T) {
		c := newCluster(t, tfJob())
		theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "mnist-worker-1"}}
		if err := c.client.Create(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
		c.settle()
		reason, message := waits(c)
		if reason != "FailedCreateService" || !strings.Contains(message, "service mnist-worker-1 exists and belongs to something else: delete it") {
			t.Errorf("the status says %s: %s", reason, message)
		}
		if err := c.client.Delete(t.Context(), theirs, client.Preconditions{UID: &theirs.UID}); err != nil {
			t.Fatal(err)
		}
		c.settle()
		if got := c.children(); got != allPods+", "+allServices {
			t.Errorf("after it is gone there are %s", got)
		}
	})
	t.Run("a job that cannot run says so in its status", func(t *testing.T) {
		c := newCluster(t, tfJob(func(o *kubeflow.TFJob) { o.Spec.TFReplicaSpecs["Helper"] = o.Spec.TFReplicaSpecs["Chief"] }))
		c.settle()
		last := c.job().Status.Conditions
		if len(last) == 0 || last[len(last)-1].Reason != "TFJobFailedValidation" || !strings.Contains(last[len(last)-1].Message, "spec.tfReplicaSpecs[Helper]") || c.children() != "" {
			t.Errorf("conditions %v, children %q", last, c.children())
		}
	})
}

func TestLeftAlone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*kubeflow.TFJob)
		mode   controller.Mode
	}{
		{"another controller's job", func(o *kubeflow.TFJob) { o.Spec.RunPolicy.ManagedBy = new("kueue.x-k8s.io/multikueue") }, controller.Own},
		{"any job while the operator runs", func(*kubeflow.TFJob) {}, controller.Govern},
		{"any job when the kind is off", func(*kubeflow.TFJob) {}, controller.Off},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, tfJob(tt.change))
			c.r.mode = func() controller.Mode { return tt.mode }
			c.settle()
			if len(c.writes) > 0 {
				t.Errorf("writes %q", c.writes)
			}
		})
	}
}

func TestRestartsReachTheBackoffLimit(t *testing.T) {
	limit := int32(2)
	c := newCluster(t, tfJob(onFailure, func(o *kubeflow.TFJob) { o.Spec.RunPolicy.BackoffLimit = &limit }))
	c.settle()
	for i := range 2 {
		c.set("worker-0 Failed 1")
		c.settle()
		want := []string{"Restarting=True", "Failed=True"}[i]
		if got := c.state(); !strings.HasSuffix(got, want) {
			t.Errorf("after failure %d it is %s, want %s", i+1, got, want)
		}
	}
	if got := c.children(); got != "" {
		t.Errorf("after the limit there are %s, whatever the policy says", got)
	}
	var told []string
	for len(c.told) > 0 {
		told = append(told, <-c.told)
	}
	if text := fmt.Sprint(told); !strings.Contains(text, "Job mnist has failed because it has reached the specified backoff limit") || !strings.Contains(text, "ExitedWithCode Pod: ml.mnist-worker-0 exited with code 1") {
		t.Errorf("events %s", text)
	}
}
