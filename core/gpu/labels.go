package gpu

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

const labelPrefix = "nvidia.com/"

// Labels gives the node labels that GPU Feature Discovery writes for n with
// sharing s, and nvidia.com/gpu.present. A node without GPUs has none.
//
// Values are the same for the same node: where it has GPUs of several
// products, gpu.* tells of the product with the most GPUs, ties by name
// (NVIDIA's tool lets the last one found win). The label gfd.timestamp is left
// out, and so is the NVLink domain of rack-scale machines (gpu.clique).
func Labels(n Node, s Sharing) map[string]string { return DriverLabels(n, s, nil) }

// DriverLabels is Labels with what the driver says of the GPUs, by UUID. It has
// gpu.clique where all of them are on one fabric.
func DriverLabels(n Node, s Sharing, facts map[string]Facts) map[string]string {
	l := &labeller{sharing: s, facts: facts, out: map[string]string{}}
	if len(n.GPUs) == 0 {
		return l.out
	}
	l.set("gpu.present", "true")
	l.set("vgpu.present", "false")
	versions(n, l.set)
	if m := labelValue(n.Machine); m != "" {
		l.set("gpu.machine", m)
	}
	migOn := slices.ContainsFunc(n.GPUs, func(g GPU) bool { return g.MIGEnabled })
	l.set("mig.capable", strconv.FormatBool(slices.ContainsFunc(n.GPUs, l.migCapable)))
	if s.MIGStrategy == MIGSingle || s.MIGStrategy == MIGMixed {
		l.set("mig.strategy", string(s.MIGStrategy))
	}
	l.set("mps.capable", strconv.FormatBool(s.Strategy == SharingMPS && !migOn))
	l.set("gpu.mode", l.mode(n.GPUs))
	if f := l.fabric(n.GPUs); f != "" {
		l.set("gpu.clique", f)
	}

	name, gpus := mainProduct(n.GPUs)
	l.parent(name, gpus)
	switch {
	case s.MIGStrategy == MIGSingle && migOn:
		l.single(name, n.GPUs)
	case s.MIGStrategy == MIGMixed:
		l.mixed(n.GPUs)
	}
	return l.out
}

// versions sets the driver's labels, in today's and yesterday's spelling.
func versions(n Node, set func(key, value string)) {
	if n.DriverVersion != "" {
		v := append(strings.SplitN(n.DriverVersion, ".", 3), "", "")
		set("cuda.driver-version.full", n.DriverVersion)
		set("cuda.driver-version.major", v[0])
		set("cuda.driver-version.minor", v[1])
		set("cuda.driver-version.revision", v[2])
		set("cuda.driver.major", v[0])
		set("cuda.driver.minor", v[1])
		set("cuda.driver.rev", v[2])
	}
	if n.CUDAVersion != "" {
		v := append(strings.SplitN(n.CUDAVersion, ".", 3), "")
		set("cuda.runtime-version.full", n.CUDAVersion)
		set("cuda.runtime-version.major", v[0])
		set("cuda.runtime-version.minor", v[1])
		set("cuda.runtime.major", v[0])
		set("cuda.runtime.minor", v[1])
	}
}

// mode is what the PCI class says; where the driver is not asked, GeForce cards
// drive displays.
func (l *labeller) mode(gpus []GPU) string {
	graphics := 0
	for _, g := range gpus {
		f, ok := l.facts[g.UUID]
		if ok && f.Display || !ok && strings.Contains(g.Product, "GeForce") {
			graphics++
		}
	}
	switch graphics {
	case 0:
		return "compute"
	case len(gpus):
		return "graphics"
	}
	return "unknown"
}

// mainProduct returns the product with the most GPUs, and those.
func mainProduct(gpus []GPU) (string, []GPU) {
	byName := map[string][]GPU{}
	for _, g := range gpus {
		byName[g.Product] = append(byName[g.Product], g)
	}
	best := ""
	for name, of := range byName {
		if n := cmp.Compare(len(of), len(byName[best])); best == "" || n > 0 || n == 0 && name < best {
			best = name
		}
	}
	return best, byName[best]
}

