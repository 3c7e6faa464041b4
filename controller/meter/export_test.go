package meter

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/core/usage"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/request"
)

// TestDaysAreExported closes two days, and one of them again: their files are the sums of the ledger.
func TestDaysAreExported(t *testing.T) {
	r := newRig(t)
	dir := filepath.Join(t.TempDir(), "deep")
	m := New(r.book, Options{Export: dir})
	m.tally = r.tally
	r.node(aNode("n", 2, 0))
	r.pod(aPod("a", "n", 1, 0))
	r.flush()
	r.clock = at(2 * 1440)
	r.flush()
	want := func(file, text string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != text {
			t.Errorf("%s is\n%s\nwant\n%s\n%v", file, got, text, err)
		}
	}
	r.closeAll(m)
	const head = "day,namespace,user,queue,product,what,reason,gpuHours,unpricedGPUHours,cost,currency\n"
	want("2026-11-02.csv", head+"2026-11-02,vision,ann,red,NVIDIA-A100-SXM4-40GB,held,,15,0,15.000000,USD\n2026-11-02,,,,NVIDIA-A100-SXM4-40GB,idle,,15,0,15.000000,USD\n")
	r.pod(finished(aPod("a", "n", 1, 0), 1440+60))
	r.flush()
	r.closeAll(m)
	want("2026-11-03.csv", head+"2026-11-03,vision,ann,red,NVIDIA-A100-SXM4-40GB,held,,10,0,10.000000,USD\n2026-11-03,,,,NVIDIA-A100-SXM4-40GB,idle,,38,0,38.000000,USD\n")
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("%d files are there, %v, want 2", len(files), err)
	}
}

// TestWhatIsKeptOfPods holds what the meter keeps in memory of pods to what it needs.
func TestWhatIsKeptOfPods(t *testing.T) {
	slim := slimPod(runtime.SlimPod(slimStatus))
	plain := small("web", "n", 3, 2)
	plain.Labels, plain.Spec.Containers[0].Image = map[string]string{"a": "b"}, "web:1"
	o, err := slim(plain.DeepCopy())
	p, ok := o.(*v1.Pod)
	if err != nil || !ok || request.Room(p) != (usage.Room{MilliCPU: 3000, MemoryBytes: 2 << 30}) || p.Spec.NodeName != "n" || p.Labels != nil || p.Spec.Containers[0].Image != "" {
		t.Errorf("of a pod without GPUs is kept %+v, %v", o, err)
	}
	waits, err := slim(small("web", "", 3, 2))
	if p, ok := waits.(*v1.Pod); err != nil || !ok || len(p.Spec.Containers) != 0 {
		t.Errorf("of one that waits is kept %+v, %v", waits, err)
	}
	gpu := kubetest.Pod("a", "n", "nvidia.com/gpu", 1, "cpu", 2)
	o, err = slim(gpu.DeepCopy())
	if p, ok := o.(*v1.Pod); err != nil || !ok || request.Room(p).MilliCPU != 2000 {
		t.Errorf("of a pod with a GPU is kept %+v, %v", o, err)
	}
}
