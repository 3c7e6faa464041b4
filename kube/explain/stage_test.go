package explain_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
)

func claiming(names ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		for _, name := range names {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
		}
	}
}

func without(p *v1.Pod) *v1.Pod {
	p.Status.Conditions = nil
	return p
}

// member is a pod of gang g of so many, with GPUs.
func member(name string, gpus int) *v1.Pod {
	return refused([]any{api.ResourceGPU, gpus}, func(p *v1.Pod) {
		p.Name = name
		p.Annotations[api.AnnotationGang], p.Annotations[api.AnnotationGangMinCount] = "g", "6"
	})
}

// TestTheStageIsTold: what keeps a pod from being looked at, or from its node, is told
// before what nodes lack.
//
// rows: GS-71
func TestTheStageIsTold(t *testing.T) {
	fast := "fast-ssd"
	classless := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"}, Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &fast}}
	block := "standard"
	shared := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "model"}, Spec: v1.PersistentVolumeClaimSpec{
		StorageClassName: &block, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteMany},
	}}
	failed := []v1.Event{{
		InvolvedObject: v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "ns", Name: "model"}, Reason: "ProvisioningFailed",
		Message: "access mode ReadWriteMany is not supported",
	}}
	standard := []storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "standard"}}}
	for _, tt := range []struct {
		name   string
		code   reasons.Code
		pod    *v1.Pod
		others []*v1.Pod
		claims []*v1.PersistentVolumeClaim
		says   string
	}{
		{
			"an unknown scheduler", reasons.CodeScheduler, without(refused([]any{api.ResourceGPU, 1}, func(p *v1.Pod) { p.Spec.SchedulerName = "gpu-admission" })),
			[]*v1.Pod{refused([]any{"cpu", 1}, func(p *v1.Pod) { p.Name, p.Spec.SchedulerName = "other", "default-scheduler" })},
			nil,
			"Queued: no scheduler called gpu-admission has looked at it since it was made; pods here are placed by default-scheduler: set schedulerName to one of them, or start that scheduler",
		},
		{
			"a node that does not exist", reasons.CodeNodeName, without(refused([]any{api.ResourceGPU, 1}, func(p *v1.Pod) { p.Spec.NodeName = "a-11" })), nil, nil,
			"NoSuchNode: its nodeName is a-11, and there is no such node; nodes have a-1, a-2; the nearest is a-1; take nodeName out",
		},
		{
			"a gate, by its name", reasons.CodeGate, refused([]any{api.ResourceGPU, 1}, func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/wait"}} }), nil, nil,
			"Queued: blocked by scheduling gate example.com/wait",
		},
		{
			"two claims that are missing", reasons.CodeClaim, refused([]any{api.ResourceGPU, 1}, claiming("data", "home")), nil, nil,
			"MissingVolume: volume claims data and home do not exist in namespace ns; create them",
		},
		{
			"a storage class that is missing, and one claim", reasons.CodeClaim, refused([]any{api.ResourceGPU, 1}, claiming("data", "home")), nil,
			[]*v1.PersistentVolumeClaim{classless},
			"MissingVolume: volume claim home does not exist in namespace ns; create it; volume claim data wants storage class fast-ssd, which does not exist (there are standard)",
		},
		{
			"a storage class that cannot do ReadWriteMany", reasons.CodeClaimRefused, refused([]any{api.ResourceGPU, 1}, claiming("model")), nil,
			[]*v1.PersistentVolumeClaim{shared},
			"MissingVolume: volume claim model has no volume: storage class standard does not provide ReadWriteMany (access mode ReadWriteMany is not supported); use a class that does, or another access mode",
		},
		{
			"a gang that is larger than the cluster", reasons.CodeGangTooLarge, member("m-0", 4),
			[]*v1.Pod{member("m-1", 4), member("m-2", 4)},
			nil,
			"its gang g asks for 24 nvidia.com/gpu in all, and the nodes that it may use have 8, held or not; ask for less, or add nodes",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if len(tt.pod.Spec.SchedulingGates) > 0 {
				tt.pod.Status.Conditions[0].Reason = v1.PodReasonSchedulingGated
			}
			s := explain.Situation{
				Pod: tt.pod, Nodes: []*v1.Node{big("a-1"), big("a-2")}, Pods: append(tt.others, tt.pod), BadClaims: explain.BadClaims(tt.pod, tt.claims, standard, failed),
			}
			f := s.Facts(nil, kubetest.Started.Add(time.Hour))
			r := reasons.Judge(&f)
			if said := string(r.Reason) + ": " + r.Message; !strings.Contains(said, tt.says) || f.Code(&r) != tt.code {
				t.Errorf("it says %s %q\nwant    %s %q", f.Code(&r), said, tt.code, tt.says)
			}
		})
	}
}

