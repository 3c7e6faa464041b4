package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/forecast"
	"berth.dev/berth/kube/runs"
	"berth.dev/berth/test/golden"
)

// teams are two teams of a department, and one that is stopped; one quota is misspelled.
const teams = `
- metadata: {name: research}
  spec: {quotas: [{gpus: All, nominal: 14}]}
- metadata: {name: vision}
  spec: {parent: research, namespaces: {names: [vision]}, quotas: [{gpus: All, nominal: 7}]}
- metadata: {name: speech}
  spec:
    parent: research
    namespaces: {names: [speech]}
    order: Fair
    quotas: [{gpus: All, nominal: 7}]
    perUser: [{gpus: All, max: 6}]
- metadata: {name: old}
  spec: {stop: Hold, quotas: [{gpus: H100, nominal: 2}]}
  status: {resources: [{gpus: H100, nominal: "2", used: "1", borrowed: "0", lent: "0"}], waiting: 3, nominal: "2 H100"}
`

// queueStage is a cluster with the queues of teams, 14 GPUs on two nodes, and pods.
func queueStage(t *testing.T, queues string, pods ...runtime.Object) *stage {
	t.Helper()
	s := newStage(t, append(pods, node("n-1", "Tesla T4", 7, "", api.ResourceGPU, 7), node("n-2", "Tesla T4", 7, "", api.ResourceGPU, 7),
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vision"}}, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "speech"}})...)
	var list []map[string]any
	if err := yaml.Unmarshal([]byte(queues), &list); err != nil {
		t.Fatal(err)
	}
	for i, object := range list {
		u := &unstructured.Unstructured{Object: object}
		u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.KindQueue))
		u.SetCreationTimestamp(metav1.NewTime(now.Add(time.Duration(i-100) * time.Hour)))
		if err := s.dynamic.Tracker().Add(u); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// of makes a pod that of a user, and one of its own.
func of(p *v1.Pod, user string) *v1.Pod {
	p.UID = types.UID(p.Namespace + "/" + p.Name)
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[api.AnnotationUser] = user
	return p
}

// busyTeams has vision hold 10 GPUs, and speech wait for 5 in a gang and 2 alone.
func busyTeams(t *testing.T) *stage {
	t.Helper()
	var pods []runtime.Object
	for i := range 10 {
		p := pod("vision", fmt.Sprint("train-", i), []string{"n-1", "n-2"}[i%2], api.ResourceGPU)
		p.Status.ContainerStatuses = nil
		pods = append(pods, of(p, "ann"))
	}
	for i := range 5 {
		p := pending("speech", fmt.Sprint("asr-", i), "1")
		p.Annotations = map[string]string{api.AnnotationGang: "asr", api.AnnotationGangMinCount: "5"}
		pods = append(pods, of(p, "bob"))
	}
	late := pending("speech", "late", "5")
	late.CreationTimestamp = metav1.NewTime(now.Add(-30 * time.Second))
	small := pending("speech", "small", "1")
	return queueStage(t, teams, append(pods, of(late, "cyd"), of(small, "cyd"), pending("other", "free", "1"))...)
}

func TestQueues(t *testing.T) {
	s := busyTeams(t)
	for file, args := range map[string]string{
		"queue.txt": "queue", "queue.json": "queue -o json", "queue_speech.txt": "queue show speech", "queue_vision.txt": "queue show vision",
		"queue_speech.yaml": "queue show speech -o yaml",
	} {
		golden.File(t, file, s.ok(strings.Fields(args)...))
	}
	if got, want := s.ok("queues", "-o", "name"), "queue.berth.dev/old\nqueue.berth.dev/research\nqueue.berth.dev/speech\nqueue.berth.dev/vision\n"; got != want {
		t.Errorf("names are\n%swant\n%s", got, want)
	}
	if got := s.ok("queue", "show", "speech", "-o", "name"); got != "gang/asr\npod/late\n" {
		t.Errorf("names of the line are\n%s", got)
	}
}

// TestQueueShowSaysWhenWorkloadsStart: what holds the quota says how long it runs.
func TestQueueShowSaysWhenWorkloadsStart(t *testing.T) {
	s := busyTeams(t)
	pods, err := s.client.CoreV1().Pods("vision").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		p.Annotations[api.AnnotationMaxRunTime] = "3h"
		p.Status.StartTime = new(metav1.NewTime(now.Add(-time.Duration(i) * 10 * time.Minute)))
		if _, err := s.client.CoreV1().Pods("vision").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	golden.File(t, "queue_starts.txt", s.ok("queue", "show", "speech"))
	golden.File(t, "queue_starts.json", s.ok("queue", "show", "speech", "-o", "json"))
}

// TestPodsThatNameQueuesOfOtherSchedulers enter the queue of their namespace where there is no such Queue, and that is said.
func TestPodsThatNameQueuesOfOtherSchedulers(t *testing.T) {
	s := busyTeams(t)
	named := func(name, by, queue string) {
		p := of(pending("speech", name, "9"), "eve")
		p.Labels = map[string]string{by: queue}
		if _, err := s.client.CoreV1().Pods("speech").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	named("local", api.LabelKueueQueue, "user-queue")
	named("local-2", api.LabelKueueQueue, "user-queue")
	named("theirs", api.LabelKAIQueue, "vision")
	golden.File(t, "queue_named.txt", s.ok("queue", "show", "speech")+"\n"+s.ok("why", "theirs", "-n", "speech"))
}

// estimated has the scheduler have written what came of 40 estimates.
func estimated(t *testing.T, s *stage) *v1.ConfigMap {
	t.Helper()
	o := &forecast.Outcomes{}
	for i := range 40 {
		id, queue, estimated, gpus := fmt.Sprint(i), "speech", time.Duration(10+i)*time.Minute, float64(1)
		if i%5 == 0 {
			queue = "vision"
		}
		if i%8 == 0 {
			gpus = 8
		}
		if i%10 == 0 {
			estimated = forecast.Never
		}
		o.Submitted(forecast.Submission{ID: id, At: now, Outcome: forecast.Outcome{Queue: runs.Hidden(queue), GPUs: gpus, Estimated: estimated, By: 40 * time.Minute}})
		if i < 38 {
			o.Started(id, now.Add(30*time.Minute+time.Duration(i)*time.Minute))
		}
	}
	text, err := runs.EncodeStarts(o)
	if err != nil {
		t.Fatal(err)
	}
	m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: runs.Namespace, Name: runs.Name}, BinaryData: map[string][]byte{runs.StartsKey: text}}
	if m, err = s.client.CoreV1().ConfigMaps(runs.Namespace).Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestHowGoodEstimatesWere shows what the scheduler has written. rows: NB-39
func TestHowGoodEstimatesWere(t *testing.T) {
	s := busyTeams(t)
	if got := s.ok("queue", "accuracy"); !strings.Contains(got, "no workload has started yet that waited") {
		t.Errorf("of nothing:\n%s", got)
	}
	m := estimated(t, s)
	for file, args := range map[string]string{
		"queue_accuracy.txt": "queue accuracy", "queue_accuracy_vision.txt": "queue accuracy vision", "queue_accuracy.json": "queue accuracy research -o json",
	} {
		golden.File(t, file, s.ok(strings.Fields(args)...))
	}
	m.BinaryData[runs.StartsKey] = m.BinaryData[runs.StartsKey][:len(m.BinaryData[runs.StartsKey])/2]
	if _, err := s.client.CoreV1().ConfigMaps(runs.Namespace).Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, got, code := s.run("berth", "queue", "accuracy"); code == 0 || !strings.Contains(got, "is damaged or from another version of Berth; the scheduler begins again when it starts next") {
		t.Errorf("damaged: %s", got)
	}
	if got := s.ok("queue", "show", "speech"); !strings.Contains(got, "gang/asr") {
		t.Errorf("berth queue show does without:\n%s", got)
	}
}

// TestQueuesForThoseWhoMayNotSeePods: amounts are those that the objects report.
func TestQueuesForThoseWhoMayNotSeePods(t *testing.T) {
	s := busyTeams(t)
	s.client.(*fake.Clientset).PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
	})
	golden.File(t, "queue_hidden.txt", s.ok("queue"))
	if got := s.ok("queue", "show", "speech"); strings.Contains(got, "asr") || !strings.Contains(got, "you cannot list nodes, namespaces, or the pods of all namespaces") {
		t.Errorf("berth queue show:\n%s", got)
	}
}

