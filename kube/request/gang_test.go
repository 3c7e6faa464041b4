package request_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gang"
	"berth.dev/berth/kube/request"
)

func TestGangOf(t *testing.T) {
	job := func(p *v1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "j1", Controller: new(true)}}
	}
	trains := func(kind string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubeflow.org/v1", Kind: kind, Name: "mnist", UID: "t1", Controller: new(true)}}
		}
	}
	object := func(kind request.GangKind, name string) *request.GangObject {
		return &request.GangObject{Kind: kind, Namespace: "ml", Name: name}
	}
	for _, tt := range []struct {
		name string
		pod  func(p *v1.Pod)
		want *request.Gang
		err  string
	}{
		{name: "a pod without any of the names", pod: func(*v1.Pod) {}},
		{name: "a Job that has not opted in", pod: job},
		{
			name: "an annotation with a count",
			pod: func(p *v1.Pod) {
				p.Annotations = map[string]string{api.AnnotationGang: "train", api.AnnotationGangMinCount: "4", api.AnnotationTopology: "rack"}
			},
			want: &request.Gang{Namespace: "ml", Name: "train", Key: "ml/train", MinCount: 4, Within: gang.Rack},
		},
		{
			name: "a Job says the count itself",
			pod: func(p *v1.Pod) {
				job(p)
				p.Annotations = map[string]string{api.AnnotationGang: "train"}
			},
			want: &request.Gang{Namespace: "ml", Name: "train", Key: "jobs.batch/ml/train/j1", Object: object(request.GangJob, "train"), Within: gang.Cluster},
		},
		{
			name: "a JobSet counts over all its Jobs",
			pod: func(p *v1.Pod) {
				job(p)
				p.Annotations, p.Labels = map[string]string{api.AnnotationGang: "train"}, map[string]string{api.LabelJobSet: "set"}
			},
			want: &request.Gang{Namespace: "ml", Name: "train", Key: "jobsets.jobset.x-k8s.io/ml/set", Object: object(request.GangJobSet, "set"), Within: gang.Cluster},
		},
		{
			name: "the pods of a TFJob are a gang by themselves",
			pod:  trains("TFJob"),
			want: &request.Gang{Namespace: "ml", Name: "mnist", Key: "tfjobs.kubeflow.org/ml/mnist/t1", Object: object(request.GangTFJob, "mnist"), Within: gang.Cluster},
		},
		{
			name: "the pods of a TrainJob, which have the labels of a JobSet, with a name of their own",
			pod: func(p *v1.Pod) {
				trains("TrainJob")(p)
				p.OwnerReferences[0].APIVersion = "trainer.kubeflow.org/v1alpha1"
				p.Annotations, p.Labels = map[string]string{api.AnnotationGang: "mine"}, map[string]string{api.LabelJobSet: "mnist"}
			},
			want: &request.Gang{Namespace: "ml", Name: "mine", Key: "trainjobs.trainer.kubeflow.org/ml/mnist/t1", Object: object(request.GangTrainJob, "mnist"), Within: gang.Cluster},
		},
		{
			name: "the pods of a PyTorchJob with a name of their own",
			pod: func(p *v1.Pod) {
				trains("PyTorchJob")(p)
				p.Annotations = map[string]string{api.AnnotationGang: "mine"}
			},
			want: &request.Gang{Namespace: "ml", Name: "mine", Key: "pytorchjobs.kubeflow.org/ml/mnist/t1", Object: object(request.GangPyTorchJob, "mnist"), Within: gang.Cluster},
		},
		{
			name: "the pods of a TFJob that start with two",
			pod: func(p *v1.Pod) {
				trains("TFJob")(p)
				p.Annotations = map[string]string{api.AnnotationGangMinCount: "2"}
			},
			want: &request.Gang{Namespace: "ml", Name: "mnist", Key: "tfjobs.kubeflow.org/ml/mnist/t1", MinCount: 2, Within: gang.Cluster},
		},
		{
			name: "a TFJob that Volcano gangs",
			pod: func(p *v1.Pod) {
				trains("TFJob")(p)
				p.Annotations = map[string]string{"scheduling.k8s.io/group-name": "g"}
			},
			want: &request.Gang{Namespace: "ml", Name: "g", Key: "podgroups.scheduling.volcano.sh/ml/g", Object: object(request.GangPodGroupVolcano, "g"), Within: gang.Cluster},
		},
		{
			name: "a kind of the same name in another group",
			pod: func(p *v1.Pod) {
				trains("TFJob")(p)
				p.OwnerReferences[0].APIVersion = "example.com/v1"
			},
		},
		{
			name: "a PodGroup of Kubernetes",
			pod: func(p *v1.Pod) {
				p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("g")}
			},
			want: &request.Gang{Namespace: "ml", Name: "g", Key: "podgroups.scheduling.k8s.io/ml/g", Object: object(request.GangPodGroup, "g"), Within: gang.Cluster},
		},
		{
			name: "a PodGroup of coscheduling",
			pod:  func(p *v1.Pod) { p.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "g"} },
			want: &request.Gang{Namespace: "ml", Name: "g", Key: "podgroups.scheduling.x-k8s.io/ml/g", Object: object(request.GangPodGroupX, "g"), Within: gang.Cluster},
		},
		{
			name: "a PodGroup of Volcano",
			pod:  func(p *v1.Pod) { p.Annotations = map[string]string{"scheduling.k8s.io/group-name": "g"} },
			want: &request.Gang{Namespace: "ml", Name: "g", Key: "podgroups.scheduling.volcano.sh/ml/g", Object: object(request.GangPodGroupVolcano, "g"), Within: gang.Cluster},
		},
		{
			name: "a PodGroup of Volcano by its own name",
			pod:  func(p *v1.Pod) { p.Annotations = map[string]string{"scheduling.volcano.sh/group-name": "g"} },
			want: &request.Gang{Namespace: "ml", Name: "g", Key: "podgroups.scheduling.volcano.sh/ml/g", Object: object(request.GangPodGroupVolcano, "g"), Within: gang.Cluster},
		},
		{
			name: "a PodGroup of KAI",
			pod:  func(p *v1.Pod) { p.Annotations = map[string]string{"pod-group-name": "g"} },
			want: &request.Gang{Namespace: "ml", Name: "g", Key: "podgroups.scheduling.run.ai/ml/g", Object: object(request.GangPodGroupKAI, "g"), Within: gang.Cluster},
		},
		{
			name: "the annotation goes before a PodGroup",
			pod: func(p *v1.Pod) {
				p.Annotations = map[string]string{api.AnnotationGang: "train", api.AnnotationGangMinCount: "4", "pod-group-name": "g"}
			},
			want: &request.Gang{Namespace: "ml", Name: "train", Key: "ml/train", MinCount: 4, Within: gang.Cluster},
		},
		{
			name: "a count that is none",
			pod: func(p *v1.Pod) {
				p.Annotations = map[string]string{api.AnnotationGang: "train", api.AnnotationGangMinCount: "all"}
			},
			err: `annotation berth.dev/gang-min-count: "all" is not a valid pod count: give a number from 1 to 1048576`,
		},
		{
			name: "a count that no cluster has room for",
			pod: func(p *v1.Pod) {
				p.Annotations = map[string]string{api.AnnotationGang: "train", api.AnnotationGangMinCount: "9223372036854775807"}
			},
			err: `annotation berth.dev/gang-min-count: "9223372036854775807" is not a valid pod count: give a number from 1 to 1048576`,
		},
		{
			name: "no count where no Job has one",
			pod:  func(p *v1.Pod) { p.Annotations = map[string]string{api.AnnotationGang: "train"} },
			err:  "gang train: its size is not set: add the annotation berth.dev/gang-min-count to its pods",
		},
		{
			name: "a level that is none",
			pod: func(p *v1.Pod) {
				p.Annotations = map[string]string{api.AnnotationGang: "train", api.AnnotationGangMinCount: "4", api.AnnotationTopology: "row"}
			},
			err: `annotation berth.dev/topology: topology level "row": it is one of [clique node fabric rack zone cluster]`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "p"}}
			tt.pod(pod)
			got, err := request.GangOf(pod)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err || got == nil || got.Key == "" {
					t.Errorf("got %+v, %v; want a gang with a key and %s", got, err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("%v; -want +got\n%s", err, diff)
			}
		})
	}
}

