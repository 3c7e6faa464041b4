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
func Labels(n Node, s Sharing) map[string]string {
	out := map[string]string{}
	if len(n.GPUs) == 0 {
		return out
	}
	set := func(key, value string) { out[labelPrefix+key] = value }
	set("gpu.present", "true")
	set("vgpu.present", "false")
	versions(n, set)
	if m := labelValue(n.Machine); m != "" {
		set("gpu.machine", m)
	}
	migOn := slices.ContainsFunc(n.GPUs, func(g GPU) bool { return g.MIGEnabled })
	set("mig.capable", strconv.FormatBool(slices.ContainsFunc(n.GPUs, migCapable)))
	if s.MIGStrategy == MIGSingle || s.MIGStrategy == MIGMixed {
		set("mig.strategy", string(s.MIGStrategy))
	}
	set("mps.capable", strconv.FormatBool(s.Strategy == SharingMPS && !migOn))
	set("gpu.mode", mode(n.GPUs))

	name, gpus := mainProduct(n.GPUs)
	parentLabels(name, gpus, s, set)
	switch {
	case s.MIGStrategy == MIGSingle && migOn:
		singleLabels(name, n.GPUs, s, set)
	case s.MIGStrategy == MIGMixed:
		mixedLabels(n.GPUs, s, set)
	}
	return out
}

func migCapable(g GPU) bool {
	p, ok := Find(g.Product)
	return g.MIGEnabled || ok && len(p.Profiles) > 0
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

// mode is what the PCI class says: GeForce cards drive displays.
func mode(gpus []GPU) string {
	graphics := 0
	for _, g := range gpus {
		if strings.Contains(g.Product, "GeForce") {
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

// mainProduct gives the product with the most GPUs, and those.
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

// parentLabels describes whole GPUs. Those with MIG on are not shared
// themselves: they have 0 replicas.
func parentLabels(name string, gpus []GPU, s Sharing, set func(key, value string)) {
	r := ResourceGPU
	shared := replicasOf(s, r)
	if !slices.ContainsFunc(gpus, func(g GPU) bool { return !g.MIGEnabled }) {
		shared = 0
	}
	set("gpu.product", labelValue(name)+suffix(s, shared))
	set("gpu.count", strconv.Itoa(len(gpus)))
	set("gpu.replicas", strconv.Itoa(shared))
	set("gpu.sharing-strategy", strategy(s, shared))
	set("gpu.memory", mib(gpus[0].MemoryBytes))
	if p, ok := Find(name); ok {
		set("gpu.family", p.Family)
		set("gpu.compute.major", strconv.Itoa(p.ComputeMajor))
		set("gpu.compute.minor", strconv.Itoa(p.ComputeMinor))
	}
}

// singleLabels lets gpu.* describe the MIG devices, or say that they cannot
// stand for nvidia.com/gpu.
func singleLabels(name string, gpus []GPU, s Sharing, set func(key, value string)) {
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
		set("gpu.product", labelValue(name)+"-MIG-INVALID")
		set("gpu.count", "0")
		set("gpu.replicas", "0")
		set("gpu.sharing-strategy", "")
		set("gpu.memory", "0")
		return
	}
	migLabels("gpu", name, firstMIG(gpus, profile), count, replicasOf(s, ResourceGPU), s, set)
}

// mixedLabels adds a set for each profile of the node.
func mixedLabels(gpus []GPU, s Sharing, set func(key, value string)) {
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
		migLabels(strings.TrimPrefix(resource, labelPrefix), name, firstMIG(of, profile), count, replicasOf(s, resource), s, set)
	}
}

func firstMIG(gpus []GPU, profile string) MIGDevice {
	for _, g := range gpus {
		for _, m := range g.MIG {
			if m.Profile == profile {
				return m
			}
		}
	}
	return MIGDevice{}
}

// migLabels describes count MIG devices like m under the label names key.*.
func migLabels(key, product string, m MIGDevice, count, replicas int, s Sharing, set func(key, value string)) {
	set(key+".product", labelValue(product+"-MIG-"+strings.Replace(m.Profile, "+", ".", 1))+suffix(s, replicas))
	set(key+".count", strconv.Itoa(count))
	set(key+".replicas", strconv.Itoa(replicas))
	set(key+".sharing-strategy", strategy(s, replicas))
	set(key+".memory", mib(m.MemoryBytes))
	set(key+".slices.gi", strconv.Itoa(m.Slices))
	set(key+".slices.ci", strconv.Itoa(m.Slices))
	p, _ := Find(product)
	f, ok := p.Profile(m.Profile)
	if !ok {
		return
	}
	set(key+".multiprocessors", strconv.Itoa(f.Multiprocessors))
	set(key+".engines.copy", strconv.Itoa(f.CopyEngines))
	set(key+".engines.decoder", strconv.Itoa(f.Decoders))
	set(key+".engines.encoder", strconv.Itoa(f.Encoders))
	set(key+".engines.jpeg", strconv.Itoa(f.JPEG))
	set(key+".engines.ofa", strconv.Itoa(f.OFA))
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
