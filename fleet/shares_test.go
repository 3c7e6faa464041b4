package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/api"
)

// asking is a pod that asks for shares as others spell it: "annotation=value"
// and "resource=number".
func asking(name string, words ...string) *v1.Pod {
	p := named(bare("busybox", "sleep", "infinity"), name, 0)
	p.Annotations = map[string]string{}
	list := v1.ResourceList{}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		if strings.Contains(key, "/") {
			list[v1.ResourceName(key)] = resource.MustParse(value)
		} else {
			p.Annotations[key] = value
		}
	}
	p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list, Limits: list}
	return p
}

// part commits so much of an A100 of 40 GB to a pod.
func part(p *v1.Pod, uuid string, milli, mib int64) *v1.Pod {
	p.Annotations[api.AnnotationDevices] = fmt.Sprintf(`{"c":[{"uuid":%q,"milliGPU":%d,"memoryBytes":%d}]}`, uuid, milli, mib<<20)
	return p
}

func TestCommittedSharesAreGivenInEverySpelling(t *testing.T) {
	n := a100("n1", 2)
	uuid := n.GPUs[1].UUID
	inWorld(t, func(w *world) {
		for _, tt := range []struct {
			pod  *v1.Pod
			want string // resources and devices of its status, without the UUID
		}{
			{part(asking("kai", "gpu-fraction=0.25"), uuid, 250, 10240), ""}, // no resource asks for it
			{part(asking("kai-memory", "gpu-memory=2048"), uuid, 50, 2048), ""},
			{part(asking("hami", "nvidia.com/gpu=1", "nvidia.com/gpumem=3000"), uuid, 73, 3000), "nvidia.com/gpumem mem-3000Mi-0"},
			{part(asking("hami-percent", "nvidia.com/gpu=1", "nvidia.com/gpumem-percentage=10"), uuid, 100, 4096), "nvidia.com/gpumem-percentage milli-100-0"},
			{part(asking("volcano", "volcano.sh/vgpu-number=1", "volcano.sh/vgpu-memory=4096", "volcano.sh/vgpu-cores=20"), uuid, 200, 4096), "volcano.sh/vgpu-memory milli-200-mem-4-0"},
			{part(asking("ours", "nvidia.com/gpu-memory=4"), uuid, 100, 4096), "nvidia.com/gpu-memory mem-4-0"},
		} {
			w.bind(tt.pod, "n1")
			w.after(5 * time.Second)
			p := w.pod(tt.pod.Name)
			got := ""
			for _, r := range p.Status.ContainerStatuses[0].AllocatedResourcesStatus {
				got += string(r.Name) + " " + strings.TrimPrefix(string(r.Resources[0].ResourceID), uuid+"::")
			}
			if p.Status.Phase != v1.PodRunning || got != tt.want {
				t.Errorf("pod %s: %s, %q; want it running with %q", p.Name, line(p), got, tt.want)
			}
			exec := slices.ContainsFunc(w.container("n1", p.Name).Env, func(e string) bool { return e == "NVIDIA_VISIBLE_DEVICES="+uuid })
			if !exec {
				t.Errorf("pod %s does not see GPU %s", p.Name, uuid)
			}
		}
	}, n)
}

func TestASharesDevicesAreKnownAfterARestart(t *testing.T) {
	n := a100("n1", 1)
	uuid := n.GPUs[0].UUID
	inWorld(t, func(w *world) {
		w.bind(part(asking("first", "gpu-fraction=0.5"), uuid, 500, 20480), "n1")
		w.bind(part(asking("second", "gpu-fraction=0.5"), uuid, 500, 20480), "n1")
		w.after(5 * time.Second)
		w.kill()
		w.start()
		w.after(time.Second)
		w.bind(part(asking("third", "gpu-fraction=0.5"), uuid, 500, 20480), "n1")
		w.after(5 * time.Second)
		if p := w.pod("third"); p.Status.Reason != "UnexpectedAdmissionError" || !strings.Contains(p.Status.Message, "its GPU has 0 GiB left of 40 GiB") {
			t.Errorf("a third half after a restart: %s: %s", line(p), p.Status.Message)
		}
		w.remove("first", 0)
		w.after(5 * time.Second)
		w.bind(part(asking("fourth", "gpu-fraction=0.5"), uuid, 500, 20480), "n1")
		w.after(5 * time.Second)
		if p := w.pod("fourth"); p.Status.Phase != v1.PodRunning {
			t.Errorf("a half of what was given back: %s: %s", line(p), p.Status.Message)
		}
	}, n)
}

// A share that a status names, and one that it cannot, would have the same ID:
// after a restart the former keeps it, whichever comes first.
func TestSharesOfEqualSizeInTwoSpellingsSurviveARestart(t *testing.T) {
	n := a100("n1", 1)
	uuid := n.GPUs[0].UUID
	inWorld(t, func(w *world) {
		w.bind(part(asking("z", "nvidia.com/gpu=1", "nvidia.com/gpumem-percentage=50"), uuid, 500, 20480), "n1")
		w.after(5 * time.Second)
		w.bind(part(asking("a", "gpu-fraction=0.5"), uuid, 500, 20480), "n1")
		w.after(5 * time.Second)
		for range 3 {
			w.kill()
			w.start()
			w.after(5 * time.Second)
		}
		for _, name := range []string{"a", "z"} {
			if p := w.pod(name); p.Status.Phase != v1.PodRunning {
				t.Errorf("pod %s after restarts: %s: %s", name, line(p), p.Status.Message)
			}
		}
	}, n)
}

func TestAShareWithoutACommitmentIsRefusedWhereBerthSchedules(t *testing.T) {
	for _, tt := range []struct {
		name, words string
		commitments bool
		want        string // phase and reason
	}{
		{"memory", "nvidia.com/gpu-memory=6", true, "Failed UnexpectedAdmissionError"},
		{"a fraction", "gpu-fraction=0.5", true, "Failed UnexpectedAdmissionError"},
		{"HAMi's memory", "nvidia.com/gpu=1 nvidia.com/gpumem=3000", true, "Failed UnexpectedAdmissionError"},
		{"a whole GPU needs none", "nvidia.com/gpu=1", true, "Running "},
		{"memory beside a GPU is a whole one", "nvidia.com/gpu=1 nvidia.com/gpu-memory=6", true, "Running "},
		{"memory with the stock scheduler", "nvidia.com/gpu-memory=6", false, "Running "},
		{"an annotation means nothing to the stock scheduler", "gpu-fraction=0.5", false, "Running "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.kill()
				w.commitments = tt.commitments
				w.start()
				w.bind(asking("p", strings.Fields(tt.words)...), "n1")
				w.after(5 * time.Second)
				p := w.pod("p")
				if got := string(p.Status.Phase) + " " + p.Status.Reason; got != tt.want {
					t.Errorf("got %s (%s), want %s", got, p.Status.Message, tt.want)
				}
				if tt.want != "Running " && !strings.Contains(p.Status.Message, "which only Berth's scheduler allocates") {
					t.Errorf("message %q", p.Status.Message)
				}
			}, a100("n1", 1))
		})
	}
}
