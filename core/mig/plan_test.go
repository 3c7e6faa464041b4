package mig_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/mig"
)

// card makes a GPU; with profiles its MIG is on and it is cut so, in that order.
func card(t *testing.T, product string, index int, on bool, profiles ...string) mig.GPU {
	t.Helper()
	p, ok := gpu.Find(product)
	if !ok {
		t.Fatalf("no product %s", product)
	}
	g := mig.GPU{GPU: gpu.New("n1", p, index+1)[index], Capable: len(p.Profiles) > 0, ComputeSlices: p.ComputeSlices}
	g.MIGEnabled = on
	for i, name := range profiles {
		g.MIG = append(g.MIG, gpu.MIGDevice{UUID: fmt.Sprintf("MIG-%d-%d", index, i), Profile: name})
	}
	return g
}

const a100 = "NVIDIA A100-SXM4-40GB"

func all(on bool, devices map[string]int) mig.Config {
	return mig.Config{Name: "c", Entries: []mig.Entry{{All: true, Enabled: on, Devices: devices}}}
}

func TestPlan(t *testing.T) {
	balanced := map[string]int{"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}
	cut := []string{"1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"}
	held := func(g mig.GPU, by ...string) mig.GPU { g.HeldBy = by; return g }
	pending := func(g mig.GPU) mig.GPU { g.Pending = true; return g }
	lost := func(g mig.GPU) mig.GPU { g.Lost = true; return g }
	tests := []struct {
		name  string
		gpu   mig.GPU
		c     mig.Config
		want  mig.Step // without UUID
		state mig.State
		why   string
	}{
		{
			name: "the mode comes first", gpu: card(t, a100, 0, false), c: all(true, balanced),
			want: mig.Step{Action: mig.ModeOn}, state: mig.Pending, why: "GPU 0: MIG mode on",
		},
		{
			name: "then the cut", gpu: card(t, a100, 0, true), c: all(true, balanced),
			want: mig.Step{Action: mig.Cut, Profiles: cut}, state: mig.Pending, why: "GPU 0: cut into 2x 1g.5gb, 1x 2g.10gb, 1x 3g.20gb",
		},
		{
			name: "nothing once it is cut so, in any order", gpu: card(t, a100, 0, true, "3g.20gb", "1g.5gb", "2g.10gb", "1g.5gb"), c: all(true, balanced),
			want: mig.Step{Action: mig.Nothing}, state: mig.Success,
		},
		{
			name: "nothing for a held GPU that is as asked", gpu: held(card(t, a100, 0, true, "7g.40gb"), "pod a/b"), c: all(true, map[string]int{"7g.40gb": 1}),
			want: mig.Step{Action: mig.Nothing}, state: mig.Success,
		},
		{
			name: "a held GPU is waited for, and its holders named", gpu: held(card(t, a100, 0, true, "7g.40gb"), "pod z/z", "pod a/b", "pod a/b", "pod c/d", "pod e/f"),
			c:    all(true, balanced),
			want: mig.Step{Action: mig.Cut, Profiles: cut, Waits: "held by pod a/b, pod c/d, pod e/f and 1 more"}, state: mig.Pending, why: "GPU 0: held by pod a/b, pod c/d, pod e/f and 1 more",
		},
		{
			name: "all devices are removed where none is asked for", gpu: card(t, a100, 0, true, "7g.40gb"), c: all(true, nil),
			want: mig.Step{Action: mig.Cut}, state: mig.Pending, why: "GPU 0: remove its MIG devices",
		},
		{
			name: "the mode off takes the devices with it", gpu: card(t, a100, 0, true, "7g.40gb"), c: all(false, nil),
			want: mig.Step{Action: mig.ModeOff}, state: mig.Pending, why: "GPU 0: MIG mode off",
		},
		{
			name: "a GPU without MIG has it off already", gpu: card(t, "NVIDIA L4", 0, false), c: all(false, nil),
			want: mig.Step{Action: mig.Nothing}, state: mig.Success,
		},
		{
			name: "a GPU without MIG cannot have it on", gpu: card(t, "NVIDIA L4", 0, false), c: all(true, nil),
			want:  mig.Step{Action: mig.Nothing, Wrong: "NVIDIA L4 has no MIG; leave this GPU out of the entry, or filter by device-filter"},
			state: mig.Failed, why: "GPU 0: NVIDIA L4 has no MIG; leave this GPU out of the entry, or filter by device-filter",
		},
		{
			name: "a profile of another product names the nearest", gpu: card(t, "NVIDIA A100-SXM4-80GB", 0, false), c: all(true, map[string]int{"1g.5gb": 7}),
			want:  mig.Step{Action: mig.Nothing, Wrong: "profile 1g.5gb: not a profile of NVIDIA A100-SXM4-80GB; the nearest is 1g.10gb"},
			state: mig.Failed, why: "GPU 0: profile 1g.5gb: not a profile of NVIDIA A100-SXM4-80GB; the nearest is 1g.10gb",
		},
		{
			name: "what does not fit says so", gpu: card(t, a100, 0, true), c: all(true, map[string]int{"3g.20gb": 3}),
			want:  mig.Step{Action: mig.Nothing, Wrong: "profile 3g.20gb: 3 asked, but one NVIDIA A100-SXM4-40GB holds at most 2; ask for 2"},
			state: mig.Failed, why: "GPU 0: profile 3g.20gb: 3 asked, but one NVIDIA A100-SXM4-40GB holds at most 2; ask for 2",
		},
		{
			name: "a lost GPU", gpu: lost(card(t, a100, 0, true)), c: all(false, nil),
			want: mig.Step{Action: mig.Nothing, Wrong: "the driver cannot reach it; restart the node"}, state: mig.Failed, why: "GPU 0: the driver cannot reach it; restart the node",
		},
		{
			// NVIDIA/mig-parted#9: the mode was set and reported as done, and held only after a restart.
			name: "a mode that is set and does not hold yet", gpu: pending(card(t, a100, 0, false)), c: all(true, nil),
			want: mig.Step{Action: mig.Reset}, state: mig.Rebooting,
			why: "GPU 0: the new MIG mode holds after a reset; restart the node, or stop what else uses the GPU (display servers, nvidia_drm, DCGM, nvidia-persistenced)",
		},
		{
			name: "a mode that would be lost at the next reset is set again", gpu: pending(card(t, a100, 0, true)), c: all(true, nil),
			want: mig.Step{Action: mig.ModeOn}, state: mig.Pending, why: "GPU 0: MIG mode on",
		},
		{
			name: "the form of a label for +me", gpu: card(t, a100, 0, true, "1g.5gb+me"), c: all(true, map[string]int{"1g.5gb.me": 1}),
			want: mig.Step{Action: mig.Nothing}, state: mig.Success,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			steps := mig.Plan([]mig.GPU{tt.gpu}, tt.c)
			state, why := mig.Judge(steps)
			tt.want.UUID = tt.gpu.UUID
			if diff := cmp.Diff([]mig.Step{tt.want}, steps); diff != "" {
				t.Errorf("Plan (-want +got):\n%s", diff)
			}
			if state != tt.state || why != tt.why {
				t.Errorf("Judge = %s, %q\nwant    %s, %q", state, why, tt.state, tt.why)
			}
		})
	}
}

