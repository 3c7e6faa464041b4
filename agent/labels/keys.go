package labels

import (
	"regexp"
	"slices"

	"berth.dev/berth/api"
)

// The names that an agent writes on its Node. deploy/agent.yaml has the same, in the
// policy that lets it write no others; a test holds both to one another.
var (
	ownLabels = append([]string{api.LabelAllocation, api.LabelFakeGPUs}, prefixed(
		"cuda.driver-version.full", "cuda.driver-version.major", "cuda.driver-version.minor", "cuda.driver-version.revision",
		"cuda.driver.major", "cuda.driver.minor", "cuda.driver.rev",
		"cuda.runtime-version.full", "cuda.runtime-version.major", "cuda.runtime-version.minor",
		"cuda.runtime.major", "cuda.runtime.minor",
		"gfd.timestamp",
		"gpu.clique", "gpu.compute.major", "gpu.compute.minor", "gpu.count", "gpu.engines.copy", "gpu.engines.decoder",
		"gpu.engines.encoder", "gpu.engines.jpeg", "gpu.engines.ofa", "gpu.family", "gpu.machine", "gpu.memory", "gpu.mode",
		"gpu.multiprocessors", "gpu.present", "gpu.product", "gpu.replicas", "gpu.sharing-strategy", "gpu.slices.ci", "gpu.slices.gi",
		"mig.capable", "mig.config.state", "mig.strategy", "mps.capable",
		"vgpu.host-driver-branch", "vgpu.host-driver-version", "vgpu.present",
	)...)
	ownAnnotations = []string{api.AnnotationInventory, api.AnnotationObserved, api.AnnotationPluginConfig}
	ownMIGLabels   = regexp.MustCompile(MIGLabels)
)

// MIGLabels matches the labels that describe the MIG devices of one profile, such as
// nvidia.com/mig-1g.10gb.count.
const MIGLabels = `^nvidia[.]com/mig-([1-9][0-9]?c[.])?[1-9][0-9]?g[.][1-9][0-9]{0,3}gb([.+-][a-z]+)*` +
	`[.](count|engines[.](copy|decoder|encoder|jpeg|ofa)|memory|multiprocessors|product|replicas|sharing-strategy|slices[.](ci|gi))$`

// OwnLabels returns the labels that an agent may write on its Node, beside those that
// match MIGLabels.
func OwnLabels() []string { return slices.Clone(ownLabels) }

// OwnAnnotations returns the annotations that an agent may write on its Node.
func OwnAnnotations() []string { return slices.Clone(ownAnnotations) }

// OwnsLabel reports whether an agent may write a label on its Node.
func OwnsLabel(key string) bool {
	return slices.Contains(ownLabels, key) || ownMIGLabels.MatchString(key)
}

func prefixed(names ...string) []string {
	for i, name := range names {
		names[i] = prefix + name
	}
	return names
}
