package agent

import (
	"strings"
	"testing"
	"testing/synctest"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
)

// cutInto is a GPU with MIG on, cut into profiles; UUIDs follow from them.
func cutInto(uuid string, profiles ...string) nvml.GPU {
	g := gpuNamed(0, uuid)
	g.MIGCapable, g.MIGEnabled, g.ComputeSlices = true, true, 7
	for i, p := range profiles {
		g.MIG = append(g.MIG, gpu.MIGDevice{UUID: "MIG-" + p + "-" + string(rune('a'+i)), Profile: p, Slices: 1, MemoryBytes: 18 << 30})
	}
	return g
}

// last is the last event of a reason.
func (s *scene) last(reason string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := ""
	for _, text := range s.said {
		if rest, ok := strings.CutPrefix(text, reason+": "); ok {
			out = rest
		}
	}
	return out
}

func TestWhatIsCutByHandIsTold(t *testing.T) {
	for _, tt := range []struct {
		name        string
		before, now nvml.GPU
		held        map[string][]string
		drained     bool
		want        string
	}{
		{
			"a device beside others", cutInto("GPU-a", "1g.18gb"), cutInto("GPU-a", "1g.18gb", "1g.18gb"), nil, false,
			"GPU 0 (GPU-a) was partitioned by another program: it had 1x 1g.18gb, and has 2x 1g.18gb",
		},
		{
			"a device that a pod holds", cutInto("GPU-a", "1g.18gb", "1g.18gb"), cutInto("GPU-a", "1g.18gb"),
			map[string][]string{"MIG-1g.18gb-b": {"pod ml/train"}},
			false,
			"GPU 0 (GPU-a) was partitioned by another program: it had 2x 1g.18gb, and has 1x 1g.18gb; MIG-1g.18gb-b (1g.18gb) is gone under pod ml/train: stop what holds it, or recreate the MIG device",
		},
		{
			"MIG itself", cutInto("GPU-a"), gpuNamed(0, "GPU-a"), nil, false,
			"GPU 0 (GPU-a) was partitioned by another program: it had no MIG devices, and has MIG off",
		},
		{"what the agent cuts itself is not", cutInto("GPU-a", "1g.18gb"), cutInto("GPU-a"), nil, true, ""},
		{"nothing where nothing is another", cutInto("GPU-a", "1g.18gb"), cutInto("GPU-a", "1g.18gb"), nil, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newFakeDriver(tt.before)
				s := newScene(d)
				s.holders = func(uuid string) []string { return tt.held[uuid] }
				s.begin(t)
				defer s.end(t)
				s.choices <- chosen()
				synctest.Wait()
				if tt.drained {
					defer s.Drain("GPU-a")()
				}
				d.become(nvml.Snapshot{Driver: "570.1", GPUs: []nvml.GPU{tt.now}})
				synctest.Wait()
				if got := s.last("MIGChanged"); got != tt.want {
					t.Errorf("told %q\nwant %q", got, tt.want)
				}
			})
		})
	}
}