func TestPlanByIndexAndFilter(t *testing.T) {
	gpus := []mig.GPU{card(t, a100, 0, false), card(t, a100, 1, false), card(t, "NVIDIA A30", 2, false), card(t, "NVIDIA L4", 3, false)}
	gpus[1].PCIID = 0x20F610DE // as the driver tells it
	c := mig.Config{Entries: []mig.Entry{
		{Filter: []string{"0x20b010de", "0x20F610DE"}, All: true, Enabled: true},
		{Filter: []string{"0x20B710DE"}, Indexes: []int{0, 2, 9}, Enabled: true},
		{Indexes: []int{1, 9}}, // the last entry holds
	}}
	var got []mig.Action
	for _, s := range mig.Plan(gpus, c) {
		got = append(got, s.Action)
	}
	if diff := cmp.Diff([]mig.Action{mig.ModeOn, mig.Nothing, mig.ModeOn, mig.Nothing}, got); diff != "" {
		t.Errorf("Plan (-want +got):\n%s", diff)
	}
	// By the board, where it is known, and by the UUID.
	board := mig.Config{Entries: []mig.Entry{
		{Filter: []string{"0x20B010DE:0x134F10DE"}, All: true, Enabled: true}, {UUIDs: []string{gpus[2].UUID}, Enabled: true},
	}}
	for _, tt := range []struct {
		subsystem uint32
		want      mig.Action
	}{{0, mig.Nothing}, {0x134F10DE, mig.ModeOn}, {0x144E10DE, mig.Nothing}} {
		gpus[0].SubsystemID = tt.subsystem
		if s := mig.Plan(gpus, board); s[0].Action != tt.want || s[1].Action != mig.Nothing || s[2].Action != mig.ModeOn {
			t.Errorf("of board %#x: %+v, want %s for GPU 0, nothing for 1 and mode on for 2", tt.subsystem, s, tt.want)
		}
	}
	if none, missing := mig.Gaps(gpus, c); none || !slices.Equal(missing, []int{9}) {
		t.Errorf("Gaps = %v, %v", none, missing)
	}
	// NVIDIA/mig-parted#18: applied successfully, and no devices came: the
	// filter was for other GPUs.
	if none, _ := mig.Gaps(gpus[3:], mig.Config{Entries: c.Entries[:2]}); !none {
		t.Error("Gaps: something covers an L4")
	}
}

