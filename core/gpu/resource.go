package gpu

import "strings"

// Resource names of NVIDIA's device plugin.
const (
	ResourceGPU     = "nvidia.com/gpu"
	resourceMIG     = "nvidia.com/mig-"
	renamedResource = ".shared"
)

// MIGResource returns the resource name of a MIG profile in strategy mixed:
// "1g.5gb" is "nvidia.com/mig-1g.5gb", "1g.5gb+me" is "nvidia.com/mig-1g.5gb.me".
func MIGResource(profile string) string {
	return resourceMIG + strings.ReplaceAll(profile, "+", ".")
}

// SharedResource returns the name under which the shares of resource are offered
// where sharing renames them: with ".shared" at the end.
func SharedResource(resource string) string { return resource + renamedResource }
