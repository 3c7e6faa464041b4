package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestALateBindingOfTheLeaderBeforeIsRefused holds up what the scheduler that leads sends, until another leads and has given its GPUs to
// another pod. Then its binding arrives, which the API server could not tell from that of a leader. The judge finds no GPU given twice.
func TestALateBindingOfTheLeaderBeforeIsRefused(t *testing.T) {
	t.Parallel()
	takeTurn(t)
	dir := filepath.Join(t.TempDir(), "d")
	purgeAtEnd(t, dir)
	_, client := startPlane(t, dir, "--scheduler", "none")
	j := newJudge(t, client, nil)
	pods := client.CoreV1().Pods("default")
	create := func(name string, gpus int64, selector map[string]string) {
		t.Helper()
		pod := asking(name, "nvidia.com/gpu", gpus)
		pod.Spec.NodeSelector = selector
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const node = "gpu-node-1"
	label := func(value string) {
		t.Helper()
		if _, err := client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(`{"metadata":{"labels":{"late":`+value+`}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	bound := func(name string) func() bool {
		return func() bool {
			p, err := pods.Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && p.Spec.NodeName == node
		}
	}
	label(`"yes"`)
	before := newMember(t, dir, "-v", "3")
	create("first", 1, map[string]string{"late": "yes"})
	await(t, "a scheduler binds where the label is", bound("first"))
	was := leading(t.Context(), client)

	release := before.proxy.hold()
	create("late", 4, map[string]string{"late": "yes"})
	await(t, "the scheduler tries the pod", func() bool {
		raw, err := os.ReadFile(before.log.Name())
		return err == nil && strings.Contains(string(raw), `"Attempting to schedule pod" pod="default/late"`)
	})
	time.Sleep(time.Second) // until its binding is held up, of which there is no event
	before.signal(syscall.SIGKILL)
	label("null") // so that the next leader does not bind it
	newMember(t, dir)
	create("second", 6, map[string]string{"kubernetes.io/hostname": node})
	await(t, "the next leader gives the GPUs to another pod", bound("second"))
	if is := leading(t.Context(), client); is == "" || was == "" || is == was {
		t.Fatalf("%q leads, and before it led %q", is, was)
	}
	release()
	await(t, "the binding arrives, and is refused", func() bool {
		j.check(t)
		raw, err := client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`apiserver_validating_admission_policy_check_total{enforcement_action="deny".*policy="berth-leader"`).Match(raw)
	})
	late, err := pods.Get(t.Context(), "late", metav1.GetOptions{})
	if err != nil || late.Spec.NodeName != "" || late.Status.Phase != v1.PodPending {
		t.Errorf("the pod is on node %q: %v", late.Spec.NodeName, err)
	}
}
