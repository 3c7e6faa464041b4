package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/api"
	"berth.dev/berth/test/golden"
)

// rows: GS-03 GS-10 GS-48 GS-92 GS-96 NB-05 ML-66

func TestTables(t *testing.T) {
	tests := []struct {
		name string
		file string
		args string
	}{
		{"nodes fit a screen of 100 columns", "nodes.txt", "nodes"},
		{"nodes in full", "nodes_wide.txt", "nodes -o wide"},
		{"nodes in the columns of tutorials", "nodes_allocation.txt", "nodes --view allocation"},
		{"nodes of one namespace name only its holders", "nodes_vision.txt", "nodes -n vision"},
		{"nodes without GPUs too", "nodes_all.txt", "nodes --all"},
		{"every device and its holder", "gpus.txt", "gpus"},
		{"devices with pod, container and UUID", "gpus_wide.txt", "gpus -o wide"},
		{"devices that one namespace holds", "gpus_research.txt", "gpus -n research"},
		{"nodes as JSON", "nodes.json", "nodes -o json"},
		{"devices as YAML", "gpus.yaml", "gpus -o yaml"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := newStage(t, lab()...).ok(strings.Fields(tt.args)...)
			golden.File(t, tt.file, got)
			for line := range strings.SplitSeq(got, "\n") {
				if strings.HasSuffix(tt.file, "es.txt") && len([]rune(line)) > 100 {
					t.Errorf("line is %d columns wide, want 100 at most: %s", len([]rune(line)), line)
				}
			}
		})
	}
}

func TestOutputFormats(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{
			"names can be given to kubectl",
			[]string{"nodes", "-o", "name", "-l", "topology.kubernetes.io/zone=eu-1a"},
			"node/gpu-a100-1\nnode/gpu-a100-2\nnode/gpu-t4-1\nnode/gpu-t4-2\nnode/gpu-v100-1\n",
		},
		{
			"names of GPUs are those that sim takes",
			[]string{"gpus", "-o", "name", "-n", "vision"},
			"gpu/gpu-a100-1/0\ngpu/gpu-a100-1/1\ngpu/gpu-a100-1/2\ngpu/gpu-a100-1/3\ngpu/gpu-t4-2/1\n",
		},
		// 6 whole + 1/7 + 1/4 + 1 held of 16.
		{"jsonpath reads the totals", []string{"nodes", "-o", "jsonpath={.total.gpus} {.total.held} {.total.waitingPods}"}, "16 7.393 1"},
		{
			"custom columns read the rows",
			[]string{"gpus", "-n", "research", "-o", "custom-columns=GPU:.index,BY:.holders[*].name,USER:.holders[*].user"},
			"GPU   BY       USER\n0     nb-ada   ada\n",
		},
		{
			"a path needs no dot and no braces",
			[]string{"gpus", "-n", "research", "--no-headers", "-o", "custom-columns=A:index,B:{.holders[0].kind},C:.holders[0].stuck"},
			"0     Notebook   <none>\n",
		},
		{
			"a Go template reads the rows",
			[]string{"nodes", "-o", "go-template={{range .items}}{{.node}} {{end}}"},
			"gpu-a100-1 gpu-a100-2 gpu-t4-1 gpu-t4-2 gpu-v100-1 ",
		},
		{"the head can be left out", []string{"nodes", "--view", "allocation", "--no-headers", "-l", "zone=none"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, newStage(t, lab()...).ok(tt.args...)); diff != "" {
				t.Errorf("berth %v differs (-want +got):\n%s", tt.args, diff)
			}
		})
	}
}

// TestHoldersAsJSON holds the shape that scripts and the console read.
func TestHoldersAsJSON(t *testing.T) {
	raw := newStage(t, lab()...).ok("gpus", "-n", "research", "-o", "json")
	var got struct {
		Items []map[string]any `json:"items"`
	}
	if err := json.Unmarshal([]byte(raw), &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{{
		"node": "gpu-t4-1", "index": 0.0, "uuid": "GPU-gpu-t4-1-0", "product": "Tesla-T4", "memoryBytes": float64(16 << 30),
		"migProfile": "", "healthy": true, "shares": 4.0,
		"holders": []any{map[string]any{
			"kind": "Notebook", "namespace": "research", "name": "nb-ada", "pod": "nb-ada-0", "container": "main", "user": "ada",
			"since": "2026-11-20T09:00:00Z", "milliGPU": 250.0, "memoryBytes": float64(16 << 30),
		}},
	}}
	if diff := cmp.Diff(want, got.Items); diff != "" {
		t.Errorf("items differ (-want +got):\n%s", diff)
	}
}

func TestForeignClusterHasNoIndexes(t *testing.T) {
	n := node("worker", "", 0, "", api.ResourceGPU, 2)
	n.Labels = map[string]string{api.LabelProduct: "NVIDIA-L4", api.LabelCount: "2", api.LabelMemory: "23034"}
	p := pod("ns", "p", "worker", api.ResourceGPU)
	p.Status.ContainerStatuses = nil
	golden.File(t, "gpus_foreign.txt", newStage(t, n, p).ok("gpus"))
}
