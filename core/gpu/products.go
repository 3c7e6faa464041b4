package gpu

import (
	"cmp"
	"slices"
	"strings"
)

// Product is what is known of one GPU model without asking its driver. It
// serves GPUs that are simulated and lints of files; where a driver can be
// asked, what it says wins.
//
// Source: NVIDIA's data sheets, and nvidia-smi -q of each model.
type Product struct {
	Name      string // as NVML gives it, such as "NVIDIA A100-SXM4-40GB"
	MemoryMiB int64  // total, as nvidia-smi shows it
	Family    string // GPU Feature Discovery's word, such as "ampere"

	ComputeMajor, ComputeMinor int // CUDA compute capability
	Multiprocessors            int

	PowerLimitWatts   int // default enforced limit
	MaxSMClockMHz     int
	MaxMemoryClockMHz int

	NVLinks int // links of the baseboard to NVSwitch or peers; bridges are not counted

	ComputeSlices int       // 7, or 4 on A30 and RTX PRO 6000; 0 is no MIG
	MemorySlices  int       // 8, or 4 on A30 and RTX PRO 6000; 0 is no MIG
	SliceUnits    int       // in how many the driver counts a memory slice: 3 on RTX PRO 6000; 0 is 1
	Profiles      []Profile // in the order of nvidia-smi mig -lgip; empty is no MIG

	MPSClients int // most containers that may share one GPU by MPS
}

// The words of GPU Feature Discovery's label gpu.family, by compute
// capability.
const (
	kepler    = "kepler"
	pascal    = "pascal"
	volta     = "volta"
	turing    = "turing"
	ampere    = "ampere"
	ada       = "ada-lovelace"
	hopper    = "hopper"
	blackwell = "blackwell"
)

// model makes a Product without MIG. NVIDIA's device plugin lets 48 containers
// share a GPU by MPS, and 16 before compute capability 7.5.
func model(name string, memoryMiB int64, family string, major, minor, sm, watts, smMHz, memMHz, links int) Product {
	clients := 48
	if major < 7 || major == 7 && minor < 5 {
		clients = 16
	}
	return Product{
		Name: name, MemoryMiB: memoryMiB, Family: family,
		ComputeMajor: major, ComputeMinor: minor, Multiprocessors: sm,
		PowerLimitWatts: watts, MaxSMClockMHz: smMHz, MaxMemoryClockMHz: memMHz,
		NVLinks: links, MPSClients: clients,
	}
}

// withMIG adds MIG profiles and the slices they are cut from.
func (p Product) withMIG(compute, memory int, profiles []Profile) Product {
	p.ComputeSlices, p.MemorySlices, p.Profiles = compute, memory, profiles
	return p
}

// WithoutMIG is a sentence that says that p has no MIG, and what has.
func (p Product) WithoutMIG() string { return p.Name + " has no MIG; " + HaveMIG + " have" }

// HaveMIG lists the families of products that MIG can cut.
const HaveMIG = "A100, A30, H100, H200, GH200, B200, B300 and RTX PRO 6000 Blackwell"