func TestQueueErrors(t *testing.T) {
	s := busyTeams(t)
	for args, want := range map[string]string{
		"queue show visoin":       "there is no queue visoin; did you mean vision?",
		"queue show quantum":      "there is no queue quantum; existing queues: old, research, speech, vision",
		"queue show":              "accepts 1 arg(s), received 0",
		"queue shwo":              "did you mean",
		"queue -o json-ish":       "json-ish",
		"queue check":             "-f is missing: name a file with Queues",
		"queue check -f none":     "none: no such file",
		"queue import":            "-f is missing: name a file with queues of another scheduler, or ResourceQuotas",
		"queue show vision -o go": "--output",
	} {
		if _, stderr, code := s.run(append([]string{"berth"}, strings.Fields(args)...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("berth %s exits with %d and says %q, want %q", args, code, stderr, want)
		}
	}
	none := queueStage(t, "[]")
	if out, stderr, code := none.run("berth", "queue"); code != 0 || out != "" || !strings.Contains(stderr, "there are no Queues") {
		t.Errorf("without Queues: %d, %q, %q", code, out, stderr)
	}
	if _, stderr, _ := none.run("berth", "queue", "show", "x"); !strings.Contains(stderr, "there is no queue x: the cluster has none") {
		t.Errorf("without Queues: %q", stderr)
	}
	none.dynamic.PrependReactor("list", "queues", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "queues"}, "")
	})
	if _, stderr, code := none.run("berth", "queue"); code == 0 || !strings.Contains(stderr, "this cluster does not serve Queues; install `berth controller`") {
		t.Errorf("where they are not served: %d, %q", code, stderr)
	}
}