// parent describes whole GPUs. Those with MIG on are not shared themselves: they
// have 0 replicas.
func (l *labeller) parent(name string, gpus []GPU) {
	s, r := l.sharing, ResourceGPU
	shared := replicasOf(s, r)
	if !slices.ContainsFunc(gpus, func(g GPU) bool { return !g.MIGEnabled }) {
		shared = 0
	}
	l.set("gpu.product", labelValue(name)+suffix(s, shared))
	l.set("gpu.count", strconv.Itoa(len(gpus)))
	l.set("gpu.replicas", strconv.Itoa(shared))
	l.set("gpu.sharing-strategy", strategy(s, shared))
	l.set("gpu.memory", mib(gpus[0].MemoryBytes))
	if family, major, minor, ok := l.compute(gpus[0]); ok {
		l.set("gpu.family", family)
		l.set("gpu.compute.major", strconv.Itoa(major))
		l.set("gpu.compute.minor", strconv.Itoa(minor))
	}
}

// single lets gpu.* describe the MIG devices, or say that they cannot stand for
// nvidia.com/gpu.
func (l *labeller) single(name string, gpus []GPU) {
	profile, count, valid := "", 0, true
	for _, g := range gpus {
		valid = valid && g.MIGEnabled && len(g.MIG) > 0
		for _, m := range g.MIG {
			valid = valid && (profile == "" || profile == m.Profile)
			profile = m.Profile
			count++
		}
	}
	if !valid {
		l.set("gpu.product", labelValue(name)+"-MIG-INVALID")
		l.set("gpu.count", "0")
		l.set("gpu.replicas", "0")
		l.set("gpu.sharing-strategy", "")
		l.set("gpu.memory", "0")
		return
	}
	l.migDevices("gpu", name, gpus, profile, count, replicasOf(l.sharing, ResourceGPU))
}

// mixed adds a set for each profile of the node.
func (l *labeller) mixed(gpus []GPU) {
	counts := map[string]int{}
	parents := map[string][]GPU{}
	for _, g := range gpus {
		for _, m := range g.MIG {
			counts[m.Profile]++
			if p := parents[m.Profile]; len(p) == 0 || p[len(p)-1].UUID != g.UUID {
				parents[m.Profile] = append(p, g)
			}
		}
	}
	for profile, count := range counts {
		name, of := mainProduct(parents[profile])
		resource := MIGResource(profile)
		l.migDevices(strings.TrimPrefix(resource, labelPrefix), name, of, profile, count, replicasOf(l.sharing, resource))
	}
}

// firstMIG finds a device of a profile, and its GPU.
func firstMIG(gpus []GPU, profile string) (GPU, MIGDevice) {
	for _, g := range gpus {
		for _, m := range g.MIG {
			if m.Profile == profile {
				return g, m
			}
		}
	}
	return GPU{}, MIGDevice{}
}

// migDevices describes count MIG devices of a profile, cut out of gpus, under the
// label names key.*.
func (l *labeller) migDevices(key, product string, gpus []GPU, profile string, count, replicas int) {
	g, m := firstMIG(gpus, profile)
	l.set(key+".product", labelValue(product+"-MIG-"+strings.Replace(m.Profile, "+", ".", 1))+suffix(l.sharing, replicas))
	l.set(key+".count", strconv.Itoa(count))
	l.set(key+".replicas", strconv.Itoa(replicas))
	l.set(key+".sharing-strategy", strategy(l.sharing, replicas))
	l.set(key+".memory", mib(m.MemoryBytes))
	l.set(key+".slices.gi", strconv.Itoa(m.Slices))
	l.set(key+".slices.ci", strconv.Itoa(m.Slices))
	f, ok := l.profile(g, m.Profile)
	if !ok {
		return
	}
	l.set(key+".multiprocessors", strconv.Itoa(f.Multiprocessors))
	l.set(key+".engines.copy", strconv.Itoa(f.CopyEngines))
	l.set(key+".engines.decoder", strconv.Itoa(f.Decoders))
	l.set(key+".engines.encoder", strconv.Itoa(f.Encoders))
	l.set(key+".engines.jpeg", strconv.Itoa(f.JPEG))
	l.set(key+".engines.ofa", strconv.Itoa(f.OFA))
}

func replicasOf(s Sharing, resource string) int {
	if s.Strategy == SharingNone || s.Strategy == "" {
		return 1
	}
	return max(1, s.Replicas[resource])
}

// suffix marks a shared product, unless the resource's name says it already.
func suffix(s Sharing, replicas int) string {
	if replicas > 1 && !s.RenameByDefault {
		return "-SHARED"
	}
	return ""
}

func strategy(s Sharing, replicas int) string {
	if replicas > 1 {
		return string(s.Strategy)
	}
	return string(SharingNone)
}

func mib(bytes int64) string { return strconv.FormatInt(bytes>>20, 10) }