// The driver's own profiles win over the catalog, as for a product that is not
// in it.
func TestPlanUsesTheDriversProfiles(t *testing.T) {
	g := mig.GPU{GPU: gpu.GPU{Product: "NVIDIA X100", MIGEnabled: true}, Capable: true, ComputeSlices: 7, Profiles: []gpu.Profile{
		{Name: "1g.12gb", Slices: 1, Size: 1, Max: 7, Placements: []int{0, 1, 2, 3, 4, 5, 6}},
		{Name: "7g.96gb", Slices: 7, Size: 8, Max: 1, Placements: []int{0}},
	}}
	steps := mig.Plan([]mig.GPU{g}, all(true, map[string]int{"1g.12gb": 7}))
	if steps[0].Action != mig.Cut || steps[0].Wrong != "" {
		t.Errorf("Plan = %+v", steps[0])
	}
	steps = mig.Plan([]mig.GPU{g}, all(true, map[string]int{"1g.10gb": 7}))
	if want := "profile 1g.10gb: not a profile of NVIDIA X100; the nearest is 1g.12gb"; steps[0].Wrong != want {
		t.Errorf("Plan: %q, want %q", steps[0].Wrong, want)
	}
}

// Some drivers tell no places while MIG is off.
func TestPlanWithoutPlacements(t *testing.T) {
	g := mig.GPU{GPU: gpu.GPU{Product: "NVIDIA X100"}, Capable: true, Profiles: []gpu.Profile{{Name: "1g.12gb", Slices: 1, Max: 7}}}
	for profile, want := range map[string]string{"1g.12gb": "", "1g.10gb": "profile 1g.10gb: not a profile of NVIDIA X100; the nearest is 1g.12gb"} {
		if s := mig.Plan([]mig.GPU{g}, all(true, map[string]int{profile: 7}))[0]; s.Wrong != want || s.Wrong == "" && s.Action != mig.ModeOn {
			t.Errorf("Plan of %s = %+v, want %q", profile, s, want)
		}
	}
}

func TestBuiltin(t *testing.T) {
	gpus := []mig.GPU{card(t, a100, 0, false), card(t, "NVIDIA L4", 1, false), card(t, "NVIDIA A30", 2, false)}
	for name, want := range map[string]mig.Config{
		"all-disabled":  {Name: "all-disabled", Entries: []mig.Entry{{All: true}}},
		"all-enabled":   {Name: "all-enabled", Entries: []mig.Entry{{Indexes: []int{0, 2}, Enabled: true}}},
		"all-1g.5gb":    {Name: "all-1g.5gb", Entries: []mig.Entry{{Indexes: []int{0}, Enabled: true, Devices: map[string]int{"1g.5gb": 7}}}},
		"all-1g.6gb.me": {Name: "all-1g.6gb.me", Entries: []mig.Entry{{Indexes: []int{2}, Enabled: true, Devices: map[string]int{"1g.6gb+me": 1}}}},
	} {
		got, ok := mig.Builtin(name, gpus)
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Errorf("Builtin(%s), %v (-want +got):\n%s", name, ok, diff)
		}
	}
	for _, name := range []string{"all-1g.18gb", "all-", "1g.5gb", ""} {
		if c, ok := mig.Builtin(name, gpus); ok {
			t.Errorf("Builtin(%q) = %+v", name, c)
		}
	}
	// Every name is a configuration that is possible on every GPU it covers.
	for _, name := range mig.BuiltinNames(gpus) {
		c, ok := mig.Builtin(name, gpus)
		if state, why := mig.Judge(mig.Plan(gpus, c)); !ok || state == mig.Failed {
			t.Errorf("Builtin(%s): %s", name, why)
		}
	}
}

