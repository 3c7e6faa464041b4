package test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"berth.dev/berth/test/soak"
)

// notebookKills is how often Berth is killed in the middle of what notebooks do.
var notebookKills = soak.Pick(4, 12)

// notebookState is what a user has asked of a notebook, and has had acknowledged.
type notebookState struct {
	gpus    int
	stopped bool
	starts  int             // pods that it may have had: one for each time that it had to start
	pods    map[string]bool // UIDs of those that it has had
}

// notebookUser does to notebooks what users do, and notes what was acknowledged.
type notebookUser struct {
	of     dynamic.ResourceInterface
	chance *rand.Rand
	made   int
	known  map[string]*notebookState
}

// TestNotebooksSurviveKill9 kills Berth at random moments after a user has
// created, changed, stopped, started or deleted notebooks, and starts it again:
// what was acknowledged is what there is in the end, each notebook has one pod
// with the GPUs that it asks for or none, and none has started more often than it
// was told to.
func TestNotebooksSurviveKill9(t *testing.T) {
	t.Parallel()
	takeTurn(t)
	dir := filepath.Join(t.TempDir(), "d")
	purgeAtEnd(t, dir)
	seed := seedOf(t)
	u := &notebookUser{chance: rand.New(rand.NewPCG(seed, 0)), known: map[string]*notebookState{}}
	did := map[string]int{}
	for range notebookKills {
		pid, client := startPlane(t, dir)
		u.connect(t, dir)
		u.settled(t, client)
		for range 3 {
			did[u.act(t)]++
		}
		time.Sleep(time.Duration(u.chance.IntN(800)) * time.Millisecond)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	_, client := startPlane(t, dir)
	u.connect(t, dir)
	u.settled(t, client)
	t.Logf("%d kills after %v: %d notebooks are as they should be", notebookKills, did, len(u.known))
}

// seedOf returns the seed of a test that acts at random: that of $BERTH_SEED, or another
// each time. It is logged, so that what failed can be tried again with the same choices.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("BERTH_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("BERTH_SEED: %v", err)
		}
	}
	t.Logf("BERTH_SEED=%d", seed)
	return seed
}

// connect makes a client of the notebooks of the cluster in a folder.
func (u *notebookUser) connect(t *testing.T, dir string) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	u.of = notebooksOf(t, cfg, "default")
}

// notebooksOf is a client of the notebooks of a namespace.
func notebooksOf(t *testing.T, cfg *rest.Config, namespace string) dynamic.ResourceInterface {
	t.Helper()
	d, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d.Resource(schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: "notebooks"}).Namespace(namespace)
}

// act does one thing that a user may do, and says what. The lab has room for all
// of them.
func (u *notebookUser) act(t *testing.T) string {
	t.Helper()
	names := make([]string, 0, len(u.known))
	for name := range u.known {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) < 3 {
		u.made++
		name := fmt.Sprintf("nb-%d", u.made)
		n := notebook(name, 1)
		if _, err := u.of.Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatalf("create notebook %s: %v", name, err)
		}
		u.known[name] = &notebookState{gpus: 1, starts: 1, pods: map[string]bool{}}
		return "create"
	}
	name := names[u.chance.IntN(len(names))]
	s := u.known[name]
	switch u.chance.IntN(5) {
	case 0:
		if err := u.of.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete notebook %s: %v", name, err)
		}
		delete(u.known, name)
		return "delete"
	case 1, 2:
		if s.stopped = !s.stopped; s.stopped {
			u.patch(t, name, `{"metadata":{"annotations":{"kubeflow-resource-stopped":"2026-01-01T00:00:00Z"}}}`)
			return "stop"
		}
		s.starts++
		u.patch(t, name, `{"metadata":{"annotations":{"kubeflow-resource-stopped":null}}}`)
		return "start"
	case 3:
		u.patch(t, name, `{"metadata":{"labels":{"team":"`+strconv.Itoa(u.chance.IntN(100))+`"}}}`)
		return "label"
	default:
		s.gpus = 3 - s.gpus // 1 or 2
		if !s.stopped {
			s.starts++
		}
		u.patch(t, name, fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/resources","value":{"limits":{"nvidia.com/gpu":"%d"}}}]`, s.gpus))
		return "resize"
	}
}

func (u *notebookUser) patch(t *testing.T, name, patch string) {
	t.Helper()
	kind := types.MergePatchType
	if patch[0] == '[' {
		kind = types.JSONPatchType
	}
	if _, err := u.of.Patch(t.Context(), name, kind, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatalf("patch notebook %s with %s: %v", name, patch, err)
	}
}

// notebook is one that asks for so many GPUs.
func notebook(name string, gpus int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
			"name": name, "image": "registry.example/jupyter:2026.1",
			"resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": strconv.Itoa(gpus)}},
		}}}}},
	}}
}

// settled waits until each notebook is as it was asked for, and fails where it
// does not come to that or has had a pod too many on the way.
func (u *notebookUser) settled(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	why := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if why = u.differs(t, client); why == "" {
			return
		}
	}
	t.Fatalf("%v after the start: %s", patience, why)
}

// differs says what is not as it was asked for; "" is nothing.
func (u *notebookUser) differs(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "notebook-name"})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]*corev1.Pod{}
	for i := range pods.Items {
		p := &pods.Items[i]
		name := p.Labels["notebook-name"]
		s := u.known[name]
		if s == nil {
			return fmt.Sprintf("pod %s of a notebook that was deleted is there; it is to go at %v", p.Name, p.DeletionTimestamp)
		}
		if other := there[name]; other != nil {
			t.Fatalf("notebook %s has two pods, %s and %s", name, other.Name, p.Name)
		}
		if there[name], s.pods[string(p.UID)] = p, true; len(s.pods) > s.starts {
			t.Fatalf("notebook %s has had %d pods, and was to start %d times", name, len(s.pods), s.starts)
		}
	}
	for name, s := range u.known {
		n, err := u.of.Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			t.Fatalf("notebook %s was acknowledged and is lost", name)
		}
		if err != nil {
			t.Fatal(err)
		}
		ready, reason := readyOf(n)
		p := there[name]
		switch {
		case s.stopped && p != nil:
			return fmt.Sprintf("notebook %s is stopped, and its pod is there", name)
		case s.stopped && reason != "Stopped":
			return fmt.Sprintf("notebook %s is stopped, and its condition Ready says %s", name, reason)
		case s.stopped:
		case p == nil || p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil:
			return fmt.Sprintf("notebook %s has no running pod (%s)", name, reason)
		case len(devices(p)) != s.gpus:
			return fmt.Sprintf("notebook %s asks for %d GPUs, and its pod has %d (%s)", name, s.gpus, len(devices(p)), reason)
		case ready != "True":
			return fmt.Sprintf("notebook %s has a running pod, and its condition Ready is %s, %s", name, ready, reason)
		}
	}
	return ""
}

// readyOf is the status and reason of the condition Ready of a notebook.
func readyOf(n *unstructured.Unstructured) (status, reason string) {
	list, _, _ := unstructured.NestedSlice(n.Object, "status", "conditions")
	for _, c := range list {
		if m, ok := c.(map[string]any); ok && m["type"] == "Ready" {
			status, _ = m["status"].(string)
			reason, _ = m["reason"].(string)
		}
	}
	return status, reason
}