func TestObjectsSayHowManyMembersAGangHas(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kind   request.GangKind
		object string
		want   int
	}{
		{"a PodGroup of Kubernetes", request.GangPodGroup, `{"spec":{"schedulingPolicy":{"gang":{"minCount":4}}}}`, 4},
		{"a PodGroup of Kubernetes that is no gang", request.GangPodGroup, `{"spec":{"schedulingPolicy":{"basic":{}}}}`, 1},
		{"a PodGroup of coscheduling", request.GangPodGroupX, `{"spec":{"minMember":3}}`, 3},
		{"a PodGroup of coscheduling without a number", request.GangPodGroupX, `{"spec":{}}`, 1},
		{"a PodGroup of Volcano", request.GangPodGroupVolcano, `{"spec":{"minMember":5,"queue":"q"}}`, 5},
		{"a PodGroup of KAI", request.GangPodGroupKAI, `{"spec":{"minMember":6}}`, 6},
		{"a Job", request.GangJob, `{"spec":{"parallelism":4,"completions":8}}`, 4},
		{"a Job that is done by fewer than it may run at once", request.GangJob, `{"spec":{"parallelism":4,"completions":3}}`, 3},
		{"a Job of which a pod has ended well", request.GangJob, `{"spec":{"parallelism":4,"completions":4},"status":{"succeeded":1}}`, 3},
		{"a Job without numbers", request.GangJob, `{}`, 1},
		{"a TFJob", request.GangTFJob, `{"spec":{"tfReplicaSpecs":{"chief":{},"Worker":{"replicas":3}}}}`, 4},
		{"a TFJob that may start with fewer", request.GangTFJob, `{"spec":{"tfReplicaSpecs":{"Worker":{"replicas":3}},"runPolicy":{"schedulingPolicy":{"minAvailable":2}}}}`, 2},
		{"a TFJob of which a worker has succeeded", request.GangTFJob, `{"spec":{"tfReplicaSpecs":{"Worker":{"replicas":3}}},"status":{"replicaStatuses":{"Worker":{"active":2,"succeeded":1}}}}`, 2},
		{"an elastic PyTorchJob", request.GangPyTorchJob, `{"spec":{"elasticPolicy":{"minReplicas":1,"maxReplicas":4},"pytorchReplicaSpecs":{"Master":{"replicas":1},"Worker":{"replicas":4}}}}`, 2},
		{"a TrainJob with the nodes of its runtime", request.GangTrainJob, `{"metadata":{"annotations":{"berth.dev/runtime":` + strconv.Quote(trainRuntime) + `}},"spec":{"runtimeRef":{"name":"r"}}}`, 3},
		{"a TrainJob that sets its number of nodes, one of which has succeeded", request.GangTrainJob, `{"metadata":{"annotations":{"berth.dev/succeeded":"1","berth.dev/runtime":` + strconv.Quote(trainRuntime) + `}},"spec":{"runtimeRef":{"name":"r"},"trainer":{"numNodes":5}}}`, 4},
		{
			"a JobSet", request.GangJobSet,
			`{"spec":{"replicatedJobs":[{"name":"driver","template":{"spec":{"parallelism":1}}},{"name":"workers","replicas":2,"template":{"spec":{"parallelism":4,"completions":4}}}]}}`, 9,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var object map[string]any
			if err := json.Unmarshal([]byte(tt.object), &object); err != nil {
				t.Fatal(err)
			}
			if got, err := tt.kind.MinCount(object); got != tt.want || err != nil {
				t.Errorf("%s: %d, %v; want %d", tt.object, got, err, tt.want)
			}
		})
	}
	if _, err := request.GangPodGroupX.MinCount(map[string]any{"spec": map[string]any{"minMember": int64(1 << 40)}}); err == nil || !strings.Contains(err.Error(), "PodGroup of scheduling.x-k8s.io/v1alpha1") {
		t.Errorf("a gang of 2^40 pods: %v", err)
	}
}