// Products returns every known product, sorted by name. The caller owns it.
func Products() []Product {
	out := slices.Concat(products(), superchips(), workstations())
	slices.SortFunc(out, func(a, b Product) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// superchips are those of which not all figures are published; see scaled.
func superchips() []Product {
	add := func(p Product, like []Profile) Product { return p.withMIG(7, 8, scaled(like, p.MemoryMiB)) }
	return []Product{
		add(model("NVIDIA H100 NVL", 95830, hopper, 9, 0, 132, 400, 1785, 2619, 0), h100Profiles()),
		add(model("NVIDIA H200 NVL", 143771, hopper, 9, 0, 132, 600, 1785, 3201, 0), h200Profiles()),
		add(model("NVIDIA GH200 480GB", 97871, hopper, 9, 0, 132, 900, 1980, 2619, 0), h100Profiles()),
		add(model("NVIDIA GH200 144G HBM3e", 146831, hopper, 9, 0, 132, 900, 1980, 3201, 0), h200Profiles()),
		add(model("NVIDIA GB200", 189471, blackwell, 10, 0, 152, 1200, 2062, 3996, 18), b200Profiles()),
		add(model("NVIDIA B300 SXM6 AC", 275040, blackwell, 10, 3, 148, 1100, 2032, 3996, 18), b200Profiles()),
		add(model("NVIDIA GB300", 284208, blackwell, 10, 3, 152, 1400, 2070, 3996, 18), b200Profiles()),
	}
}

// workstations of which MIG can cut some.
func workstations() []Product {
	var out []Product
	for _, edition := range []struct {
		name        string
		watts, smHz int
	}{{"Server", 600, 2430}, {"Workstation", 600, 3090}, {"Max-Q Workstation", 300, 3090}} {
		p := model("NVIDIA RTX PRO 6000 Blackwell "+edition.name+" Edition", 97887, blackwell, 12, 0, 188, edition.watts, edition.smHz, 12481, 0)
		p = p.withMIG(4, 4, rtxPro6000Profiles())
		p.SliceUnits = 3
		out = append(out, p)
	}
	return out
}

func products() []Product {
	return []Product{
		model("NVIDIA A100-SXM4-40GB", 40960, ampere, 8, 0, 108, 400, 1410, 1215, 12).withMIG(7, 8, a100Profiles40()),
		model("NVIDIA A100-SXM4-80GB", 81920, ampere, 8, 0, 108, 400, 1410, 1593, 12).withMIG(7, 8, a100Profiles80()),
		model("NVIDIA A100-PCIE-40GB", 40960, ampere, 8, 0, 108, 250, 1410, 1215, 0).withMIG(7, 8, a100Profiles40()),
		model("NVIDIA A100 80GB PCIe", 81920, ampere, 8, 0, 108, 300, 1410, 1512, 0).withMIG(7, 8, a100Profiles80()),
		model("NVIDIA A30", 24576, ampere, 8, 0, 56, 165, 1440, 1215, 0).withMIG(4, 4, a30Profiles()),
		model("NVIDIA A10", 23028, ampere, 8, 6, 72, 150, 1695, 6251, 0),
		model("NVIDIA A10G", 23028, ampere, 8, 6, 80, 300, 1710, 6251, 0),
		model("NVIDIA L4", 23034, ada, 8, 9, 58, 72, 2040, 6251, 0),
		model("NVIDIA L40S", 46068, ada, 8, 9, 142, 350, 2520, 9001, 0),
		model("NVIDIA H100 80GB HBM3", 81559, hopper, 9, 0, 132, 700, 1980, 2619, 18).withMIG(7, 8, h100Profiles()),
		model("NVIDIA H100 PCIe", 81559, hopper, 9, 0, 114, 350, 1755, 1593, 0).withMIG(7, 8, h100PCIeProfiles()),
		model("NVIDIA H200", 143771, hopper, 9, 0, 132, 700, 1980, 3201, 18).withMIG(7, 8, h200Profiles()),
		model("NVIDIA B200", 183359, blackwell, 10, 0, 148, 1000, 1965, 3996, 18).withMIG(7, 8, b200Profiles()),
		model("Tesla V100-SXM2-16GB", 16384, volta, 7, 0, 80, 300, 1530, 877, 6),
		model("Tesla V100-SXM2-32GB", 32768, volta, 7, 0, 80, 300, 1530, 877, 6),
		model("Tesla T4", 15360, turing, 7, 5, 40, 70, 1590, 5001, 0),
		model("Tesla P100-PCIE-16GB", 16384, pascal, 6, 0, 56, 250, 1328, 715, 0),
		model("Tesla K80", 11441, kepler, 3, 7, 13, 149, 875, 2505, 0),
		model("NVIDIA GeForce RTX 4090", 24564, ada, 8, 9, 128, 450, 3105, 10501, 0),
	}
}

// catalog is Products, read only.
var catalog = Products() //nolint:gochecknoglobals // a table

// Largest returns the known product that has the most memory; of equals the first by name.
func Largest() Product {
	return slices.MaxFunc(Products(), func(a, b Product) int { return cmp.Compare(a.MemoryMiB, b.MemoryMiB) })
}

// Find returns the product of a name as NVML gives it ("Tesla T4") or as the
// label nvidia.com/gpu.product does ("Tesla-T4"), there without the suffix
// -SHARED or a MIG suffix. Do not change the Profiles of
// what it returns: they are not copied.
func Find(name string) (Product, bool) {
	for _, p := range catalog {
		if p.Name == name {
			return p, true
		}
	}
	for _, p := range catalog {
		if p.LabelName() == name {
			return p, true
		}
	}
	return Product{}, false
}

// LabelName returns the product's name as GPU Feature Discovery writes it into a
// label: letters, digits, "-", "_" and "." stay, blanks become "-", and
// everything else is dropped.
func (p Product) LabelName() string { return labelValue(p.Name) }

// BareLabel returns a value of the label nvidia.com/gpu.product without what GPU Feature
// Discovery adds for MIG and sharing: "Tesla-T4" for "Tesla-T4-SHARED", and
// "NVIDIA-A30" for "NVIDIA-A30-MIG-1g.6gb-SHARED".
func BareLabel(label string) string {
	name, _, _ := strings.Cut(label, "-MIG-")
	return strings.TrimSuffix(name, "-SHARED")
}

// labelValue makes a label value of a product or machine name.
func labelValue(name string) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("-_.", r):
			return r
		case r == ' ':
			return '-'
		}
		return -1
	}, name)
	// Kubernetes: at most 63 characters, a letter or digit at both ends.
	s = s[:min(len(s), 63)]
	return strings.Trim(s, "-_.")
}
