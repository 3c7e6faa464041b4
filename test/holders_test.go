package test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// userNote is JupyterHub's annotation for the user of a pod.
const userNote = "hub.jupyter.org/username"

// checkHolders compares `berth gpus` with the API, at a moment when nothing
// changes: each device that is committed to a pod that has not ended has that
// pod as a holder, with its user, its share and its memory; there are no other
// holders, and together they hold no more of a GPU than it is. Pods on nodes
// that are gone are in neither.
func checkHolders(t *testing.T, client kubernetes.Interface, kubeconfig string) {
	t.Helper()
	cmd := exec.Command(program("berth"), "gpus", "-o", "json")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("berth gpus: %v", err)
	}
	var shown struct {
		Items []struct {
			Node, UUID  string
			MemoryBytes int64
			Holders     []struct {
				Pod, User             string
				MilliGPU, MemoryBytes int64
			}
		}
	}
	if err := json.Unmarshal(out, &shown); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	nodes := map[string]bool{}
	for _, g := range shown.Items {
		nodes[g.Node] = true
		milli, bytes := int64(0), int64(0)
		for _, h := range g.Holders {
			got = append(got, holding(g.Node, g.UUID, h.Pod, h.User, h.MilliGPU, h.MemoryBytes))
			milli, bytes = milli+h.MilliGPU, bytes+h.MemoryBytes
		}
		if milli > 1000 || bytes > g.MemoryBytes {
			t.Errorf("berth gpus: %s of %s has holders of %d milli-GPUs and %d bytes of %d", g.UUID, g.Node, milli, bytes, g.MemoryBytes)
		}
	}
	for _, p := range list(t, client) {
		devices, err := commitment(&p)
		if err != nil {
			t.Fatal(err)
		}
		if p.Status.Phase == v1.PodFailed || p.Status.Phase == v1.PodSucceeded || !nodes[p.Spec.NodeName] {
			continue
		}
		for _, d := range devices {
			want = append(want, holding(p.Spec.NodeName, d.UUID, p.Name, p.Annotations[userNote], d.MilliGPU, d.MemoryBytes))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if len(want) == 0 {
		t.Error("nothing is committed: nothing is shown")
	}
	for _, line := range got {
		if _, ok := slices.BinarySearch(want, line); !ok {
			t.Errorf("berth gpus shows %s, and the API does not", line)
		}
	}
	for _, line := range want {
		if _, ok := slices.BinarySearch(got, line); !ok {
			t.Errorf("committed is %s, and berth gpus does not show it", line)
		}
	}
}

func holding(node, uuid, pod, user string, milli, bytes int64) string {
	return fmt.Sprintf("%s %s: %s of %s has %d milli-GPUs and %d bytes", node, uuid, pod, user, milli, bytes)
}