func TestJudgeOrdersStates(t *testing.T) {
	wait := mig.Step{Index: 1, Action: mig.Cut, Waits: "held by pod a/b"}
	reset := mig.Step{Index: 2, Action: mig.Reset}
	wrong := mig.Step{Index: 3, Wrong: "no"}
	for _, tt := range []struct {
		steps []mig.Step
		want  mig.State
	}{
		{nil, mig.Success},
		{[]mig.Step{reset}, mig.Rebooting},
		{[]mig.Step{reset, wait}, mig.Pending},
		{[]mig.Step{wait, wrong, reset}, mig.Failed},
	} {
		if got, _ := mig.Judge(tt.steps); got != tt.want {
			t.Errorf("Judge(%v) = %s, want %s", tt.steps, got, tt.want)
		}
	}
}

// Whatever a GPU is and whatever is asked: done step by step, a plan ends, ends
// as asked, and then asks for nothing more. A held GPU is never to be touched.
func TestPlanEnds(t *testing.T) {
	products := gpu.Products()
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := products[r.IntN(len(products))]
		g := mig.GPU{GPU: gpu.New("n", p, 1)[0], Capable: len(p.Profiles) > 0, ComputeSlices: p.ComputeSlices}
		g.MIGEnabled = g.Capable && r.IntN(2) == 0
		if g.MIGEnabled {
			g.MIG, _ = gpu.Layout(p, someProfiles(r, p))
		}
		want := mig.Entry{All: true, Enabled: r.IntN(3) > 0, Devices: map[string]int{}}
		if want.Enabled {
			for _, name := range someProfiles(r, p) {
				want.Devices[name]++
			}
		}
		c := mig.Config{Entries: []mig.Entry{want}}
		for n := 0; ; n++ {
			held := g
			held.HeldBy = []string{"pod a/b"}
			s := mig.Plan([]mig.GPU{g}, c)[0]
			if h := mig.Plan([]mig.GPU{held}, c)[0]; h.Action != s.Action || (h.Waits == "") != (h.Action == mig.Nothing) {
				t.Fatalf("seed %d: held: %+v, free: %+v", seed, h, s)
			}
			if s.Action == mig.Nothing {
				break
			}
			if n > 2 {
				t.Fatalf("seed %d: no end: %+v", seed, s)
			}
			do(t, &g, p, s)
		}
		if s := mig.Plan([]mig.GPU{g}, c)[0]; s.Wrong == "" && (g.MIGEnabled != want.Enabled || len(g.MIG) != total(want.Devices)) {
			t.Fatalf("seed %d: ended at %+v, wanted %+v", seed, g, want)
		}
	}
}

func do(t *testing.T, g *mig.GPU, p gpu.Product, s mig.Step) {
	t.Helper()
	switch s.Action {
	case mig.ModeOn:
		g.MIGEnabled = true
	case mig.ModeOff:
		g.MIGEnabled, g.MIG = false, nil
	case mig.Cut:
		var err error
		if g.MIG, err = gpu.Layout(p, s.Profiles); err != nil {
			t.Fatalf("a plan that is not possible: %v", err)
		}
	case mig.Nothing, mig.Reset:
		t.Fatalf("%s is nothing to do", s.Action)
	}
}

func someProfiles(r *rand.Rand, p gpu.Product) []string {
	var out []string
	for range r.IntN(5) {
		if len(p.Profiles) > 0 {
			out = append(out, p.Profiles[r.IntN(len(p.Profiles))].Name)
		}
	}
	return out
}

func total(devices map[string]int) int {
	n := 0
	for _, of := range devices {
		n += of
	}
	return n
}
