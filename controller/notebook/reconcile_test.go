package notebook_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/core/explain"
)

// rows: NB-15 NB-31 NB-37

func TestANotebookGetsReady(t *testing.T) {
	w := newWorld(t)
	w.must(w.bare.Create(t.Context(), w.node(8)))
	w.apply(asking("nb", 1))

	writes := w.reconcile()
	if want := []string{"create Service", "create StatefulSet"}; !slices.Equal(writes, want) {
		t.Errorf("first pass writes %q, want %q", writes, want)
	}
	w.now = w.now.Add(time.Second)
	if writes := w.reconcile(); !slices.Equal(writes, []string{"patch status of Notebook"}) {
		t.Errorf("after a second it writes %q, want its status", writes)
	}
	if got, want := said(w.get("nb"), "Ready"), "False Starting: its pod is being made and placed"; got != want {
		t.Errorf("Ready is %q, want %q", got, want)
	}
	w.sets()
	if writes := w.reconcile(); len(writes) > 0 {
		t.Errorf("a pod that was not looked at yet makes it write %q", writes)
	}
	w.schedule()
	w.reconcile()
	w.now = w.now.Add(time.Second)
	w.reconcile()
	if got, want := said(w.get("nb"), "GPUQueued"), "False Bound: n1"; got != want {
		t.Errorf("GPUQueued is %q, want %q", got, want)
	}
	w.now = w.now.Add(3 * time.Second)
	w.run()
	w.reconcile()
	nb := w.get("nb")
	if got, want := said(nb, "Ready"), "True Ready: on node n1"; got != want {
		t.Errorf("Ready is %q, want %q", got, want)
	}
	if nb.Status.ReadyReplicas != 1 || nb.Status.ContainerState.Running == nil {
		t.Errorf("status is %+v, want 1 ready replica and a running container", nb.Status)
	}
	if kind := nb.Status.Conditions[0].Type; kind != "Ready" {
		t.Errorf("the first condition is %s, want Ready", kind)
	}
	want := []string{"Normal Bound: bound to node n1", "Normal Ready: on node n1"}
	if got := w.told("nb"); !slices.Equal(got, want) {
		t.Errorf("events are %q, want %q", got, want)
	}
	for range 2 {
		w.now = w.now.Add(time.Minute)
		if writes := w.reconcile(); len(writes) > 0 {
			t.Errorf("at rest it writes %q", writes)
		}
	}
	w.restart()
	if writes := w.reconcile(); len(writes) > 0 {
		t.Errorf("after a restart of Berth it writes %q", writes)
	}
}

// TestAQuickStartIsToldOnce: what starts within a second costs one write of its
// status, and two events.
func TestAQuickStartIsToldOnce(t *testing.T) {
	w := newWorld(t)
	w.must(w.bare.Create(t.Context(), w.node(8)))
	w.apply(asking("nb", 1))
	w.reconcile()
	w.sets()
	w.reconcile()
	w.schedule()
	w.reconcile()
	w.run()
	w.reconcile()
	want := []string{"create Service", "create StatefulSet", "create Event Bound", "create Event Ready", "patch status of Notebook"}
	if !slices.Equal(w.writes, want) {
		t.Errorf("it writes %q, want %q", w.writes, want)
	}
}

func TestAWaitingNotebookSaysItsPlace(t *testing.T) {
	w := newWorld(t)
	w.gpus = 1
	w.must(w.bare.Create(t.Context(), w.node(1)))
	for _, name := range []string{"a", "b", "c"} {
		w.apply(asking(name, 1))
		w.now = w.now.Add(time.Second)
		w.settle()
	}
	for name, want := range map[string]string{
		"a": "False Bound: n1", "b": "True Waiting: 1st of 2 that wait for nvidia.com/gpu", "c": "True Waiting: 2nd of 2 that wait for nvidia.com/gpu",
	} {
		w.reconcile() // the manager looks again at those whose place has changed
		if got := said(w.get(name), "GPUQueued"); got != want {
			t.Errorf("GPUQueued of %s is %q, want %q", name, got, want)
		}
	}
	want := "False Queued: waits for 1 nvidia.com/gpu; of 1 that nodes offer it, no node has that many free; " +
		"2nd of 2 that wait for nvidia.com/gpu; held by a (1)"
	if got := said(w.get("c"), "Ready"); got != want {
		t.Errorf("Ready of c is\n%q, want\n%q", got, want)
	}
}

