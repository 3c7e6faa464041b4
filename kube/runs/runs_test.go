package runs_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/runs"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// training is a pod of a user with GPUs that was bound so long before noon.
func training(user string, gpus int, ran time.Duration) *v1.Pod {
	p := kubetest.Pod("train", "a", "nvidia.com/gpu", gpus)
	p.Annotations = map[string]string{api.AnnotationUser: user}
	p.Status.StartTime = nil // its kubelet has not seen it yet
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-ran))}}
	return p
}

func TestPodsOfOneTemplateAreOfOneUserImageAndRequest(t *testing.T) {
	base := runs.TemplateOf(training("ann", 1, 0))
	if again := training("ann", 1, time.Hour); runs.TemplateOf(again) != base {
		t.Error("two pods that differ in nothing have two templates")
	}
	image := training("ann", 1, 0)
	image.Spec.Containers[0].Image = "another"
	for name, other := range map[string]*v1.Pod{"user": training("bob", 1, 0), "request": training("ann", 2, 0), "image": image} {
		if runs.TemplateOf(other).Name == base.Name {
			t.Errorf("pods of another %s have the same template", name)
		}
	}
	if runs.TemplateOf(training("bob", 1, 0)).Class != base.Class || runs.TemplateOf(training("ann", 2, 0)).Class == base.Class {
		t.Error("classes are not by request alone")
	}
}

func TestOnlyPodsThatEndedByThemselvesSayHowLongTheyRan(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(p *v1.Pod)
		want   bool
	}{
		{"a pod that is gone without being deleted", func(*v1.Pod) {}, true},
		{"a pod that was deleted", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }, false},
		{"a pod that was evicted", func(p *v1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue})
		}, false},
		{"a pod that its kubelet evicted", func(p *v1.Pod) { p.Status.Reason = "Evicted" }, false},
		{"a pod without a node", func(p *v1.Pod) { p.Spec.NodeName = "" }, false},
		{"a pod that was bound in the future, by another clock", func(p *v1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(time.Hour)) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := training("ann", 1, time.Hour)
			tt.change(p)
			if ran, ok := runs.Ended(p, noon); ok != tt.want || ok && ran != time.Hour {
				t.Errorf("ran %v, %v", ran, ok)
			}
		})
	}
}

func TestWhatIsLeftIsTheLessOfWhatIsDeclaredAndLearned(t *testing.T) {
	times := queue.NewRunTimes()
	for i := range 10 {
		times.Ended(runs.TemplateOf(training("ann", 1, 0)), time.Duration(i+1)*time.Hour)
	}
	for _, tt := range []struct {
		name     string
		pod      *v1.Pod
		declares string
		want     time.Duration
		ok       bool
	}{
		{"learned", training("ann", 1, 2*time.Hour), "", 8 * time.Hour, true},
		{"declared, and less", training("ann", 1, 2*time.Hour), "3h", time.Hour, true},
		{"declared, and more", training("ann", 1, 2*time.Hour), "300h", 8 * time.Hour, true},
		{"declared, and over", training("ann", 1, 2*time.Hour), "1h", 0, true},
		{"declared, and unreadable", training("ann", 8, 2*time.Hour), "-3 weeks", 0, false},
		{"of no pods with such a request any has ended", training("ann", 8, 2*time.Hour), "", 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.declares != "" {
				tt.pod.Annotations[api.AnnotationMaxRunTime] = tt.declares
			}
			if left, ok := runs.Left(tt.pod, times, 0.9, noon); left != tt.want || ok != tt.ok {
				t.Errorf("%v, %v is left; want %v, %v", left, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestWhatIsRememberedIsReadAsItWasWritten(t *testing.T) {
	times := queue.NewRunTimes()
	for i := range 100_000 {
		times.Ended(queue.Template{Name: fmt.Sprintf("%016x", i%2000), Class: fmt.Sprint(i % 8)}, time.Duration(i)*time.Second)
	}
	text := runs.Encode(times.Samples(runs.MostTemplates))
	if len(text) > 500_000 {
		t.Errorf("they have %d bytes, more than half of what a ConfigMap may have", len(text))
	}
	list, err := runs.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if again := runs.Encode(queue.Remembered(list).Samples(runs.MostTemplates)); !bytes.Equal(again, text) {
		t.Error("written again it is something else")
	}
	for _, at := range []int{0, 1, 2, len(text) / 2, len(text) - 1} {
		bad := bytes.Clone(text)
		bad[at] ^= 0x41
		if _, err := runs.Decode(bad); err == nil {
			t.Errorf("a changed byte at %d is not noticed", at)
		}
		if _, err := runs.Decode(text[:at]); err == nil && at > 0 {
			t.Errorf("that all after %d bytes is missing is not noticed", at)
		}
	}
	if list, err := runs.Decode(nil); err != nil || list != nil {
		t.Errorf("of nothing: %v, %v", list, err)
	}
}
