package training

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/test/soak"
)

// orphaned makes a cluster whose pods and Services are left over from an earlier job of the same name.
func orphaned(t *testing.T) *testCluster {
	t.Helper()
	first := newCluster(t, tfJob())
	first.settle()
	first.set(running)
	var left []client.Object
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.ServiceList{}} {
		if err := first.client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		switch l := list.(type) {
		case *corev1.PodList:
			for i := range l.Items {
				l.Items[i].Annotations = map[string]string{api.AnnotationRound: "3"}
				left = append(left, &l.Items[i])
			}
		case *corev1.ServiceList:
			for i := range l.Items {
				left = append(left, &l.Items[i])
			}
		}
	}
	for _, o := range left {
		o.SetOwnerReferences(nil)
		o.SetResourceVersion("")
	}
	return newCluster(t, tfJob(), left...)
}

// TestAdopted holds that the pods of a job that was deleted without them go on with the job that is created under its name, also where
// the controller is killed at any write.
func TestAdopted(t *testing.T) {
	life := func(breaks int, done bool) (*testCluster, string) {
		c := orphaned(t)
		c.breaks, c.done = breaks, done
		c.settle()
		for _, o := range []client.Object{&corev1.Pod{}, &corev1.Service{}} {
			for _, name := range []string{"mnist-chief-0", "mnist-worker-0", "mnist-worker-1"} {
				if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: "ml", Name: name}, o); err != nil {
					t.Fatal(err)
				}
				ref := metav1.GetControllerOfNoCopy(o)
				if ref == nil || ref.UID != "job" || ref.Kind != "TFJob" || o.GetAnnotations()[api.AnnotationRound] != "" {
					t.Errorf("killed at write %d: %s is controlled by %+v, with annotations %v", breaks, name, ref, o.GetAnnotations())
				}
			}
		}
		for _, w := range c.writes {
			if strings.HasPrefix(w, "create") || strings.HasPrefix(w, "delete") {
				t.Errorf("killed at write %d: %s", breaks, w)
			}
		}
		return c, c.state() + "; " + c.children()
	}
	whole, want := life(0, false)
	if !strings.HasPrefix(want, "Created=True, Running=True; pod chief-0 Running") {
		t.Errorf("undisturbed: %s", want)
	}
	for n := range whole.writes {
		for _, done := range []bool{false, true} {
			if _, got := life(n+1, done); got != want {
				t.Errorf("killed at write %d (%s; carried out: %v):\n%s\nwant\n%s", n+1, whole.writes[n], done, got, want)
			}
		}
	}
}

func TestNotAdopted(t *testing.T) {
	other := []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "x", UID: "x", Controller: new(true)}}
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
	}{
		{"a pod of another controller", func(p *corev1.Pod) { p.OwnerReferences = other }},
		{"a pod that has ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }},
		{"a pod without the job's labels", func(p *corev1.Pod) { p.Labels = nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := orphaned(t)
			pod := &corev1.Pod{}
			if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist-worker-1"}, pod); err != nil {
				t.Fatal(err)
			}
			tt.change(pod)
			if err := c.client.Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			tt.change(pod) // the update has read the status back
			if err := c.client.Status().Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			c.settle()
			if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
				t.Fatal(err)
			}
			if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.UID == "job" {
				t.Errorf("the job took control of it")
			}
			if text := c.waits(); !strings.Contains(text, "pod mnist-worker-1 exists and belongs to something else") {
				t.Errorf("the job says %q", text)
			}
		})
	}
}

// TestReleased holds that a job gives up a pod whose labels no longer fit, says what it waits for, and takes the pod again with its labels,
// also where the controller is killed at any write.
func TestReleased(t *testing.T) {
	soak.Plainly(t)
	for _, label := range []string{kubeflow.LabelJobName, kubeflow.LabelOperatorName} {
		life := func(breaks int, done bool) (*testCluster, string) {
			c := newCluster(t, tfJob())
			c.settle()
			c.set(running)
			c.settle()
			c.breaks, c.done, c.writes = breaks, done, nil
			was := c.relabel("worker-1", label, "")
			c.settle()
			c.settle() // what it waits for is written by the pass after the one that learns it
			story := c.owner("worker-1") + "; " + c.state() + "; " + c.waits()
			c.relabel("worker-1", label, was)
			c.settle()
			c.set(running)
			c.settle()
			return c, story + "; " + c.owner("worker-1") + "; " + c.state() + "; " + c.waits()
		}
		whole, want := life(0, false)
		const says = "Error creating: pod mnist-worker-1 exists and belongs to something else: delete it, or create the job under another name"
		if want != "; Created=True, Running=True; "+says+"; job; Created=True, Running=True; " {
			t.Errorf("without label %s, undisturbed: %s", label, want)
		}
		for n := range whole.writes {
			for _, done := range []bool{false, true} {
				if _, got := life(n+1, done); got != want {
					t.Errorf("without label %s, killed at write %d (%s; carried out: %v):\n%s\nwant\n%s", label, n+1, whole.writes[n], done, got, want)
				}
			}
		}
	}
}

// relabel sets a label of a pod, removes it where value is "", and returns what it was.
func (c *testCluster) relabel(who, key, value string) string {
	c.t.Helper()
	pod := &corev1.Pod{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist-" + who}, pod); err != nil {
		c.t.Fatal(err)
	}
	was := pod.Labels[key]
	if pod.Labels[key] = value; value == "" {
		delete(pod.Labels, key)
	}
	if err := c.client.Update(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
	return was
}

// owner returns the UID of the controller of a pod, "" if it has none.
func (c *testCluster) owner(who string) string {
	c.t.Helper()
	pod := &corev1.Pod{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist-" + who}, pod); err != nil {
		c.t.Fatal(err)
	}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		return string(ref.UID)
	}
	return ""
}

// waits returns what the condition GPUQueued says while it is True.
func (c *testCluster) waits() string {
	for _, cond := range c.job().Status.Conditions {
		if cond.Type == "GPUQueued" && cond.Status == corev1.ConditionTrue {
			return cond.Message
		}
	}
	return ""
}