// TestWhatWaitingCannotHelpStandsInNoLine: one that nothing but its user can help is
// not counted before others, after a restart of Berth either.
func TestWhatWaitingCannotHelpStandsInNoLine(t *testing.T) {
	w := newWorld(t)
	w.gpus = 1
	w.must(w.bare.Create(t.Context(), w.node(1)))
	for _, nb := range []*kubeflow.Notebook{asking("a", 1), asking("huge", 9), asking("b", 1)} {
		w.apply(nb)
		w.now = w.now.Add(time.Second)
		w.settle()
	}
	for range 2 {
		if got, want := said(w.get("b"), "GPUQueued"), "True Waiting: the only one that waits for nvidia.com/gpu"; got != want {
			t.Errorf("GPUQueued of b is %q, want %q", got, want)
		}
		if got, want := said(w.get("huge"), "GPUQueued"), "False Held: -"; got != want {
			t.Errorf("GPUQueued of huge is %q, want %q", got, want)
		}
		w.restart()
		if writes := w.reconcile(); len(writes) > 0 {
			t.Errorf("after a restart it writes %q", writes)
		}
	}
}

// TestANotebookIsBehindThoseThatItCompetesWith: the line of those that could use a
// T4 alone is not the line of those that could use an A100, after a restart of Berth
// either.
func TestANotebookIsBehindThoseThatItCompetesWith(t *testing.T) {
	w := newWorld(t)
	w.gpus = 0
	t4 := w.node(4)
	t4.Name, t4.Labels[api.LabelProduct] = "t4", "Tesla-T4"
	w.must(w.bare.Create(t.Context(), w.node(8)))
	w.must(w.bare.Create(t.Context(), t4))
	for name, product := range map[string]string{"a": "NVIDIA-A100-SXM4-40GB", "b": "NVIDIA-A100-SXM4-40GB", "t": "Tesla-T4"} {
		w.apply(notebookOf(name, fmt.Sprintf(`{"nodeSelector":{%q:%q},"containers":[{"name":%q,"image":"x/y:1","resources":{"limits":{"nvidia.com/gpu":"1"}}}]}`, api.LabelProduct, product, name)))
		w.settle()
	}
	w.reconcile()
	for range 2 {
		if got, want := said(w.get("t"), "GPUQueued"), "True Waiting: the only one that waits for nvidia.com/gpu"; got != want {
			t.Errorf("GPUQueued of t is %q, want %q", got, want)
		}
		for _, name := range []string{"a", "b"} {
			if got := said(w.get(name), "GPUQueued"); !strings.HasSuffix(got, " of 2 that wait for nvidia.com/gpu") {
				t.Errorf("GPUQueued of %s is %q, want it one of 2", name, got)
			}
		}
		w.restart()
		if writes := w.reconcile(); len(writes) > 0 {
			t.Errorf("after a restart it writes %q", writes)
		}
	}
}

func TestAskingForWhatNoNodeHasIsSaid(t *testing.T) {
	w := newWorld(t)
	w.must(w.bare.Create(t.Context(), w.node(8)))
	w.apply(asking("nb", 16))
	w.settle()
	want := "False NoSuchGPU: it asks for 16 nvidia.com/gpu, and no node that it may use has more than 8; ask for less"
	if got := said(w.get("nb"), "Ready"); got != want {
		t.Errorf("Ready is %q, want %q", got, want)
	}
}

// rows: NB-43 NB-44

func TestARefusalIsSaidOnTheNotebook(t *testing.T) {
	w := newWorld(t)
	w.refuse = `pods "nb-0" is forbidden: exceeded quota: gpu-quota, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2`
	w.apply(asking("nb", 1))
	w.reconcile()
	w.sets()
	w.reconcile()
	want := "False Quota: quota gpu-quota of namespace team-a allows 2 of requests.nvidia.com/gpu, 2 are used, and this asks for 1; " +
		"stop another notebook, ask for less, or ask for a larger quota"
	if got := said(w.get("nb"), "Ready"); got != want {
		t.Errorf("Ready is %q, want %q", got, want)
	}
	if got := w.told("nb"); !slices.ContainsFunc(got, func(s string) bool {
		return strings.HasPrefix(s, "Warning FailedCreate: Reissued from statefulset/nb: create Pod nb-0")
	}) {
		t.Errorf("events are %q, want the StatefulSet's reissued", got)
	}
	w.refuse = ""
	w.settle()
	if got := reason(w.get("nb")); got != explain.Ready {
		t.Errorf("after the quota has room Ready's reason is %s", got)
	}
}