// dryRuns lets the fake keep nothing of what is written, and refuse negative amounts.
func dryRuns(s *stage) {
	s.dynamic.PrependReactor("*", "queues", func(a clienttesting.Action) (bool, runtime.Object, error) {
		object, dry := runtime.Object(nil), []string(nil)
		switch a := a.(type) {
		case clienttesting.CreateActionImpl:
			object, dry = a.Object, a.CreateOptions.DryRun
		case clienttesting.UpdateActionImpl:
			object, dry = a.Object, a.UpdateOptions.DryRun
		default:
			return false, nil, nil
		}
		if len(dry) == 0 {
			s.t.Error("a Queue is written")
		}
		if text := fmt.Sprint(object); strings.Contains(text, "nominal:-") {
			return true, nil, apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("Queue").GroupKind(), "x", nil)
		}
		return true, object, nil
	})
}

func TestQueueCheck(t *testing.T) {
	for _, tt := range []struct {
		name string
		file string
		code int
		want string
	}{
		{"what is there already changes nothing", "metadata: {name: research}\nspec: {quotas: [{gpus: All, nominal: 14}]}", 0, "nothing changes for the workloads of the cluster\n"},
		{
			"a larger tree lets what waits go on", "metadata: {name: research}\nspec: {quotas: [{gpus: All, nominal: 20}]}", 0,
			"speech pod/asr-0: there is quota for it, for which it waits now\nspeech pod/late: there is quota for it, for which it waits now\n",
		},
		{
			"a smaller quota has more borrowed", "metadata: {name: vision}\nspec: {parent: research, namespaces: {names: [vision]}, quotas: [{gpus: All, nominal: 4}]}", 0,
			"queue vision holds 10 All of a nominal quota of 4: it borrows 6, which other queues can take back\n",
		},
		{
			"a tree that is halved ends nothing", "metadata: {name: research}\nspec: {quotas: [{gpus: All, nominal: 8}]}", 3,
			"research: spec.quotas: the queues below have a nominal quota of 14 gpus together, more than the 8 of this one\n" +
				"queue research holds 10 All of a nominal quota of 8: it admits nothing until it holds less; what runs goes on\n" +
				"speech pod/small: it waits for quota: the pod asks for 1 GPU, and all 8 GPUs of queue research are in use\n",
		},
		{
			"a new queue takes a namespace", "metadata: {name: new}\nspec: {namespaces: {names: [speech]}}\n---\n\n---\nkind: ConfigMap", 3,
			"new: spec.namespaces.names: Queue speech, which is older, names namespace speech, too; it counts there\nnothing changes for the workloads of the cluster\n",
		},
		{
			"a queue that loses its namespace", "metadata: {name: speech}\nspec: {parent: research, quotas: [{gpus: All, nominal: 7}]}", 0,
			"namespace speech, 7 pods with GPUs: from speech to no queue (no Queue takes namespace speech)\n" +
				"speech pod/asr-0: there is quota for it, for which it waits now\nspeech pod/late: there is quota for it, for which it waits now\n",
		},
		{
			"a queue that is drained", "metadata: {name: research}\nspec: {stop: HoldAndDrain, quotas: [{gpus: All, nominal: 14}]}", 0,
			"queue research evicts what runs in it and below: 10 pods\nspeech pod/small: it waits for quota: queue research is stopped (spec.stop) and admits no pods\n",
		},
		{
			"a way to use GPUs that is not allowed any longer", "metadata: {name: research}\nspec: {sharing: [MIG], quotas: [{gpus: All, nominal: 14}]}", 0,
			"queue vision allows only MIG: 10 pods of it use GPUs by Whole and go on: vision/train-0, vision/train-1, vision/train-2, vision/train-3, vision/train-4 and 5 more\n" +
				"speech pod/small: it waits for quota: the pod would use GPUs by Whole, and queue research allows only MIG (spec.sharing)\n",
		},
		{"what the API server refuses", "metadata: {name: vision}\nspec: {quotas: [{gpus: All, nominal: -1}]}", 3, "Queue.berth.dev \"x\" is invalid\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := busyTeams(t)
			dryRuns(s)
			path := filepath.Join(t.TempDir(), "queues.yaml")
			if err := os.WriteFile(path, []byte("apiVersion: berth.dev/v1alpha1\nkind: Queue\n"+tt.file+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			out, stderr, code := s.run("berth", "queue", "check", "-f", path)
			if diff := cmp.Diff(tt.want, out); diff != "" || code != tt.code {
				t.Errorf("exit code %d, want %d; %s\n-want +got\n%s", code, tt.code, stderr, diff)
			}
		})
	}
}

// TestQueueUsersAreThoseOfOwners: the user of a Job's pod is the Job's.
func TestQueueUsersAreThoseOfOwners(t *testing.T) {
	p, yes := pending("speech", "train-0", "9"), true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "j", Controller: &yes}}
	p.Annotations = map[string]string{api.AnnotationUser: "system:serviceaccount:kube-system:job-controller", api.AnnotationUserOf: "j"}
	s := queueStage(t, teams, p)
	job := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{
		"namespace": "speech", "name": "train", "uid": "j", "annotations": map[string]any{api.AnnotationUser: "ann"},
	}}}
	if err := s.dynamic.Tracker().Add(job); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Items []struct{ Name, User, Why string }
	}
	if err := json.Unmarshal([]byte(s.ok("queue", "show", "speech", "-o", "json")), &got); err != nil || len(got.Items) != 1 || got.Items[0].User != "ann" || got.Items[0].Name != "job/train" {
		t.Errorf("the line is %+v, %v", got, err)
	}
}
