package server

import (
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
	schedulerquota "berth.dev/berth/scheduler/quota"
)

// BenchmarkQueues is the CPU of the scheduler, and of an API server in memory that costs all cases the
// same, for each pod that gets a node: without queues, with a thousand queues, and with either beside
// pods that wait, for quota or for a node. It is to be run with -benchtime 4000x -cpu 1, or so, and
// -count 5: the cases take turns then. An API server in another process would add some hundred
// microseconds to each.
func BenchmarkQueues(b *testing.B) {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	for _, waiting := range []int{0, 2500, 10000} {
		for _, with := range []bool{false, true} {
			name := "no queues"
			if with {
				name = "queues"
			}
			b.Run(fmt.Sprintf("%s, %d wait", name, waiting), func(b *testing.B) { placePods(b, with, waiting) })
		}
	}
}

// teams are half of the queues: those whose pods get nodes, and as many whose pods wait.
const teams = 500

// placePods measures while b.N pods get nodes.
func placePods(b *testing.B, with bool, waiting int) {
	l := &lab{cluster: newCluster(b, 1)}
	l.slow, l.room, l.reserve = 1, 1_000_000, 0
	nodes := b.N/8 + 2
	for i := range nodes {
		l.put("nodes", t4s(b, fmt.Sprintf("n%d", i), 8))
	}
	l.start()
	defer func() { l.stop() }()
	if with {
		l.useQueues(b.N/teams + 1)
	}
	taken := 0
	for i := range waiting {
		p := gpuPod(fmt.Sprintf("wait-%d", i), 100, 9) // no node has as many
		p.Labels = map[string]string{api.LabelQueue: fmt.Sprintf("full-%d", i%teams)}
		l.put("pods", p)
		if i%500 == 499 {
			l.await(b, func() bool { return l.count(&l.patches) > i })
		}
	}
	b.ResetTimer()
	began := used(b)
	for i := range b.N {
		p := gpuPod(fmt.Sprintf("load-%d", i), 100, 1)
		p.Labels = map[string]string{api.LabelQueue: fmt.Sprintf("busy-%d", i%teams)}
		l.put("pods", p)
		if taken++; taken%500 == 0 {
			l.await(b, func() bool { return l.count(&l.given) >= taken })
		}
	}
	l.await(b, func() bool { return l.count(&l.given) >= taken })
	b.ReportMetric(float64((used(b)-began).Microseconds())/float64(b.N), "cpu-µs/op")
	b.StopTimer()
}

// used is the CPU of this process so far.
func used(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// await looks until something is so.
func (l *lab) await(b *testing.B, is func() bool) {
	for end := time.Now().Add(4 * time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatal("not so after 4 minutes")
		}
	}
}

// count reads what the API server has counted.
func (l *lab) count(of *int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *of
}

// useQueues has pods counted as the scheduler reads them from Queues, in two trees: one with room, and one
// that is full.
func (l *lab) useQueues(nominal int) {
	var objects []*v1alpha1.Queue
	add := func(name, parent string, gpus int) {
		objects = append(objects, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{
			Parent: parent, Namespaces: &v1alpha1.QueueNamespaces{LabeledPods: []string{"*"}},
			Quotas: []v1alpha1.QueueQuota{{GPUs: v1alpha1.GPUsAll, Nominal: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}},
		}})
	}
	add("busy", "", nominal*teams)
	add("full", "", 0)
	for i := range teams {
		add(fmt.Sprintf("busy-%d", i), "busy", nominal)
		add(fmt.Sprintf("full-%d", i), "full", 0)
	}
	offers, members := &queues.Offers{}, queues.NewMembers(objects)
	for _, n := range list[*v1.Node](l.cluster, "nodes") {
		offers.Set(n)
	}
	specs, _ := queues.Specs(objects, offers.Products()...)
	l.quota.SetQueues(specs, schedulerquota.Reader{
		Queue: func(p *v1.Pod) string { return members.QueueOf(p, nil) }, User: func(*v1.Pod) string { return "" },
		Held: func(p *v1.Pod, node string) []quota.Piece {
			there := *p
			there.Spec.NodeName = node
			return offers.Held(&there)
		},
		Asked: func(p *v1.Pod) ([]quota.Piece, []string) {
			asked, products := queues.Asked(p, offers)
			return asked.Pieces, products
		},
		Product: queues.ProductOf,
	})
}
