// Package price reads what decides the price of a node: its labels and annotation, and PriceBooks.
package price

import (
	"math/big"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/gpu"
)

// Node reads a node for cost.PriceOf, with the product and the number of its physical GPUs.
func Node(n *v1.Node, product string, gpus int) *cost.Node {
	out := &cost.Node{
		Instance: n.Labels[v1.LabelInstanceTypeStable], Region: n.Labels[v1.LabelTopologyRegion], Pool: pool(n.Labels), Product: gpu.BareLabel(product),
		GPUs: gpus, Labels: n.Labels, Capacity: capacity(n.Labels),
	}
	if text := n.Annotations[api.AnnotationPrice]; text != "" {
		if out.Written, out.Says = Micros(text); !out.Says {
			out.Unread = text
		}
	}
	return out
}

// pool is the pool that a node is of; "" is none.
func pool(labels map[string]string) string {
	for _, key := range api.PoolLabels {
		if name := labels[key]; name != "" {
			return name
		}
	}
	return ""
}

// Micros reads a price as the annotation berth.dev/price-per-hour has it: a decimal number that is at least 0 and
// at most ten million, in millionths, rounded down.
func Micros(text string) (micros int64, ok bool) {
	micros, ok = decimal(text)
	return micros, ok && micros <= cost.MostMicros
}

// decimal reads a decimal number that is at least 0, in millionths, rounded down.
func decimal(text string) (micros int64, ok bool) {
	if len(text) > 32 || strings.ContainsAny(text, "eEpPxX/_") {
		return 0, false
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || r.Sign() < 0 {
		return 0, false
	}
	r.Mul(r, big.NewRat(1_000_000, 1))
	n := new(big.Int).Quo(r.Num(), r.Denom())
	return n.Int64(), n.IsInt64()
}

// capacities are the values of the labels of those who buy nodes.
var capacities = map[string]map[string]cost.Capacity{
	"karpenter.sh/capacity-type":            {"spot": cost.Spot, "on-demand": cost.OnDemand, "reserved": cost.Reserved},
	"eks.amazonaws.com/capacityType":        {"SPOT": cost.Spot, "ON_DEMAND": cost.OnDemand, "CAPACITY_BLOCK": cost.Reserved},
	"cloud.google.com/gke-provisioning":     {"spot": cost.Spot, "preemptible": cost.Spot, "standard": cost.OnDemand},
	"cloud.google.com/gke-spot":             {"true": cost.Spot},
	"cloud.google.com/gke-preemptible":      {"true": cost.Spot},
	"kubernetes.azure.com/scalesetpriority": {"spot": cost.Spot, "regular": cost.OnDemand},
}

// capacity is how a node was bought, by its labels; "" is that none says it.
func capacity(labels map[string]string) cost.Capacity {
	for label, values := range capacities {
		if c := values[labels[label]]; c != "" {
			return c
		}
	}
	return ""
}
