package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// openbSeed is the seed of the order in which the pods come, as berth simulate
// has it.
const openbSeed = 42

// openbLoad is what the pods ask for, in terms of the cluster.
const openbLoad = 1.3

// benchOpenb submits the pods of a trace as real Pods to simulated nodes like
// the trace's, in the order of one seed of berth simulate, none leaves, and
// compares what is allocated in the end.
func benchOpenb(ctx context.Context, r *report, dir string) error {
	traces, nodes, name := os.Getenv("BERTH_TRACES"), "openb_node_list_gpu_node.csv", "openb_pod_list_%s.csv"
	if traces == "" {
		traces = filepath.Join("..", "shared", "traces", "openb")
	}
	if _, err := os.Stat(filepath.Join(traces, nodes)); err != nil || r.divide > 1 {
		fmt.Fprintf(os.Stderr, "  a cut of the openb trace is taken; for the whole of it set $BERTH_TRACES\n")
		traces, nodes, name = filepath.Join("sim", "testdata"), "nodes.csv", "pods_%s.csv"
	}
	for _, workload := range []string{"default", "gpuspec20"} {
		t, err := readTrace(filepath.Join(traces, nodes), filepath.Join(traces, fmt.Sprintf(name, workload)))
		if err != nil {
			return err
		}
		said, err := simulate(t.nodesFile, t.podsFile, fmt.Sprint(openbSeed), ours)
		if err != nil {
			return err
		}
		got, err := t.submit(ctx, filepath.Join(dir, workload))
		if err != nil {
			return fmt.Errorf("workload %s: %w", workload, err)
		}
		want := said.Policies[0].Mean[fmt.Sprint(math.Round(100*openbLoad))]
		r.add(figure{
			what: workload + ": GPU allocated by the scheduler", values: []float64{got.percent}, unit: "%",
			how: fmt.Sprintf("%d pods, created in order by one client, which the queue keeps (priority, then time of arrival), on %d nodes with %d GPUs; none leaves; %d fit nowhere in the end; %.0f s",
				got.pods, len(t.nodes), t.gpus, got.pods-got.bound, got.took.Seconds()),
		})
		r.add(figure{what: workload + ": GPU allocated by berth simulate", values: []float64{want}, unit: "%", how: fmt.Sprintf("`berth simulate --protocol fgd --load %v --seeds %d --policy berth`: the same pods in the same order", openbLoad, openbSeed)})
		r.add(figure{what: workload + ": the two apart", values: []float64{math.Abs(got.percent - want)}, unit: "points", aim: 0.2, how: "from the two above; ties between equal nodes are broken differently"})
	}
	return nil
}

// submitted is what became of the pods of a trace.
type submitted struct {
	pods, bound int
	percent     float64 // of all GPUs, allocated
	took        time.Duration
}

// submit creates the pods of the trace on a cluster of its nodes and waits until
// no more are bound.
func (t *trace) submit(ctx context.Context, dir string) (out submitted, err error) {
	file := dir + "-fleet.json"
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return out, err
	}
	if err := t.writeFleet(file); err != nil {
		return out, err
	}
	c, err := begin(dir, ours, file, false)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	seen, err := watchBindings(ctx, c.client)
	if err != nil {
		return out, err
	}
	defer seen.stop()
	milli := map[string]int{}
	var pods []*corev1.Pod
	for i, row := range t.arrivals(openbSeed, openbLoad) {
		p := row.pod(fmt.Sprintf("%05d-%s", i, row.name))
		pods, milli[p.Name] = append(pods, p), row.totalMilli()
	}
	began := time.Now()
	if _, _, err := create(ctx, c.client, pods, 1); err != nil {
		return out, err
	}
	last, err := seen.settled(ctx, 30*time.Second)
	if err != nil {
		return out, err
	}
	list, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return out, err
	}
	sum := 0
	for i := range list.Items {
		if p := &list.Items[i]; p.Spec.NodeName != "" {
			out.bound++
			sum += milli[p.Name]
		}
	}
	held, err := c.held(ctx)
	if err != nil {
		return out, err
	}
	committed := 0
	for uuid, h := range held {
		if committed += h.milli; h.milli > 1000 {
			return out, fmt.Errorf("GPU %s has %d milli-GPUs committed", uuid, h.milli)
		}
	}
	if committed != sum {
		return out, fmt.Errorf("bound pods ask for %d milli-GPUs, and %d are committed", sum, committed)
	}
	out.pods, out.took, out.percent = len(pods), last.Sub(began), 100*float64(sum)/float64(1000*t.gpus)
	return out, nil
}

// pod is the row as a Pod.
func (row tracePod) pod(name string) *corev1.Pod {
	want := corev1.ResourceList{
		"cpu":    *resource.NewMilliQuantity(row.cpuMilli, resource.DecimalSI),
		"memory": *resource.NewQuantity(row.memoryMiB<<20, resource.BinarySI),
	}
	var p *corev1.Pod
	switch {
	case row.gpus == 1 && row.milli < 1000:
		p = fractionPod(name, fmt.Sprintf("%.3g", float64(row.milli)/1000), want)
	case row.gpus > 0:
		want["nvidia.com/gpu"] = *resource.NewQuantity(int64(row.gpus), resource.DecimalSI)
		fallthrough
	default:
		p = newPod(name, want)
	}
	if len(row.models) == 0 {
		return p
	}
	var labels []string
	for _, model := range row.models {
		labels = append(labels, models()[model].label)
	}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: labelProduct, Operator: corev1.NodeSelectorOpIn, Values: labels},
		}}},
	}}}
	return p
}
