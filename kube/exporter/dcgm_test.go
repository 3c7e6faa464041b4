package exporter_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/kube/exporter"
)

// scrape is one GPU that a pod holds, one that two pods share, and one cut by MIG.
const scrape = `# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0",modelName="Tesla T4",container="c",namespace="ns",pod="a"} 84
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-1",namespace="ns",pod="b"} 10
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-1",namespace="ns",pod="c"} 10
DCGM_FI_DEV_GPU_UTIL{gpu="3"} 50
DCGM_FI_DEV_GPU_UTIL{gpu="3",UUID="GPU-3"} NaN
DCGM_FI_DEV_GPU_UTIL{broken
nonsense } 7
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-0",namespace="ns",pod="a"} 2048
DCGM_FI_DEV_FB_USED{gpu="2",UUID="GPU-2",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7",namespace="ns",pod="d"} 1024
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-0",namespace="ns",pod="a"} 0.8
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="2",UUID="GPU-2",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7",namespace="ns",pod="d"} 0.25 1700000000
`

func TestReadings(t *testing.T) {
	want := []exporter.Reading{
		{UUID: "GPU-0", Namespace: "ns", Pod: "a", Utilization: 0.84, UtilizationKnown: true, MemoryBytes: 2 << 30},
		{UUID: "GPU-1", Namespace: "ns", Pod: "b", Utilization: 0.1, UtilizationKnown: true},
		{UUID: "GPU-1", Namespace: "ns", Pod: "c", Utilization: 0.1, UtilizationKnown: true},
		{UUID: "GPU-2", Profile: "1g.5gb", Instance: "7", Namespace: "ns", Pod: "d", Utilization: 0.25, UtilizationKnown: true, MemoryBytes: 1 << 30},
	}
	if diff := cmp.Diff(want, exporter.Readings([]byte(scrape))); diff != "" {
		t.Errorf("Readings differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"GPU-0": 0.84, "GPU-1": 0.1, "GPU-2": 0.25}, exporter.Utilization([]byte(scrape))); diff != "" {
		t.Errorf("Utilization differs (-want +got):\n%s", diff)
	}
}

// TestReadingsOfOldExporters has text as dcgm-exporter 3.1.8 of 2023 writes it: the
// label Hostname, no PCI address, the driver as a label.
func TestReadingsOfOldExporters(t *testing.T) {
	const gpu = `gpu="0",UUID="GPU-0",device="nvidia0",modelName="Tesla T4",Hostname="gpu-node-1",DCGM_FI_DRIVER_VERSION="525.85.12"`
	const mig = `gpu="1",UUID="GPU-1",device="nvidia1",modelName="NVIDIA A100-SXM4-40GB",GPU_I_PROFILE="1g.5gb",GPU_I_ID="9",Hostname="gpu-node-1",DCGM_FI_DRIVER_VERSION="525.85.12"`
	held := exporter.Reading{UUID: "GPU-0", Namespace: "ml", Pod: "train-0", Utilization: 0.42, UtilizationKnown: true, MemoryBytes: 4096 << 20}
	free := exporter.Reading{UUID: "GPU-0", Utilization: 0.42, UtilizationKnown: true, MemoryBytes: 4096 << 20}
	tests := []struct {
		name, labels string
		want         exporter.Reading
	}{
		{"the pod that holds the GPU", gpu + `,container="main",namespace="ml",pod="train-0"`, held},
		{"a GPU that nobody holds has empty labels", gpu + `,container="",namespace="",pod=""`, free},
		{"an exporter that does not ask the kubelet has none of them", gpu, free},
		{"the option for old names of labels", strings.Replace(gpu, "UUID", "uuid", 1) + `,container_name="main",pod_namespace="ml",pod_name="train-0"`, held},
		{
			"a Prometheus that hands on what it has scraped, the exporter's pod in front",
			gpu + `,container="dcgm-exporter",exported_container="main",exported_namespace="ml",exported_pod="train-0",namespace="monitoring",pod="dcgm-exporter-x2x4z"`,
			held,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n" +
				"DCGM_FI_DEV_GPU_UTIL{" + tt.labels + "} 42\nDCGM_FI_DEV_FB_USED{" + tt.labels + "} 4096\nDCGM_FI_DEV_GPU_TEMP{" + tt.labels + "} 61\n"
			old := strings.NewReplacer("DCGM_FI_DEV_GPU_UTIL", "dcgm_gpu_utilization", "DCGM_FI_DEV_FB_USED", "dcgm_fb_used", "DCGM_FI_DEV_GPU_TEMP", "dcgm_gpu_temp")
			for _, text := range []string{text, old.Replace(text)} {
				if diff := cmp.Diff([]exporter.Reading{tt.want}, exporter.Readings([]byte(text))); diff != "" {
					t.Errorf("Readings differ (-want +got):\n%s\n%s", diff, text)
				}
				if got := exporter.Utilization([]byte(text))["GPU-0"]; got != 0.42 {
					t.Errorf("Utilization gives %v, want 0.42:\n%s", got, text)
				}
			}
		})
	}
	text := `DCGM_FI_DEV_FB_USED{` + mig + `,container="main",namespace="ml",pod="infer-0"} 1024
DCGM_FI_PROF_GR_ENGINE_ACTIVE{` + mig + `,container="main",namespace="ml",pod="infer-0"} 0.500000
`
	want := []exporter.Reading{{
		UUID: "GPU-1", Profile: "1g.5gb", Instance: "9", Namespace: "ml", Pod: "infer-0", Utilization: 0.5, UtilizationKnown: true, MemoryBytes: 1024 << 20,
	}}
	if diff := cmp.Diff(want, exporter.Readings([]byte(text))); diff != "" {
		t.Errorf("Readings of a MIG device (-want +got):\n%s", diff)
	}
}