func TestStopAndStart(t *testing.T) {
	w := newWorld(t)
	w.must(w.bare.Create(t.Context(), w.node(8)))
	nb := notebookOf("nb", `{"containers":[{"name":"nb","image":"x/y:1","resources":{"limits":{"nvidia.com/gpu":1}}}],
		"volumes":[{"name":"home","persistentVolumeClaim":{"claimName":"claim-ada"}}]}`)
	w.apply(nb)
	w.settle()
	nb.Annotations = map[string]string{api.AnnotationStopped: "2026-11-21T09:00:00Z", api.AnnotationNotebookStoppedFor: "no kernel ran for 60m."}
	w.apply(nb)
	w.settle()
	want := "False Stopped: stopped: no kernel ran for 60m; kept: volume claim claim-ada; to start it: kubectl annotate notebook nb -n team-a kubeflow-resource-stopped-"
	if got := said(w.get("nb"), "Ready"); got != want {
		t.Errorf("Ready is %q, want %q", got, want)
	}
	if got, want := said(w.get("nb"), "GPUQueued"), "False Stopped: -"; got != want {
		t.Errorf("GPUQueued is %q, want %q", got, want)
	}
	if got := w.get("nb").Status; got.ReadyReplicas != 0 || got.ContainerState.Running != nil {
		t.Errorf("status of a stopped notebook is %+v", got)
	}
	nb.Annotations = nil
	w.apply(nb)
	w.settle()
	if got := reason(w.get("nb")); got != explain.Ready {
		t.Errorf("started again, Ready's reason is %s", got)
	}
	event := "Normal Started: restarted with PersistentVolumeClaim claim-ada; the contents of memory and of other directories are lost"
	if got := w.told("nb"); !slices.Contains(got, event) {
		t.Errorf("events are %q, want %q among them", got, event)
	}
	if len(w.born) != 2 {
		t.Errorf("%d pods were made, want 2", len(w.born))
	}
}

// rows: NB-47

func TestTheStateIsThatOfTheFirstContainerWhateverItsName(t *testing.T) {
	w := newWorld(t)
	w.apply(notebookOf("nb", `{"containers":[{"name":"notebook","image":"x/y:1"},{"name":"side","image":"z:2"}]}`))
	w.settle()
	if got := w.get("nb").Status.ContainerState; got.Running == nil {
		t.Errorf("containerState is %+v, want that of the container notebook, which runs", got)
	}
}

func TestWhatIsChangedByHandIsPutRight(t *testing.T) {
	w := newWorld(t)
	w.apply(asking("nb", 0))
	w.settle()
	key := types.NamespacedName{Namespace: namespace, Name: "nb"}
	for name, change := range map[string]func(*appsv1.StatefulSet){
		"replicas":    func(s *appsv1.StatefulSet) { n := int32(3); s.Spec.Replicas = &n },
		"the image":   func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "evil:1" },
		"an addition": func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.NodeSelector = map[string]string{"a": "b"} },
	} {
		var s appsv1.StatefulSet
		w.must(w.bare.Get(t.Context(), key, &s))
		want := s.Spec.DeepCopy()
		change(&s)
		s.Generation++
		w.must(w.bare.Update(t.Context(), &s))
		w.reconcile()
		var got appsv1.StatefulSet
		w.must(w.bare.Get(t.Context(), key, &got))
		if !alike(*want, got.Spec) {
			t.Errorf("%s is not put right: %+v", name, got.Spec)
		}
		w.settle()
	}
	if len(w.born) != 1 {
		t.Errorf("%d pods were made, want the 1 that ran all the time", len(w.born))
	}
	var svc corev1.Service
	w.must(w.bare.Get(t.Context(), key, &svc))
	svc.Spec.Selector = map[string]string{"app": "other"}
	w.must(w.bare.Update(t.Context(), &svc))
	w.reconcile()
	w.must(w.bare.Get(t.Context(), key, &svc))
	if svc.Spec.Selector[api.LabelStatefulSet] != "nb" {
		t.Errorf("the Service selects %v, want the notebook's pod", svc.Spec.Selector)
	}
}

func TestNamesOfOthersAreLeftAlone(t *testing.T) {
	others := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "nb", UID: "other"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "theirs"}},
	}
	w := newWorld(t, others)
	w.apply(asking("nb", 1))
	w.settle()
	want := "False Refused: a Service named nb in namespace team-a does not belong to this notebook; rename the notebook, or delete that object (kubectl delete Service nb -n team-a)"
	if got := said(w.get("nb"), "Ready"); got != want {
		t.Errorf("Ready is %q, want %q", got, want)
	}
	var svc corev1.Service
	w.must(w.bare.Get(t.Context(), client.ObjectKeyFromObject(others), &svc))
	if svc.Spec.Selector["app"] != "theirs" || len(w.born) != 0 {
		t.Errorf("the Service of others is %+v, and %d pods were made", svc.Spec, len(w.born))
	}
}

