package sharing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// placeholderWorld is a node as a kubelet and a scheduler see it, slow and obvious:
// the kubelet picks names, the scheduler devices, and neither knows of the
// other's choice.
type placeholderWorld struct {
	gpus         []gpu.GPU
	s            gpu.Sharing
	placeholders *sharing.Placeholders
	pods         []placeholderPod
}

type placeholderPod struct {
	resource string
	names    []string // the kubelet's
	ids      []string // the scheduler's
}

// offered are the devices of a resource, and which of them no pod has.
func (w *placeholderWorld) offered(t *testing.T, resource string) (all, free []sharing.Device) {
	t.Helper()
	devices, err := sharing.Devices(w.gpus, w.s)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		if d.Resource != resource {
			continue
		}
		all = append(all, d)
		if !slices.ContainsFunc(w.pods, func(p placeholderPod) bool { return slices.Contains(p.ids, d.ID) }) {
			free = append(free, d)
		}
	}
	return all, free
}

// start lets the kubelet pick any n names that it thinks free and healthy, and
// the scheduler any n devices that are.
func (w *placeholderWorld) start(t *testing.T, rng *rand.Rand, resource string, n int) {
	t.Helper()
	var names, ids []string
	for _, placeholder := range w.placeholders.List(resource) {
		if !placeholder.Held && placeholder.Device.Healthy {
			names = append(names, placeholder.Name)
		}
	}
	_, free := w.offered(t, resource)
	for _, d := range free {
		if d.Healthy {
			ids = append(ids, d.ID)
		}
	}
	if len(names) != len(ids) {
		t.Fatalf("the kubelet has %d free placeholders of %s for %d free devices", len(names), resource, len(ids))
	}
	if len(names) < n {
		return
	}
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	p := placeholderPod{resource, names[:n], ids[:n]}
	w.placeholders.Hold(resource, slices.Clone(p.names), p.ids)
	w.pods = append(w.pods, p)
}

// change returns the node another configuration or another state of health, with
// pods keeping what is still offered.
func (w *placeholderWorld) change(t *testing.T, rng *rand.Rand) {
	t.Helper()
	for i := range w.gpus {
		w.gpus[i].Healthy = rng.IntN(5) > 0
	}
	if rng.IntN(3) == 0 {
		w.s = gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{"nvidia.com/gpu": 1 + rng.IntN(4)}}
	}
	reset(t, w.placeholders, w.gpus, w.s)
	all, _ := w.offered(t, "nvidia.com/gpu")
	for _, p := range w.pods {
		var still []string
		for _, id := range p.ids {
			if slices.ContainsFunc(all, func(d sharing.Device) bool { return d.ID == id }) {
				still = append(still, id)
			}
		}
		w.placeholders.Hold(p.resource, slices.Clone(p.names), still)
	}
}

// check holds what is true of placeholders at every moment.
func (w *placeholderWorld) check(t *testing.T, resource string) error {
	all, _ := w.offered(t, resource)
	list := w.placeholders.List(resource)
	standing := map[string]string{}
	held := map[string]bool{}
	for _, placeholder := range list {
		if held[placeholder.Name] = placeholder.Held; placeholder.Gone {
			if !placeholder.Held {
				return fmt.Errorf("placeholder %s is gone and nobody holds it", placeholder.Name)
			}
			continue
		}
		if other, twice := standing[placeholder.Device.ID]; twice {
			return fmt.Errorf("%s and %s stand for %s", placeholder.Name, other, placeholder.Device.ID)
		}
		standing[placeholder.Device.ID] = placeholder.Name
		if i := slices.IndexFunc(all, func(d sharing.Device) bool { return d.ID == placeholder.Device.ID }); i < 0 || all[i] != placeholder.Device {
			return fmt.Errorf("placeholder %s stands for %+v, which is not offered", placeholder.Name, placeholder.Device)
		}
	}
	if len(standing) != len(all) {
		return fmt.Errorf("%d of %d devices have a placeholder", len(standing), len(all))
	}
	for _, p := range w.pods {
		for _, name := range p.names {
			if !held[name] {
				return fmt.Errorf("held placeholder %s is not there or not held", name)
			}
		}
		for _, id := range p.ids {
			if name, ok := standing[id]; ok && !slices.Contains(p.names, name) {
				return fmt.Errorf("placeholder %s stands for %s, which the pod with %v holds", name, id, p.names)
			}
		}
	}
	return nil
}

func runPlaceholders(t *testing.T, rng *rand.Rand) {
	w := &placeholderWorld{gpus: gpu.New("n1", must(a100), 1+rng.IntN(5)), placeholders: &sharing.Placeholders{}}
	reset(t, w.placeholders, w.gpus, w.s)
	for step := range 80 {
		switch rng.IntN(6) {
		case 0:
			if len(w.pods) > 0 {
				i := rng.IntN(len(w.pods))
				w.placeholders.Release(w.pods[i].resource, w.pods[i].names)
				w.pods = slices.Delete(w.pods, i, i+1)
			}
		case 1:
			w.change(t, rng)
		default:
			w.start(t, rng, "nvidia.com/gpu", 1+rng.IntN(3))
		}
		if err := w.check(t, "nvidia.com/gpu"); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
	}
}

func TestFreePlaceholdersStandForFreeDevices(t *testing.T) {
	for seed := range uint64(500) {
		runPlaceholders(t, rand.New(rand.NewPCG(seed, 3)))
	}
}

func FuzzPlaceholders(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) { runPlaceholders(t, rand.New(rand.NewPCG(a, b))) })
}
