package meter

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/exporter"
)

// BenchmarkFileGrowth is by how much the file grows for the life of a pod: its holder, its audit trail, an hour of use, and a time in which it was idle.
func BenchmarkFileGrowth(b *testing.B) {
	path := filepath.Join(b.TempDir(), "ledger.db")
	r := rigOf(b, path)
	for n := range 100 {
		r.node(aNode(fmt.Sprint("n", n), 8, 0))
	}
	r.missed()
	r.flush()
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		return info.Size()
	}
	begun, lives := size(), 0
	for b.Loop() {
		lives++
		r.life(lives)
	}
	if err := r.book.Close(); err != nil { // all is in the file then
		b.Fatal(err)
	}
	b.ReportMetric(float64(size()-begun)/float64(lives), "B/pod")
}

// life has a pod with names and UIDs of usual length ask, run for an hour, half of it idle, and end.
func (r *rig) life(k int) {
	uid := fmt.Sprintf("%08x-61c1-4c7e-9d6f-%012x", k*2654435761&0xffffffff, k)
	node := fmt.Sprint("n", k%100)
	r.clock = at(0).Add(time.Duration(k) * time.Second)
	p := aPod(fmt.Sprint("train-bert-large-", k), node, 1, 0)
	p.UID, p.CreationTimestamp = types.UID(uid), metav1.NewTime(r.clock)
	p.Annotations[api.AnnotationUser] = fmt.Sprint("user-", k%100, "@example.com")
	p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(r.clock)
	r.pod(p)
	for minute := range 8 {
		ratio := 0.8
		if minute >= 4 {
			ratio = 0.01
		}
		r.read(node, r.clock.Add(time.Duration(minute)*4*time.Minute), []exporter.Reading{{UUID: "GPU-" + p.Name, Namespace: p.Namespace, Pod: p.Name, Utilization: ratio, UtilizationKnown: true}})
	}
	ended := p.DeepCopy()
	ended.Status.Phase = v1.PodSucceeded
	ended.Status.ContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{FinishedAt: metav1.NewTime(r.clock.Add(time.Hour))}}}}
	r.clock = r.clock.Add(time.Hour)
	r.pod(ended)
	r.gone(ended)
	if k%50 == 0 {
		r.flush()
	}
}
