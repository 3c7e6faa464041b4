package spec

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/api"
)

// The forms of a driver version and of its CUDA level.
var (
	driverForm = regexp.MustCompile(`^[0-9]{1,4}\.[0-9]{1,4}(\.[0-9]{1,4})?$`)
	cudaForm   = regexp.MustCompile(`^[0-9]{1,3}\.[0-9]{1,3}$`)
)

// name refuses a node name that Kubernetes would refuse, and one with a dot:
// the name is the first label of the node's DNS name.
func (b *builder) name(path, name string) error {
	if why := validation.IsDNS1123Label(name); len(why) > 0 {
		return b.refuse(path, "use lower case letters, digits and -, such as gpu-node-1", "%q is not a node name: %s", name, why[0])
	}
	return nil
}

// words refuses what is misspelled in the fields that all nodes of a group have
// in common.
func (b *builder) words(path string, n Node, g group) error {
	if known := []string{string(OnDemand), string(Spot)}; !slices.Contains(known, string(n.CapacityType)) {
		return b.refuse(path+".capacityType", didYouMean(string(n.CapacityType), known), "%q is not a capacity type", n.CapacityType)
	}
	for _, field := range []struct{ name, value string }{{"zone", n.Zone}, {"instanceType", n.InstanceType}} {
		if why := validation.IsValidLabelValue(field.value); len(why) > 0 {
			return b.refuse(path+"."+field.name, "it becomes a label of the node: use letters, digits, -, _ and .", "%q cannot be a label: %s", field.value, why[0])
		}
	}
	if err := b.driver(path, g); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		if err := b.label(entry(path+".labels", key), key, n.Labels[key]); err != nil {
			return err
		}
	}
	for i, t := range n.Taints {
		if err := b.taint(fmt.Sprintf("%s.taints[%d]", path, i), t); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) driver(path string, g group) error {
	switch {
	case g.Driver == "" && g.CUDA == "":
		return nil
	case g.GPUs == nil:
		return b.refuse(path+".driver", "add gpus, or leave driver and cuda out", "a node without GPUs has no driver")
	case g.Driver == "":
		return b.refuse(path+".cuda", fmt.Sprintf("add the driver's version, such as driver: %s", defaultDriver), "driver and cuda go together")
	case g.CUDA == "":
		return b.refuse(path+".driver", fmt.Sprintf("add the driver's CUDA level, such as cuda: %q", defaultCUDA), "driver and cuda go together")
	case !driverForm.MatchString(g.Driver):
		return b.refuse(path+".driver", "write it as nvidia-smi does, such as "+defaultDriver, "%q is not a driver version", g.Driver)
	case !cudaForm.MatchString(g.CUDA):
		return b.refuse(path+".cuda", fmt.Sprintf("write it as nvidia-smi does, such as %q", defaultCUDA), "%q is not a CUDA level", g.CUDA)
	}
	return nil
}

// label refuses a label that Kubernetes would refuse, or that the fleet sets.
func (b *builder) label(path, key, value string) error {
	if why := validation.IsQualifiedName(key); len(why) > 0 {
		return b.refuse(path, "use a key such as team or example.com/team", "%q is not a label key: %s", key, why[0])
	}
	if why := validation.IsValidLabelValue(value); len(why) > 0 {
		return b.refuse(path, "use at most 63 letters, digits, -, _ and .", "%q cannot be the value of a label: %s", value, why[0])
	}
	switch {
	case strings.HasPrefix(key, "berth.dev/"), key == v1.LabelHostname, key == api.LabelMIGState:
		return b.refuse(path, "leave it out", "the fleet itself sets %s", key)
	case discovered(key):
		return b.refuse(path, "leave it out", "%s follows from gpus and sharing, as GPU Feature Discovery sets it", key)
	}
	return nil
}

func (b *builder) taint(path string, t Taint) error {
	if why := validation.IsQualifiedName(t.Key); len(why) > 0 {
		return b.refuse(path+".key", "use a key such as nvidia.com/gpu", "%q is not a taint key: %s", t.Key, why[0])
	}
	if why := validation.IsValidLabelValue(t.Value); len(why) > 0 {
		return b.refuse(path+".value", "use at most 63 letters, digits, -, _ and .", "%q cannot be the value of a taint: %s", t.Value, why[0])
	}
	known := []string{string(v1.TaintEffectNoSchedule), string(v1.TaintEffectPreferNoSchedule), string(v1.TaintEffectNoExecute)}
	if !slices.Contains(known, t.Effect) {
		return b.refuse(path+".effect", didYouMean(t.Effect, known), "%q is not an effect", t.Effect)
	}
	return nil
}
