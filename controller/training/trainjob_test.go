package training

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/test/soak"
)

// trainJob returns a TrainJob of two nodes by the runtime plain of its namespace.
func trainJob(change ...func(*trainer.TrainJob)) *trainer.TrainJob {
	o := &trainer.TrainJob{}
	o.Namespace, o.Name, o.Generation = "ml", "mnist", 1
	o.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	o.Spec.RuntimeRef = trainer.RuntimeRef{Name: "plain", Kind: new(trainer.KindRuntime)}
	for _, c := range change {
		c(o)
	}
	return o
}

// plain returns the runtime plain, whose pods have an image.
func plain(image string) *unstructured.Unstructured {
	container := map[string]any{"name": "node", "image": image}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"mlPolicy": map[string]any{"numNodes": int64(2)},
		"template": map[string]any{"spec": map[string]any{"replicatedJobs": []any{map[string]any{
			"name": "node", "template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{trainer.LabelStep: trainer.StepTrainer}},
				"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{container}}}},
			},
		}}}},
	}}}
	u.SetGroupVersionKind(trainer.GroupVersion.WithKind(trainer.KindRuntime))
	u.SetNamespace("ml")
	u.SetName("plain")
	return u
}

// run puts the pods of nodes into phases.
func (c *testCluster) run(phases ...corev1.PodPhase) {
	c.t.Helper()
	var pods corev1.PodList
	if err := c.client.List(c.t.Context(), &pods); err != nil {
		c.t.Fatal(err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		var index int
		if _, err := fmt.Sscan(p.Annotations["batch.kubernetes.io/job-completion-index"], &index); err != nil {
			c.t.Fatal(err)
		}
		p.Status.Phase = phases[index]
		if err := c.client.Status().Update(c.t.Context(), p); err != nil {
			c.t.Fatal(err)
		}
	}
}

// trainJob reads the job.
func (c *testCluster) trainJob() *trainer.TrainJob {
	c.t.Helper()
	o := &trainer.TrainJob{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist"}, o); err != nil {
		c.t.Fatal(err)
	}
	return o
}

// tells writes what a TrainJob's status, its annotations, and its children are.
func (c *testCluster) tells() string {
	o := c.trainJob()
	var out []string
	for _, cond := range o.Status.Conditions {
		if cond.Type != "GPUQueued" {
			out = append(out, cond.Type+"="+string(cond.Status)+" "+cond.Reason)
		}
	}
	for _, s := range o.Status.JobsStatus {
		out = append(out, fmt.Sprintf("ready %d succeeded %d failed %d active %d suspended %d", s.Ready, s.Succeeded, s.Failed, s.Active, s.Suspended))
	}
	return strings.Join(out, ", ") + "; " + regexp.MustCompile(`uid":"\w+`).ReplaceAllString(o.Annotations[api.AnnotationRestarts], "") + o.Annotations[api.AnnotationSucceeded] + "; " +
		regexp.MustCompile(`-\w{5}\b( |,)`).ReplaceAllString(c.children(), "$1")
}

// TestATrainJobKilledAtAnyWrite runs a TrainJob of which a pod fails and one succeeds before the other, with a controller that is killed at
// each write in turn, before it is carried out and after. Its runtime changes, too, which has no effect.
func TestATrainJobKilledAtAnyWrite(t *testing.T) {
	soak.Plainly(t)
	life := func(breaks int, done bool) (*testCluster, []string) {
		runtime := plain("first")
		c := newCluster(t, trainJob(), runtime)
		c.breaks, c.done = breaks, done
		var story []string
		step := func(do func()) {
			do()
			c.settle()
			story = append(story, c.tells())
		}
		step(func() {})
		runtime.Object["spec"] = plain("second").Object["spec"]
		if err := c.client.Update(t.Context(), runtime); err != nil && c.breaks == 0 {
			t.Fatal(err)
		}
		step(func() { c.run("Running", "Running") })
		step(func() { c.run("Running", "Failed") })
		step(func() { c.run("Succeeded", "Pending") })
		var pods corev1.PodList
		if err := c.client.List(t.Context(), &pods); err != nil {
			t.Fatal(err)
		}
		for _, p := range pods.Items {
			if p.Spec.Containers[0].Image != "first" {
				t.Errorf("pod %s has the image %s of the runtime's change", p.Name, p.Spec.Containers[0].Image)
			}
		}
		step(func() { c.run("Succeeded", "Succeeded") })
		return c, story
	}
	whole, want := life(0, false)
	for i, step := range []string{
		"ready 0 succeeded 0 failed 0 active 0 suspended 0; ; pod node-0-0, pod node-0-1, service mnist",
		"ready 1 succeeded 0 failed 0 active 1 suspended 0; ; pod node-0-0 Running, pod node-0-1 Running, service mnist",
		`ready 0 succeeded 0 failed 0 active 1 suspended 0; {"node-0-1":{"times":1,""}}; pod node-0-0 Running, pod node-0-1, service mnist`,
		`ready 0 succeeded 0 failed 0 active 1 suspended 0; {"node-0-1":{"times":1,""}}1; pod node-0-0 Succeeded, pod node-0-1 Pending, service mnist`,
		`Complete=True AllJobsCompleted, ready 0 succeeded 1 failed 0 active 0 suspended 0; {"node-0-1":{"times":1,""}}1; pod node-0-0 Succeeded, pod node-0-1 Succeeded, service mnist`,
	} {
		if want[i] != step {
			t.Errorf("undisturbed, step %d: %s\nwant %s", i, want[i], step)
		}
	}
	for n := range whole.writes {
		for _, done := range []bool{false, true} {
			if _, got := life(n+1, done); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("killed at write %d (%s; carried out: %v):\n%s\nwant\n%s", n+1, whole.writes[n], done, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
	writes := len(whole.writes)
	whole.start(whole.r.kind)
	whole.settle()
	if len(whole.writes) != writes {
		t.Errorf("a restart of the controller writes %q", whole.writes[writes:])
	}
}

func TestATrainJobWithoutItsRuntime(t *testing.T) {
	t.Run("fails after a while, with what to do", func(t *testing.T) {
		c := newCluster(t, trainJob())
		c.settle()
		if got := c.tells(); got != "; ; " {
			t.Errorf("at first it says %s", got)
		}
		c.now = c.now.Add(awaitRuntime)
		c.settle()
		o := c.trainJob()
		if len(o.Status.Conditions) != 1 || o.Status.Conditions[0].Reason != trainer.ReasonNotSupported || !strings.Contains(o.Status.Conditions[0].Message, "TrainingRuntime plain: there is none of this name; create it") || len(o.Status.JobsStatus) != 0 {
			t.Errorf("its status is %+v", o.Status)
		}
		if err := c.client.Create(t.Context(), plain("x")); err != nil {
			t.Fatal(err)
		}
		before := len(c.writes)
		c.settle()
		if len(c.writes) != before || c.children() != "" {
			t.Errorf("after its end: writes %q, and there are %s", c.writes[before:], c.children())
		}
	})
	t.Run("starts once the runtime is there", func(t *testing.T) {
		c := newCluster(t, trainJob())
		c.settle()
		if err := c.client.Create(t.Context(), plain("x")); err != nil {
			t.Fatal(err)
		}
		c.settle()
		if got := c.tells(); !strings.Contains(got, "pod node-0-1") {
			t.Errorf("the job has %s", got)
		}
	})
	t.Run("is left alone if another controller runs it", func(t *testing.T) {
		c := newCluster(t, trainJob(func(o *trainer.TrainJob) { o.Spec.ManagedBy = new("kueue.x-k8s.io/multikueue") }), plain("x"))
		c.settle()
		if len(c.writes) > 0 {
			t.Errorf("writes %q", c.writes)
		}
	})
}

func TestATrainJobThatIsSuspended(t *testing.T) {
	c := newCluster(t, trainJob(func(o *trainer.TrainJob) { o.Spec.Suspend, o.Spec.ActiveDeadlineSeconds = new(true), new(int64(60)) }), plain("x"))
	c.settle()
	if got := c.tells(); got != "Suspended=True Suspended, ready 0 succeeded 0 failed 0 active 0 suspended 1; ; " {
		t.Errorf("suspended: %s", got)
	}
	c.now = c.now.Add(time.Hour)
	o := c.trainJob()
	o.Spec.Suspend = new(false)
	if err := c.client.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	c.settle()
	if got := c.tells(); got != "Suspended=False Resumed, ready 0 succeeded 0 failed 0 active 0 suspended 0; ; pod node-0-0, pod node-0-1, service mnist" {
		t.Errorf("resumed: %s", got)
	}
	c.now = c.now.Add(time.Minute)
	c.settle()
	if got := c.tells(); got != "Suspended=False Resumed, Failed=True DeadlineExceeded, ready 0 succeeded 0 failed 1 active 0 suspended 0; ; " {
		t.Errorf("a minute after it was resumed: %s", got)
	}
}
