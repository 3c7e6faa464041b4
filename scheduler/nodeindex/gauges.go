package nodeindex

import "k8s.io/component-base/metrics"

// gauges are the metrics that are counted when somebody asks for them: of the
// index as it was when a pod with GPUs was last placed, of the cluster as it is.
type gauges struct {
	metrics.BaseStableCollector
	state *Cluster
	count gpuCount
}

func gauge(name, help string, labels ...string) *metrics.Desc {
	return metrics.NewDesc(name, help, labels, nil, metrics.ALPHA, "")
}

var (
	indexNodes    = gauge("berth_scheduler_index_nodes", "Nodes in the index of the placement core.")
	indexShapes   = gauge("berth_scheduler_index_shapes", "Different requests for which the index keeps a score of every node.")
	indexBytes    = gauge("berth_scheduler_index_bytes", "Bytes of the scores that the index keeps.")
	holdsNow      = gauge("berth_scheduler_holds", "Pods for which devices are held that are not bound yet: members of planned gangs, and pods for which room is being made.")
	waitingPods   = gauge("berth_scheduler_waiting_pods", "Pods with GPUs that fit nowhere, in lines of pods that ask for the same; only the first of each is tried again when something changes.")
	waitingLines  = gauge("berth_scheduler_waiting_lines", "Lines of berth_scheduler_waiting_pods.")
	clusterGPUs   = gauge("berth_cluster_gpus", "Physical GPUs by state: allocated (nothing of it is free), shared (a part is held, a part is free), free, unhealthy.", "state")
	fragmentation = gauge("berth_cluster_fragmentation_ratio", "Part of the free GPU capacity that a request of the kind seen lately cannot use, from 0 to 1.")
)

// DescribeWithStability implements metrics.StableCollector.
func (g *gauges) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{indexNodes, indexShapes, indexBytes, holdsNow, waitingPods, waitingLines, clusterGPUs, fragmentation} {
		ch <- d
	}
}

// CollectWithStability implements metrics.StableCollector.
func (g *gauges) CollectWithStability(ch chan<- metrics.Metric) {
	send := func(d *metrics.Desc, value float64, labels ...string) {
		ch <- metrics.NewLazyConstMetric(d, metrics.GaugeValue, value, labels...)
	}
	v := g.state.look()
	send(holdsNow, float64(v.holds))
	send(waitingPods, float64(v.waiting))
	send(waitingLines, float64(v.lines))
	send(indexNodes, float64(v.nodes))
	send(indexShapes, float64(v.shapes))
	send(indexBytes, float64(v.bytes))
	states, ratio, ok := g.count.take(&g.state.Index)
	if !ok {
		return
	}
	send(clusterGPUs, float64(states.Allocated), "allocated")
	send(clusterGPUs, float64(states.Shared), "shared")
	send(clusterGPUs, float64(states.Free), "free")
	send(clusterGPUs, float64(states.Unhealthy), "unhealthy")
	send(fragmentation, ratio)
}

// sizes is the size of what a State keeps.
type sizes struct {
	holds, nodes, shapes, waiting, lines int

	bytes int64 // of the index
}

// look reads sizes alone, so that it delays no decision.
func (d *Cluster) look() sizes {
	var v sizes
	d.Mu.Lock()
	v.holds = len(d.Holds)
	d.Mu.Unlock()
	d.Waiting.Mu.Lock()
	v.waiting, v.lines = d.Waiting.Lines.Len()
	d.Waiting.Mu.Unlock()
	d.Index.Mu.Lock()
	defer d.Index.Mu.Unlock()
	if w := d.Index.View; w != nil {
		v.nodes = w.Snapshot.Len()
		v.shapes, v.bytes = w.Index.Size()
	}
	return v
}