func TestRunningNotebooksOfKubeflowAreTakenOverAsTheyAre(t *testing.T) {
	w := newWorld(t)
	w.must(w.bare.Create(t.Context(), w.node(8)))
	w.apply(asking("nb", 1))
	w.settle()
	w.madeByKubeflow("nb")
	w.restart()
	w.settle()
	nb := asking("nb", 1)
	nb.Labels = map[string]string{"team": "a"} // no reason to restart
	w.apply(nb)
	w.settle()
	if len(w.born) != 1 {
		t.Fatalf("%d pods were made, want the 1 that ran all the time", len(w.born))
	}
	w.apply(asking("nb", 2))
	w.settle()
	if len(w.born) != 2 {
		t.Errorf("after a change %d pods were made, want 2", len(w.born))
	}
}

func TestInOtherModesNothingIsDone(t *testing.T) {
	for _, mode := range []runtime.Mode{runtime.Govern, runtime.Off} {
		w := newWorld(t)
		w.o.Mode = func() runtime.Mode { return mode }
		w.restart()
		w.apply(asking("nb", 1))
		if writes := w.reconcile(); len(writes) > 0 {
			t.Errorf("mode %s writes %q", mode, writes)
		}
	}
}

// rows: NB-54

func TestImagesAreRemarkedOnBeforeTheWait(t *testing.T) {
	w := newWorld(t)
	w.must(w.bare.Create(t.Context(), w.node(8)))
	w.apply(notebookOf("nb", `{"containers":[{"name":"nb","image":"x/torch:cuda12.4","resources":{"limits":{"nvidia.com/gpu":1}}},{"name":"side","image":"y/z"}]}`))
	w.reconcile()
	want := []string{
		"Warning DriverTooOld: image x/torch:cuda12.4 needs CUDA 12.4 (says its tag), and the newest driver of the nodes that it may use gives 12.2; choose an image for CUDA 12.2 or older, or update the driver",
		"Warning ImageTag: image y/z has no tag, so that it is what is newest when it starts; name a version",
	}
	if got := w.told("nb"); !slices.Equal(got, want) {
		t.Errorf("events are\n%q, want\n%q", got, want)
	}
	// What the image needs may stand in its environment, and init containers have images, too.
	w.apply(notebookOf("env", `{"initContainers":[{"name":"copy","image":"y/copy:latest"}],"containers":[{"name":"env","image":"x/torch:1",
		"env":[{"name":"NVIDIA_REQUIRE_CUDA","value":"cuda>=12.6 driver>=525"}],"resources":{"limits":{"nvidia.com/gpu":1}}}]}`))
	w.reconcile()
	want = []string{
		"Warning DriverTooOld: image x/torch:1 needs CUDA 12.6 (says NVIDIA_REQUIRE_CUDA), and the newest driver of the nodes that it may use gives 12.2; choose an image for CUDA 12.2 or older, or update the driver",
		"Warning ImageTag: image y/copy:latest is whatever is newest when it starts; name a version instead of latest",
	}
	if got := w.told("env"); !slices.Equal(got, want) {
		t.Errorf("events are\n%q, want\n%q", got, want)
	}
}

// rows: JH-37

// TestANotebookThatWaitsForDaysStaysWaiting: no time that passes makes a failure of a
// wait. Its cause stays told, nothing is written in the meantime, and it starts when there is
// room.
func TestANotebookThatWaitsForDaysStaysWaiting(t *testing.T) {
	w := newWorld(t)
	w.gpus = 1
	w.must(w.bare.Create(t.Context(), w.node(1)))
	for _, name := range []string{"a", "b"} {
		w.apply(asking(name, 1))
		w.now = w.now.Add(time.Second)
		w.settle()
	}
	was := w.get("b").Status
	for range 12 {
		w.now = w.now.Add(6 * time.Hour)
		if wrote := w.reconcile(); len(wrote) > 0 {
			t.Fatalf("at %v it wrote %v, want nothing", w.now, wrote)
		}
	}
	if is := w.get("b"); reason(is) != explain.Queued || said(is, "Ready") != "False Queued: "+was.Condition("Ready").Message {
		t.Errorf("after three days Ready is %q, want it as it was: %q", said(is, "Ready"), was.Condition("Ready").Message)
	}
	w.gpus = 2 // a node was added
	w.settle()
	if got := reason(w.get("b")); got != explain.Ready {
		t.Errorf("with a GPU for it, it is %s, want Ready", got)
	}
}
