package train

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/training"
)

// measure adds the devices of the ranks, and how busy these are. Readings that are refused are left out.
func (j *jobs) measure(ctx context.Context, d *detail) {
	if !slices.ContainsFunc(d.Ranks, func(r rank) bool { return r.Node != "" }) {
		return
	}
	v, err := j.Read(ctx, "", false)
	if err != nil {
		return
	}
	at, nodes := map[string]*rank{}, map[string]bool{}
	for i := range d.Ranks {
		at[d.Ranks[i].Pod] = &d.Ranks[i]
		nodes[d.Ranks[i].Node] = true
	}
	for i := range v.View.Nodes {
		for _, g := range v.View.Nodes[i].GPUs {
			for _, h := range g.Holders {
				add(at, j.namespace, h.Namespace, h.Pod, device{g.Index, g.UUID})
			}
			for _, m := range g.MIG {
				for _, h := range m.Holders {
					add(at, j.namespace, h.Namespace, h.Pod, device{g.Index, m.UUID})
				}
			}
		}
	}
	exporters := slices.DeleteFunc(v.Exporters, func(p *v1.Pod) bool { return !nodes[p.Spec.NodeName] })
	d.busy(j.Utilization(ctx, exporters))
}

// add adds a device to the rank of a pod.
func add(at map[string]*rank, namespace, of, pod string, one device) {
	if r := at[pod]; r != nil && pod != "" && of == namespace && !slices.Contains(r.Devices, one) {
		r.Devices = append(r.Devices, one)
	}
}

// busy sets how busy the GPUs of each rank are, from ratios by UUID.
func (d *detail) busy(ratios map[string]float64) {
	known := map[int]float64{}
	for i := range d.Ranks {
		r := &d.Ranks[i]
		sum, n := 0.0, 0
		for _, one := range r.Devices {
			if ratio, ok := ratios[one.UUID]; ok {
				sum, n = sum+ratio, n+1
			}
		}
		if n > 0 {
			mean := sum / float64(n)
			r.Busy, known[r.Rank] = &mean, mean
		}
	}
	if slowest, mean, ok := training.Slowest(known); ok {
		d.Slowest, d.MeanBusy = &slowest, &mean
	}
}