// trainRuntime is a runtime of three nodes.
const trainRuntime = `{"mlPolicy":{"numNodes":3,"torch":{}},"template":{"spec":{"replicatedJobs":[{"name":"node","template":{"metadata":{"labels":{"trainer.kubeflow.org/trainjob-ancestor-step":"trainer"}},"spec":{"template":{"spec":{"containers":[{"name":"node","image":"x"}]}}}}}]}}}`

func TestPlaceOfANode(t *testing.T) {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/rack": "r", "nvidia.com/gpu.clique": "c.1",
	}}}
	if diff := cmp.Diff(gang.Place{Fabric: "c.1", Rack: "r", Zone: "z"}, request.Place(n)); diff != "" {
		t.Error(diff)
	}
	n.Labels[api.LabelRack] = "own"
	if got := request.Place(n).Rack; got != "own" {
		t.Errorf("rack %s", got)
	}
}

func TestPodsThatKeepOneAnotherAway(t *testing.T) {
	term := func(key, value string) v1.PodAffinityTerm {
		return v1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"job": value}}}
	}
	for _, tt := range []struct {
		name  string
		terms []v1.PodAffinityTerm
		want  string
	}{
		{"no affinity", nil, ""},
		{"its own kind, by node", []v1.PodAffinityTerm{term("kubernetes.io/hostname", "train")}, "job=train"},
		{"its own kind, by zone", []v1.PodAffinityTerm{term("topology.kubernetes.io/zone", "train")}, ""},
		{"another kind, by node", []v1.PodAffinityTerm{term("kubernetes.io/hostname", "web")}, ""},
		{"the second of two", []v1.PodAffinityTerm{term("kubernetes.io/hostname", "web"), term("kubernetes.io/hostname", "train")}, "job=train"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Labels: map[string]string{"job": "train"}}}
			if tt.terms != nil {
				pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: tt.terms}}
			}
			if got := request.Apart(pod); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
