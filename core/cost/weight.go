// Package cost says what GPUs are worth, what nodes cost, and who is charged for it.
package cost

import "berth.dev/berth/core/gpu"

// Unit is the Weight of one GPU-equivalent: of one NVIDIA A100-SXM4-80GB.
const Unit = 1000

// Weight returns what a GPU of a product is worth, in thousandths of a GPU-equivalent.
// The product is named as by NVML or by the label nvidia.com/gpu.product; suffixes of
// sharing and MIG do not count. A product that is not known, and "", are worth Unit.
//
// Source: list prices on demand of AWS us-east-1 of July 2026, of the instance type with
// the lowest price per GPU, but no more than the dense FP16 tensor throughput of NVIDIA's
// data sheets says: prices are not lowered as products age. Both are taken against those
// of the A100-SXM4-80GB. A product without a price has that of the product that it is
// most like, times the ratio of their throughputs.
func Weight(product string) int64 {
	if w, ok := weights[product]; ok {
		return w
	}
	if w, ok := weights[gpu.BareLabel(product)]; ok {
		return w
	}
	return Unit
}

// rate is what is known of the worth of a product.
type rate struct {
	product   string
	dollars   float64 // per GPU and hour; 0 is that there is no price
	like      string  // the product whose price is taken for it, where it has none
	teraflops float64 // dense FP16 tensor throughput; FP16 or FP32 without tensor cores
}

// rates are the rates of all products that package gpu knows, by the names of NVML. The
// comment on a price is its instance type. AWS's list of 2026-07-20 has them all but those of
// the B300 and the RTX PRO 6000, which are of the same region and year.
var rates = []rate{
	{"NVIDIA A10", 0, "NVIDIA A10G", 125},
	{"NVIDIA A100 80GB PCIe", 0, "NVIDIA A100-SXM4-80GB", 312},
	{"NVIDIA A100-PCIE-40GB", 0, "NVIDIA A100-SXM4-40GB", 312},
	{"NVIDIA A100-SXM4-40GB", 21.957642 / 8, "", 312}, // p4d.24xlarge
	{"NVIDIA A100-SXM4-80GB", 27.44705 / 8, "", 312},  // p4de.24xlarge
	{"NVIDIA A10G", 1.006, "", 70},                    // g5.xlarge
	{"NVIDIA A30", 0, "NVIDIA A100-SXM4-40GB", 165},
	{"NVIDIA B200", 113.9328 / 8, "", 2250},        // p6-b200.48xlarge
	{"NVIDIA B300 SXM6 AC", 142.416 / 8, "", 2250}, // p6-b300.48xlarge
	{"NVIDIA GB200", 0, "NVIDIA B200", 2500},
	{"NVIDIA GB300", 0, "NVIDIA B300 SXM6 AC", 2500},
	{"NVIDIA GH200 144G HBM3e", 0, "NVIDIA H200", 989},
	{"NVIDIA GH200 480GB", 0, "NVIDIA H100 80GB HBM3", 989},
	{"NVIDIA GeForce RTX 4090", 0, "NVIDIA L40S", 165},
	{"NVIDIA H100 80GB HBM3", 55.04 / 8, "", 989}, // p5.48xlarge
	{"NVIDIA H100 NVL", 0, "NVIDIA H100 80GB HBM3", 835},
	{"NVIDIA H100 PCIe", 0, "NVIDIA H100 80GB HBM3", 756},
	{"NVIDIA H200", 63.296 / 8, "", 989}, // p5en.48xlarge
	{"NVIDIA H200 NVL", 0, "NVIDIA H200", 835},
	{"NVIDIA L4", 0.8048, "", 121},  // g6.xlarge
	{"NVIDIA L40S", 1.861, "", 362}, // g6e.xlarge
	{"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 0, "NVIDIA RTX PRO 6000 Blackwell Server Edition", 439},
	{"NVIDIA RTX PRO 6000 Blackwell Server Edition", 3.36312, "", 500}, // g7e.2xlarge
	{"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 0, "NVIDIA RTX PRO 6000 Blackwell Server Edition", 500},
	{"Tesla K80", 0.9, "", 4.4},                               // p2.xlarge; FP32 of one of its two GPUs
	{"Tesla P100-PCIE-16GB", 0, "Tesla V100-SXM2-16GB", 18.7}, // FP16 without tensor cores
	{"Tesla T4", 0.526, "", 65},                               // g4dn.xlarge
	{"Tesla V100-SXM2-16GB", 3.06, "", 125},                   // p3.2xlarge
	{"Tesla V100-SXM2-32GB", 31.212 / 8, "", 125},             // p3dn.24xlarge
}

// weights are the weights of rates, by both names of each product.
var weights = weigh() //nolint:gochecknoglobals // a table

// weigh works out weights.
func weigh() map[string]int64 {
	byName := map[string]rate{}
	for _, r := range rates {
		byName[r.product] = r
	}
	one := byName["NVIDIA A100-SXM4-80GB"]
	out := map[string]int64{}
	for _, r := range rates {
		if r.dollars == 0 {
			like := byName[r.like]
			r.dollars = like.dollars * r.teraflops / like.teraflops
		}
		w := int64(Unit*min(r.dollars/one.dollars, r.teraflops/one.teraflops) + 0.5)
		out[r.product] = w
		if p, ok := gpu.Find(r.product); ok {
			out[p.LabelName()] = w
		}
	}
	return out
}
