package explain

import (
	"strconv"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// gpuGaps are what n lacks of GPUs.
func (t *Cluster) gpuGaps(a *ask, n *v1.Node, view *devices.Node) []reasons.Gap {
	if len(a.names) == 0 || unoffered(n, n.Status.Capacity, a.names) != "" {
		return nil
	}
	for _, name := range a.names {
		q, listed := n.Status.Allocatable[v1.ResourceName(name)]
		has, want := request.Amount(&q, request.MostAsked), a.gpus[name]
		if !listed || has >= want || name == api.ResourceGPUMemory { // of one GPU: a node's sum says nothing
			continue
		}
		most := n.Status.Capacity[v1.ResourceName(name)]
		total := request.Amount(&most, request.MostAsked)
		if total < want {
			return []reasons.Gap{{Check: reasons.CheckGPUs, Remedy: reasons.Never, Subject: name, Needed: want, Free: has, Total: total, By: a.by[name], Do: "ask for less, or use more pods"}}
		}
		if view.Remark != "" {
			return nil // the device plugin is down, which closed says
		}
		return []reasons.Gap{{
			Check: reasons.CheckGPUs, Remedy: reasons.Mends, Subject: name, Has: unhealthyText(view), Needed: want, Free: has, Total: total,
			Do: "kubectl describe node NODE, or the node agent's log, tells what is wrong with the rest",
		}}
	}
	if t.counts(a, n) {
		return t.countGaps(a, n)
	}
	i, ok := t.snapshot.Find(n.Name)
	if !ok {
		return nil
	}
	r := t.gpusOnly(a, n)
	why := placement.Fit(t.snapshot, i, &r)
	if why == placement.Fits || why == placement.TooManyPods {
		return nil
	}
	g := reasons.Gap{Check: reasons.CheckGPUs, Subject: a.names[0], Needed: a.gpus[a.names[0]], Free: t.free(a, n), Total: int64(view.Physical)}
	switch {
	case why == placement.NotOneClique:
		g.Check = reasons.CheckClique
	case r.GPUMemoryBytes > 0 && view.Unhealthy == 0 && placement.Fit(t.unheld(), i, &r) != placement.Fits:
		g.Check, g.Remedy, g.Needed, g.Total = reasons.CheckGPUMemory, reasons.Never, r.GPUMemoryBytes, largestMemory(view)
		g.Do = "ask for less memory, or for a model that has more"
		return []reasons.Gap{g}
	}
	what := strconv.FormatInt(g.Needed, 10) + " " + g.Subject
	if r.GPUs == 1 && r.MilliGPU > 0 && r.MilliGPU < cluster.Whole && shareName(g.Subject) {
		what = gpusOf(int64(r.MilliGPU)) + " of a GPU"
	}
	free := max(0, t.freeOf(view, i)-t.keptFree(n.Name))
	g.Has = gpusOf(free) + " of " + strconv.Itoa(view.Physical) + " GPUs free, too little for " + what + t.keptText(a, n.Name) + unhealthyText(view)
	return []reasons.Gap{g}
}

// gpusOnly is what a pod asks of n but for CPU and memory.
func (t *Cluster) gpusOnly(a *ask, n *v1.Node) cluster.Request {
	r := a.demand(t.dividedOf(n).Sharing)
	r.CPUMilli, r.MemoryBytes = 0, 0
	return r
}

// unheld is the cluster with nothing held.
func (t *Cluster) unheld() *cluster.Snapshot {
	if t.empty == nil {
		t.empty = t.snapshot.Emptied(1)
	}
	return t.empty
}

// freeOf is what is free of the GPUs of a node, in milli-GPUs, whether or not it takes pods now.
func (t *Cluster) freeOf(view *devices.Node, i int) int64 {
	if view.Remark == "" {
		return view.Free
	}
	return int64(t.snapshot.Node(i).OpenMilli)
}

func largestMemory(view *devices.Node) int64 {
	most := int64(0)
	for i := range view.GPUs {
		most = max(most, view.GPUs[i].MemoryBytes)
	}
	return most
}
