package devices

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

// wanted is what the pod of a scheduling cycle asks for.
type wanted struct {
	parts []sharing.Part
	shape string // equal for pods that ask for the same devices
	class string // equal for pods that may use the same nodes: see classKey
	// simple says that request describes all that the pod needs. Other pods are
	// looked at by every plugin on every node.
	simple  bool
	request cluster.Request // set when the world is known
	node    string          // the one node that PreFilter left; "" is all
	yields  bool            // another pod of its line comes first on that node
	whole   bool            // PreFilter left out the nodes with shares alone, which come last
	hold    *hold           // what is held for the pod, if anything
	devices bool            // the pod asks for devices
}

const wantedKey fwk.StateKey = Name

// Clone implements fwk.StateData; after PreFilter wanted never changes.
func (w *wanted) Clone() fwk.StateData { return w }

func wantedOf(state fwk.CycleState) (*wanted, bool) {
	data, err := state.Read(wantedKey)
	if err != nil {
		return nil, false
	}
	w, ok := data.(*wanted)
	return w, ok
}

// newWanted reads a pod whose containers ask for parts.
func newWanted(pod *v1.Pod, parts []sharing.Part) *wanted {
	w := &wanted{parts: parts, devices: len(parts) > 0, simple: oneKind(parts) && !others(pod)}
	var shape strings.Builder
	for i := range parts {
		fmt.Fprint(&shape, parts[i].HandsOn, parts[i].Asks, ";")
	}
	w.shape = shape.String()
	w.class = classKey(pod, w)
	return w
}

// oneKind says whether one request for package placement is exactly what parts
// ask for: GPUs, or MIG devices of one profile, or one share.
func oneKind(parts []sharing.Part) bool {
	asks, first := 0, sharing.Ask{}
	for i := range parts {
		for _, a := range parts[i].Asks {
			if asks++; asks == 1 {
				first = a
			}
			if a.Resource != first.Resource || a.LeastGiB != first.LeastGiB || a.Share != first.Share || a.LeastGiB > 0 && asks > 1 {
				return false
			}
		}
	}
	if size, _, share := first.ShareOf(); share {
		return asks == 1 && (size.MilliGPU == 0 || size.MemoryMiB == 0)
	}
	return asks == 0 || !strings.HasSuffix(first.Resource, ".shared") || first.Resource == api.ResourceGPUShared
}

// others says whether a pod needs what only the framework's own plugins know:
// other pods, volumes, host ports, claims, or resources of the pod as a whole.
func others(pod *v1.Pod) bool {
	spec := &pod.Spec
	if a := spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		return true
	}
	if len(spec.TopologySpreadConstraints) > 0 || len(spec.ResourceClaims) > 0 || spec.Resources != nil {
		return true
	}
	for i := range spec.Volumes {
		switch v := &spec.Volumes[i].VolumeSource; {
		case v.ConfigMap != nil, v.Secret != nil, v.EmptyDir != nil, v.Projected != nil, v.DownwardAPI != nil, v.HostPath != nil, v.NFS != nil, v.Image != nil:
		default:
			return true
		}
	}
	for _, list := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			for _, port := range list[i].Ports {
				if port.HostPort > 0 {
					return true
				}
			}
		}
	}
	return false
}

// least is the GiB that each GPU must have, or 0.
func (w *wanted) least() int64 {
	for i := range w.parts {
		for _, a := range w.parts[i].Asks {
			if a.LeastGiB > 0 {
				return a.LeastGiB
			}
		}
	}
	return 0
}

// demand is what pod asks of any node, but for its class.
func (w *wanted) demand(pod *v1.Pod, s *cluster.Snapshot) cluster.Request {
	r := request.Demand(pod, gpu.Sharing{})
	r.Units = r.IsWhole()
	r.SharesDo = r.Units && r.GPUs > 1 && request.SharesDo(pod, w.parts)
	if least := w.least(); least > 0 {
		if r.Products = productsWith(s, least*sharing.GiB); r.Products == 0 {
			r.Products = cluster.NoProduct
		}
	}
	return r
}

// productsWith is the products of which a GPU has at least so much memory.
func productsWith(s *cluster.Snapshot, bytes int64) cluster.Products {
	var set cluster.Products
	for i := range s.Len() {
		for j, c := range s.Cards(i) {
			if c.MemoryBytes >= bytes {
				set |= 1 << s.GPUs(i)[j].Product
			}
		}
	}
	return set
}

// nameDevices hands devices to parts in their order, as a kubelet does: a part
// uses again what one before it hands on. It says no where there are too few or
// too many.
func nameDevices(parts []sharing.Part, devices []sharing.Named) (map[string][]sharing.Named, bool) {
	out := make(map[string][]sharing.Named, len(parts))
	var reuse []sharing.Named
	next := 0
	for i := range parts {
		had := reuse
		for _, a := range parts[i].Asks {
			for range units(a) {
				switch {
				case len(had) > 0:
					out[parts[i].Name], had = append(out[parts[i].Name], had[0]), had[1:]
				case next < len(devices):
					out[parts[i].Name] = append(out[parts[i].Name], devices[next])
					next++
				default:
					return nil, false
				}
			}
		}
		if !parts[i].HandsOn {
			reuse = had
			continue
		}
		reuse = append([]sharing.Named(nil), devices[:next]...)
		for _, taken := range lasting(parts[:i], out) {
			reuse = without(reuse, taken)
		}
	}
	return out, next == len(devices)
}

// units is how many devices an ask is for.
func units(a sharing.Ask) int64 {
	if _, n, share := a.ShareOf(); share {
		return n
	}
	return a.Count
}

// lasting gives the devices of parts that do not hand them on.
func lasting(parts []sharing.Part, named map[string][]sharing.Named) []sharing.Named {
	var out []sharing.Named
	for i := range parts {
		if !parts[i].HandsOn {
			out = append(out, named[parts[i].Name]...)
		}
	}
	return out
}

func without(list []sharing.Named, d sharing.Named) []sharing.Named {
	for i := range list {
		if list[i] == d {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}
