package queues_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/kube/queues"
)

// says is a pod of namespace team with labels and annotations, as "key=value"; those of annotations begin with @.
func says(keys ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p", Labels: map[string]string{}, Annotations: map[string]string{}}}
	for _, text := range keys {
		key, value, _ := strings.Cut(text, "=")
		if note, is := strings.CutPrefix(key, "@"); is {
			p.Annotations[note] = value
		} else {
			p.Labels[key] = value
		}
	}
	return p
}

// madeBy is a pod that a Job makes which has labels and annotations, as of says.
func madeBy(job string, keys ...string) *v1.Pod {
	p := says(keys...)
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job, UID: types.UID(job), Controller: new(true)}}
	return p
}

func TestLabelsOfOtherSchedulersNameQueues(t *testing.T) {
	jobs := map[string]*v1.Pod{
		"kueue": says(api.LabelKueueQueue + "=open"), "berth": says(api.LabelQueue+"=open", api.LabelKueueQueue+"=gone"),
		"volcano": says("@" + api.AnnotationVolcanoQueue + "=open"), "local": says(api.LabelKueueQueue + "=user-queue"), "plain": says(),
	}
	owners := func(_ string, ref *metav1.OwnerReference) metav1.Object {
		job := jobs[ref.Name]
		if job == nil {
			return nil
		}
		job.UID = types.UID(ref.Name)
		return job
	}
	all := queues.NewMembers([]*v1alpha1.Queue{
		queueOf("team", 1, takes(v1alpha1.QueueNamespaces{Names: []string{"team"}})),
		queueOf("open", 2, takes(v1alpha1.QueueNamespaces{LabeledPods: []string{"team"}})),
		queueOf("closed", 3, takes(v1alpha1.QueueNamespaces{Names: []string{"closed"}})),
	})
	usual := "spec.namespaces.names of Queue team"
	lone, kueue := all.In(queues.Around{Owners: owners}), all.In(queues.Around{Owners: owners, Kueue: func() bool { return true }})
	for _, tt := range []struct {
		name  string
		pod   *v1.Pod
		kueue bool // it runs
		want  queues.Member
	}{
		{"Kueue's label", says(api.LabelKueueQueue + "=open"), false, queues.Member{Queue: "open", Why: "the pod's label kueue.x-k8s.io/queue-name"}},
		{"KAI's label", says(api.LabelKAIQueue + "=open"), false, queues.Member{Queue: "open", Why: "the pod's label kai.scheduler/queue"}},
		{"Volcano's annotation", says("@" + api.AnnotationVolcanoQueue + "=open"), false, queues.Member{Queue: "open", Why: "the pod's annotation scheduling.volcano.sh/queue-name"}},
		{"the label that Volcano writes on pods of its Jobs", says(api.KeyVolcanoQueue + "=open"), false, queues.Member{Queue: "open", Why: "the pod's label volcano.sh/queue-name"}},
		{"the annotation that Volcano writes on pods of its Jobs", says("@" + api.KeyVolcanoQueue + "=open"), false, queues.Member{Queue: "open", Why: "the pod's annotation volcano.sh/queue-name"}},
		{"a label with the key of Volcano's annotation is not read", says(api.AnnotationVolcanoQueue + "=open"), false, queues.Member{Queue: "team", Why: usual}},
		{"Berth's label goes first", says(api.LabelQueue+"=team", api.LabelKueueQueue+"=open", api.LabelKAIQueue+"=open"), false, queues.Member{Queue: "team", Why: usual}},
		{"an empty label names nothing", says(api.LabelQueue+"=", api.LabelKAIQueue+"=open"), false, queues.Member{Queue: "open", Why: "the pod's label kai.scheduler/queue"}},
		{"the label of the Job that makes the pod", madeBy("kueue"), false, queues.Member{Queue: "open", Why: "label kueue.x-k8s.io/queue-name of Job kueue"}},
		{"Berth's label of the Job goes first", madeBy("berth"), false, queues.Member{Queue: "open", Why: "label berth.dev/queue of Job berth"}},
		{"the annotation of the Job", madeBy("volcano"), false, queues.Member{Queue: "open", Why: "annotation scheduling.volcano.sh/queue-name of Job volcano"}},
		{"a label of the pod goes before that of its Job", madeBy("kueue", api.LabelKAIQueue+"=team"), false, queues.Member{Queue: "team", Why: usual}},
		{"a Job that names none", madeBy("plain"), false, queues.Member{Queue: "team", Why: usual}},
		{"a Job that is not known", madeBy("unknown"), false, queues.Member{Queue: "team", Why: usual}},
		{"a LocalQueue of which there is no Queue", madeBy("local"), false, queues.Member{
			Queue: "team", Named: "user-queue", By: api.LabelKueueQueue, Ignored: `there is no Queue "user-queue", which label kueue.x-k8s.io/queue-name of Job local names`,
			Why: usual + `, as there is no Queue "user-queue", which label kueue.x-k8s.io/queue-name of Job local names`,
		}},
		{"a Queue that does not take labeled pods of the namespace", says(api.LabelKAIQueue + "=closed"), false, queues.Member{
			Queue: "team", Named: "closed", By: api.LabelKAIQueue, Ignored: "Queue closed, which the pod's label kai.scheduler/queue names, does not list the namespace in spec.namespaces.labeledPods",
			Why: usual + ", as Queue closed, which the pod's label kai.scheduler/queue names, does not list the namespace in spec.namespaces.labeledPods",
		}},
		{"where Kueue runs, its label is its own", says(api.LabelKueueQueue + "=open"), true, queues.Member{Queue: "team", Why: usual}},
		{"also that of a Job", madeBy("kueue"), true, queues.Member{Queue: "team", Why: usual}},
		{"others are read there", says(api.LabelKueueQueue+"=gone", api.LabelKAIQueue+"=open"), true, queues.Member{Queue: "open", Why: "the pod's label kai.scheduler/queue"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := lone
			if tt.kueue {
				m = kueue
			}
			ns := namespace("team", nil)
			if diff := cmp.Diff(tt.want, m.Of(tt.pod, ns)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if got := m.QueueOf(tt.pod, ns); got != tt.want.Queue {
				t.Errorf("QueueOf says %q", got)
			}
		})
	}
	if got := lone.AtCreation(madeBy("kueue"), namespace("team", nil)); got != "team" {
		t.Errorf("at creation, without its Job, a pod is of %q", got)
	}
}

func TestAPodThatNamesAnotherQueue(t *testing.T) {
	for _, tt := range []struct {
		name     string
		was, now *v1.Pod
		want     bool
	}{
		{"the same", says(api.LabelQueue + "=a"), says(api.LabelQueue+"=a", "x=y"), false},
		{"another label", says(api.LabelQueue + "=a"), says(api.LabelQueue + "=b"), true},
		{"another annotation", says(), says("@" + api.AnnotationVolcanoQueue + "=a"), true},
		{"Kueue's no more", says(api.LabelKueueQueue + "=a"), says(), true},
	} {
		if got := queues.NamesOther(tt.was, tt.now); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestAPodNamesTheQueueOfItsObject(t *testing.T) {
	object := says(api.LabelKueueQueue+"=a", "x=y", "@"+api.AnnotationVolcanoQueue+"=b")
	labels := map[string]string{"app": "train"} // of a template of several pods
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	queues.NameAs(pod, object)
	want := metav1.ObjectMeta{Labels: map[string]string{"app": "train", api.LabelKueueQueue: "a"}, Annotations: map[string]string{api.AnnotationVolcanoQueue: "b"}}
	if diff := cmp.Diff(want, pod.ObjectMeta); diff != "" || len(labels) != 1 {
		t.Errorf("-want +got\n%s", diff)
	}
	own := says(api.LabelKAIQueue + "=mine")
	queues.NameAs(own, object)
	if diff := cmp.Diff(says(api.LabelKAIQueue+"=mine"), own); diff != "" {
		t.Errorf("a pod that names one -want +got\n%s", diff)
	}
}