// TestAHelpOfAGangHelpsAllOfIt: of six pods of four GPUs one would fit with fewer GPUs, and
// six would not: that is not offered.
func TestAHelpOfAGangHelpsAllOfIt(t *testing.T) {
	pods := []*v1.Pod{member("m-0", 4), member("m-1", 4), member("m-2", 4), member("m-3", 4), member("m-4", 4), member("m-5", 4), holds("h", "a-1", 1, 1)}
	s := explain.Situation{Pod: pods[0], Nodes: []*v1.Node{big("a-1"), big("a-2", cordon)}, Pods: pods}
	f, err := explain.Find(&s, kubetest.Started)
	if err != nil || len(f.Reliefs) != 0 {
		t.Errorf("helps %v, error %v; want none", f.Reliefs, err)
	}
	alone := trial(t, s.Nodes, pods[6]).Reliefs(pods[0])
	if len(alone) != 1 || alone[0].Change != "ask for 3 nvidia.com/gpu instead of 4" {
		t.Errorf("helps for one pod alone are %v, want three instead of four", alone)
	}
}

// TestNoHelpWhereThePodFits: a pod that every check of a node lets in waits for something
// else, which asking for less does not change.
func TestNoHelpWhereThePodFits(t *testing.T) {
	for _, tt := range []struct {
		name string
		pod  *v1.Pod
	}{
		{"for a claim that is missing", refused([]any{api.ResourceGPU, 2}, claiming("data"))},
		{"for whatever it is", refused([]any{api.ResourceGPU, 2})},
		{"and would not, with a claim that is missing", refused([]any{api.ResourceGPU, 6}, claiming("data"))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := explain.Situation{Pod: tt.pod, Nodes: []*v1.Node{big("a-1")}, Pods: []*v1.Pod{tt.pod}, BadClaims: explain.BadClaims(tt.pod, nil, nil, nil)}
			f, err := explain.Find(&s, kubetest.Started)
			if err != nil || len(f.Reliefs) != 0 || len(f.Stops) != 0 {
				t.Errorf("helps %v, stops %v, error %v; want none", f.Reliefs, f.Stops, err)
			}
		})
	}
}

// TestTwoJobsShareAVolume: two Jobs mount one claim. One that only one node may have at a time
// keeps the second from starting, and the first is named; the scheduler's words for it are
// those of the attach/detach controller.
//
// rows: GS-97
func TestTwoJobsShareAVolume(t *testing.T) {
	nodes := []*v1.Node{big("a-1"), big("a-2")}
	first, second := holds("first", "a-1", 1, 1, claiming("fast-ssd-pvc")), holds("second", "a-2", 1, 1, claiming("fast-ssd-pvc"))
	second.Status = v1.PodStatus{Phase: v1.PodPending}
	attach := v1.Event{
		InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "second"}, Reason: "FailedAttachVolume", Type: v1.EventTypeWarning,
		Message: `Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one node and can't be attached to another`,
	}
	s := explain.Situation{Pod: second, Nodes: nodes, Pods: []*v1.Pod{first, second}}
	f := s.Facts([]v1.Event{attach}, kubetest.Started)
	r := reasons.Judge(&f)
	want := "volume claim fast-ssd-pvc is used by pod first on node a-1, and only one node may have it at a time (ReadWriteOnce)"
	if r.Reason != reasons.VolumeInUse || f.Code(&r) != reasons.CodeMount || !strings.HasPrefix(r.Message, want) {
		t.Errorf("it says %s %s: %s\nwant %q", f.Code(&r), r.Reason, r.Message, want)
	}
	second.Status = v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}
	f = s.Facts(nil, kubetest.Started)
	if r := reasons.Judge(&f); r.Reason != reasons.Ready {
		t.Errorf("of a volume that several nodes may have it says %s: %s", r.Reason, r.Message)
	}
}

// TestAModelServiceUsesTheVolumeOfAJob has a predictor mount the claim that a Job has written, which one node may have at a time:
// while the Job runs on another node, its pod and that node are named, and once it has ended nothing is.
//
// rows: ML-44
func TestAModelServiceUsesTheVolumeOfAJob(t *testing.T) {
	job, predictor := holds("mnist-training-x", "a-1", 1, 1, claiming("model-storage")), holds("mnist-predictor-x", "a-2", 1, 1, claiming("model-storage"))
	predictor.Status = v1.PodStatus{Phase: v1.PodPending}
	attach := v1.Event{
		InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "mnist-predictor-x"}, Reason: "FailedAttachVolume", Type: v1.EventTypeWarning,
		Message: `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) mnist-training-x`,
	}
	s := explain.Situation{Pod: predictor, Nodes: []*v1.Node{big("a-1"), big("a-2")}, Pods: []*v1.Pod{job, predictor}}
	f := s.Facts([]v1.Event{attach}, kubetest.Started)
	want := "volume claim model-storage is used by pod mnist-training-x on node a-1, and only one node may have it at a time (ReadWriteOnce); stop that pod"
	if r := reasons.Judge(&f); r.Reason != reasons.VolumeInUse || !strings.HasPrefix(r.Message, want) {
		t.Errorf("while the Job runs it says %s: %s\nwant %q", r.Reason, r.Message, want)
	}
	job.Status.Phase = v1.PodSucceeded
	f = s.Facts(nil, kubetest.Started)
	if r := reasons.Judge(&f); r.Reason != reasons.Starting || strings.Contains(r.Message, "model-storage") {
		t.Errorf("when the Job has ended it says %s: %s", r.Reason, r.Message)
	}
}
