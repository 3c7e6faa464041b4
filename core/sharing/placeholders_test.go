package sharing_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

func numbered(t *testing.T, gpus []gpu.GPU, s gpu.Sharing) *sharing.Placeholders {
	t.Helper()
	placeholders := &sharing.Placeholders{}
	if err := placeholders.Reset(gpus, s); err != nil {
		t.Fatal(err)
	}
	return placeholders
}

// stand writes what the placeholders of a resource stand for, such as
// "gpu-0=1* gpu-1=0": the index of the GPU, "*" for held, "!" for unhealthy, "-"
// for gone.
func stand(placeholders *sharing.Placeholders, resource string) string {
	var out []string
	for _, t := range placeholders.List(resource) {
		text := fmt.Sprintf("%s=%d", t.Name, t.Device.GPU)
		if t.Gone {
			text = t.Name + "=-"
		}
		if t.Device.ID != t.Device.UUID {
			_, rest, _ := strings.Cut(t.Device.ID, "::")
			text += "." + rest
		}
		if t.Held {
			text += "*"
		}
		if t.Gone {
			text += "-"
		} else if !t.Device.Healthy {
			text += "!"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestPlaceholders(t *testing.T) {
	gpus := gpu.New("n1", must(a100), 4)
	id := func(i int) string { return gpus[i].UUID }
	const whole = "nvidia.com/gpu"
	shared := gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{whole: 2}}
	for _, tt := range []struct {
		name string
		do   func(*testing.T, *sharing.Placeholders)
		want string
	}{
		{"a node that holds nothing is in order", func(*testing.T, *sharing.Placeholders) {}, "gpu-0=0 gpu-1=1 gpu-2=2 gpu-3=3"},
		{
			"a commitment to another device swaps the two",
			func(_ *testing.T, k *sharing.Placeholders) { k.Hold(whole, []string{"gpu-1"}, []string{id(3)}) },
			"gpu-0=0 gpu-1=3* gpu-2=2 gpu-3=1",
		},
		{
			"placeholders that stand for one of the devices keep it",
			func(_ *testing.T, k *sharing.Placeholders) {
				k.Hold(whole, []string{"gpu-0", "gpu-1"}, []string{id(1), id(2)})
			},
			"gpu-0=2* gpu-1=1* gpu-2=0 gpu-3=3",
		},
		{
			"of two pods that were picked crosswise both get what was committed",
			func(_ *testing.T, k *sharing.Placeholders) {
				k.Hold(whole, []string{"gpu-1"}, []string{id(3)})
				k.Hold(whole, []string{"gpu-3"}, []string{id(1)})
			},
			"gpu-0=0 gpu-1=3* gpu-2=2 gpu-3=1*",
		},
		{
			"a device that fails makes its present placeholder unhealthy",
			func(t *testing.T, k *sharing.Placeholders) {
				k.Hold(whole, []string{"gpu-1"}, []string{id(3)})
				ill := slices.Clone(gpus)
				ill[1].Healthy = false
				reset(t, k, ill, gpu.Sharing{})
			},
			"gpu-0=0 gpu-1=3* gpu-2=2 gpu-3=1!",
		},
		{
			"a GPU that is taken out takes its free placeholder along",
			func(t *testing.T, k *sharing.Placeholders) {
				k.Hold(whole, []string{"gpu-1"}, []string{id(3)})
				reset(t, k, slices.Concat(gpus[:1], gpus[2:]), gpu.Sharing{})
			},
			"gpu-0=0 gpu-1=3* gpu-2=2",
		},
		{
			"a held placeholder stays when its GPU is taken out, and is gone with its pod",
			func(t *testing.T, k *sharing.Placeholders) {
				k.Hold(whole, []string{"gpu-1"}, []string{id(1)})
				reset(t, k, slices.Concat(gpus[:1], gpus[2:]), gpu.Sharing{})
				if got := stand(k, whole); got != "gpu-0=0 gpu-1=-*- gpu-2=2 gpu-3=3" {
					t.Errorf("while it is held: %s", got)
				}
				k.Release(whole, []string{"gpu-1"})
			},
			"gpu-0=0 gpu-2=2 gpu-3=3",
		},
		{
			"a new configuration gives new devices the lowest free numbers",
			func(t *testing.T, k *sharing.Placeholders) {
				k.Hold(whole, []string{"gpu-2"}, []string{id(2)})
				reset(t, k, gpus[:3], shared)
				k.Hold(whole, []string{"gpu-2"}, []string{id(2) + "::0", id(2) + "::1"})
			},
			"gpu-0=0.0 gpu-1=0.1 gpu-2=2.0* gpu-3=1.0 gpu-4=1.1 gpu-6=2.1",
		},
		{
			"a name that an earlier agent has given out is taken over",
			func(_ *testing.T, k *sharing.Placeholders) { k.Hold(whole, []string{id(2)}, []string{id(2)}) },
			"gpu-0=0 gpu-1=1 gpu-3=3 " + id(2) + "=2*",
		},
		{
			"what is not offered is held by name alone",
			func(_ *testing.T, k *sharing.Placeholders) {
				k.Hold(whole, []string{"gpu-0"}, []string{"GPU-elsewhere"})
			},
			"gpu-0=-*- gpu-1=1 gpu-2=2 gpu-3=3 gpu-4=0",
		},
		{
			"a name that stood for nothing gets its device back",
			func(_ *testing.T, k *sharing.Placeholders) {
				k.Hold(whole, []string{"gpu-0"}, []string{"GPU-elsewhere"})
				k.Hold(whole, []string{"gpu-0"}, []string{id(2)})
			},
			"gpu-0=2* gpu-1=1 gpu-3=3 gpu-4=0",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := numbered(t, gpus, gpu.Sharing{})
			tt.do(t, k)
			if got := stand(k, whole); got != tt.want {
				t.Errorf("placeholders stand for\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

func reset(t *testing.T, k *sharing.Placeholders, gpus []gpu.GPU, s gpu.Sharing) {
	t.Helper()
	if err := k.Reset(gpus, s); err != nil {
		t.Fatal(err)
	}
}

func TestPlaceholdersOfMemory(t *testing.T) {
	gpus := gpu.New("n1", must("Tesla T4"), 2) // 15 GiB each
	k := numbered(t, gpus, gpu.Sharing{})
	if got := len(k.List(sharing.ResourceMemory)); int64(got) != sharing.MemoryGiB(gpus, gpu.Sharing{}) {
		t.Fatalf("%d placeholders, want one for each of %d GiB", got, sharing.MemoryGiB(gpus, gpu.Sharing{}))
	}
	healthy := func() (free, held int) {
		for _, placeholder := range k.List(sharing.ResourceMemory) {
			switch {
			case !placeholder.Device.Healthy:
			case placeholder.Held:
				held++
			default:
				free++
			}
		}
		return free, held
	}
	// The kubelet picked GiB that number among the first GPU's; 4 of the second
	// were committed.
	k.HoldMemory([]string{"gpu-memory-0", "gpu-memory-1", "gpu-memory-2", "gpu-memory-3"}, gpus[1].UUID)
	gpus[1].Healthy = false
	reset(t, k, gpus, gpu.Sharing{})
	if free, held := healthy(); held != 0 || int64(free) != gpus[0].MemoryBytes/sharing.GiB {
		t.Errorf("with the pod's GPU ill %d free and %d held GiB are healthy, want all of the other GPU free", free, held)
	}
	gpus[0].Healthy, gpus[1].Healthy = false, true
	reset(t, k, gpus, gpu.Sharing{})
	if free, held := healthy(); held != 4 || int64(free) != gpus[1].MemoryBytes/sharing.GiB-4 {
		t.Errorf("with the other GPU ill %d free and %d held GiB are healthy, want 4 held and the rest of the pod's GPU free", free, held)
	}
}

func TestPlaceholderNumber(t *testing.T) {
	for name, want := range map[string]int{
		"gpu-0": 0, "gpu-12": 12, "gpu-012": -1, "gpu--1": -1, "gpu-": -1, "gpu": -1, "mig-1g.5gb-3": -1, "GPU-0": -1, "gpu-1x": -1,
	} {
		if got := sharing.PlaceholderNumber("nvidia.com/gpu", name); got != want {
			t.Errorf("PlaceholderNumber(nvidia.com/gpu, %q) = %d, want %d", name, got, want)
		}
	}
	if got := sharing.PlaceholderNumber("nvidia.com/mig-1g.5gb", "mig-1g.5gb-3"); got != 3 {
		t.Errorf("PlaceholderNumber of a MIG placeholder = %d, want 3", got)
	}
}
