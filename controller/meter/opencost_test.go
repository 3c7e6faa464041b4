package meter

import (
	"time"

	"berth.dev/berth/api"
)

// resolution is that of the queries: OpenCost's own is five minutes, and finer is closer to the truth.
const resolution = time.Minute

// openCost is what OpenCost's published formulas bill for a week, day by day, in dollars by case:
//
//	GPUHours = average of kube_pod_container_resource_requests{resource="nvidia_com_gpu"} × minutes / 60
//	GPUCost  = GPUHours × average over the day of node_gpu_hourly_cost
//
// Minutes are from the first to the last sample of the day in which a container of a pod of this namespace and name ran, and
// one resolution if there is one sample. Facts: opencost/opencost, pkg/costmodel/allocation_helpers.go (applyPodResults,
// calculateStartAndEnd, applyGPUsAllocated, applyNodesToPod), and the queries beside them. CPU and memory are taken to
// cost nothing, so a GPU has all of the price of its node, as in the ledger. price is what a GPU of a node costs at a time.
func openCost(lives []lifetime, price func(m *machine, at time.Time) float64) map[string]float64 {
	type key struct{ team, pod string }
	type seen struct {
		lifetime    *lifetime
		first, last time.Time
	}
	bill := map[string]float64{}
	for day := monday; day.Before(weekEnd); day = day.Add(24 * time.Hour) {
		pods := map[key]*seen{}
		for i := range lives {
			l := &lives[i]
			for at := day; !at.After(day.Add(24 * time.Hour)); at = at.Add(resolution) {
				if at.Before(l.started) || !at.Before(l.ended) {
					continue
				}
				k := key{l.team, l.pod}
				if pods[k] == nil {
					pods[k] = &seen{l, at, at}
				}
				pods[k].last = at
			}
		}
		for _, p := range pods {
			length := p.last.Sub(p.first)
			if length == 0 {
				length = resolution
			}
			if p.lifetime.resource != api.ResourceGPU {
				continue // the query asks for nvidia_com_gpu alone
			}
			bill[p.lifetime.what] += float64(p.lifetime.count) * length.Hours() * averagePrice(p.lifetime.node, day, price)
		}
	}
	return bill
}

// averagePrice is the mean price of a GPU of a node over the samples of a day.
func averagePrice(node string, day time.Time, price func(m *machine, at time.Time) float64) float64 {
	sum, n := 0.0, 0
	for at := day; at.Before(day.Add(24 * time.Hour)); at = at.Add(resolution) {
		for i := range machines {
			if machines[i].name == node {
				sum += price(&machines[i], at)
				n++
			}
		}
	}
	return sum / float64(n)
}

// ofItsNode is the price of a GPU as a part of the price of its node.
func ofItsNode(m *machine, at time.Time) float64 {
	dollars := 0.0
	for _, r := range m.rates {
		if !r.from.After(at) {
			dollars = float64(r.micros) / dollar
		}
	}
	return dollars / float64(m.gpus)
}

// oneForAll is the price of a GPU in the custom prices that OpenCost begins with (configs/default.json).
func oneForAll(*machine, time.Time) float64 { return 0.95 }