// NVIDIA's exporter repeats a value for each pod; Berth's divides it, and has a
// series without a pod for the rest.
func TestUtilizationOfADividedGPUIsTheSumOfItsParts(t *testing.T) {
	text := `DCGM_FI_DEV_GPU_UTIL{UUID="GPU-0",container="c",namespace="ns",pod="a"} 30
DCGM_FI_DEV_GPU_UTIL{UUID="GPU-0",container="c",namespace="ns",pod="b"} 20
DCGM_FI_DEV_GPU_UTIL{UUID="GPU-0",container="",namespace="",pod=""} 10
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",GPU_I_PROFILE="3g.20gb",GPU_I_ID="1",namespace="ns",pod="a"} 0.5
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",GPU_I_PROFILE="3g.20gb",GPU_I_ID="1",namespace="ns",pod="b"} 0.25
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",GPU_I_PROFILE="3g.20gb",GPU_I_ID="1"} 0
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",GPU_I_PROFILE="3g.20gb",GPU_I_ID="2"} 0.25
`
	if diff := cmp.Diff(map[string]float64{"GPU-0": 0.6, "GPU-1": 0.5}, exporter.Utilization([]byte(text))); diff != "" {
		t.Errorf("Utilization differs (-want +got):\n%s", diff)
	}
}

func TestExportersAreFoundByTheirLabels(t *testing.T) {
	pod := func(name string, phase v1.PodPhase, key, value string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{key: value}}, Status: v1.PodStatus{Phase: phase}}
	}
	got := []string{}
	for _, p := range exporter.Exporters([]*v1.Pod{
		pod("operator", v1.PodRunning, "app", "nvidia-dcgm-exporter"),
		pod("chart", v1.PodRunning, "app.kubernetes.io/name", "dcgm-exporter"),
		pod("tutorial", v1.PodRunning, "app", "dcgm-exporter"),
		pod("agent", v1.PodRunning, "app", "berth-agent"),
		pod("pending", v1.PodPending, "app", "berth-agent"),
		pod("other", v1.PodRunning, "app", "web"),
	}) {
		got = append(got, p.Name)
	}
	if diff := cmp.Diff([]string{"operator", "chart", "tutorial", "agent"}, got); diff != "" {
		t.Errorf("Exporters (-want +got):\n%s", diff)
	}
}

// FuzzReadings: whatever an exporter sends, ratios and sizes are not below 0, and
// each reading has a UUID.
func FuzzReadings(f *testing.F) {
	f.Add(scrape)
	f.Add(strings.ReplaceAll(scrape, `"`, ""))
	f.Add(`DCGM_FI_DEV_FB_USED{UUID="x"} 1e300`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range exporter.Readings([]byte(text)) {
			if r.UUID == "" || r.Utilization < 0 || r.MemoryBytes < 0 {
				t.Errorf("Readings(%q) gives %+v", text, r)
			}
		}
	})
}
