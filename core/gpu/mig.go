package gpu

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Profile gives the MIG profile of a name such as "1g.5gb". The form of a
// resource or label name is accepted too: "1g.5gb.me" is "1g.5gb+me".
func (p Product) Profile(name string) (Profile, bool) {
	name = strings.Replace(name, ".me", "+me", 1)
	i := slices.IndexFunc(p.Profiles, func(f Profile) bool { return f.Name == name })
	if i < 0 {
		return Profile{}, false
	}
	return p.Profiles[i], true
}

// NearestProfile gives the profile of p that comes nearest to name, or "" if p
// has no MIG: as many compute slices, or nearly, then memory, and +me only if
// name has it. A name that is no profile at all is compared by its letters.
func (p Product) NearestProfile(name string) string {
	slicesWanted, gb, ok := parseProfile(name)
	if !ok {
		names := make([]string, 0, len(p.Profiles))
		for _, f := range p.Profiles {
			names = append(names, f.Name)
		}
		return NearestWord(name, names)
	}
	media := strings.HasSuffix(name, "me")
	far := func(f Profile) [3]int {
		s, g, _ := parseProfile(f.Name)
		d := [3]int{abs(s - slicesWanted), abs(g - gb), 0}
		if f.Media() != media {
			d[2] = 1
		}
		return d
	}
	best := ""
	var least [3]int
	for _, f := range p.Profiles {
		if d := far(f); best == "" || slices.Compare(d[:], least[:]) < 0 {
			best, least = f.Name, d
		}
	}
	return best
}

// parseProfile reads "3g.20gb" or "3g.20gb+me".
func parseProfile(name string) (computeSlices, gb int, ok bool) {
	name = strings.TrimSuffix(strings.TrimSuffix(name, "+me"), ".me")
	s, g, ok := strings.Cut(name, "g.")
	if !ok || !strings.HasSuffix(g, "gb") {
		return 0, 0, false
	}
	computeSlices, err1 := strconv.Atoi(s)
	gb, err2 := strconv.Atoi(strings.TrimSuffix(g, "gb"))
	return computeSlices, gb, err1 == nil && err2 == nil
}

func abs(n int) int { return max(n, -n) }

// Layout finds a legal place on one GPU of product p for each of profiles; one
// name per MIG device, in any order. Where any legal geometry exists, one is
// found, and the same one for the same multiset. The result is in the order of
// starts and has GI, Slices and MemoryBytes, and no UUID; CI is 0.
//
// The error names the profile that does not fit, why, and what would.
func Layout(p Product, profiles []string) ([]MIGDevice, error) {
	want := make([]Profile, 0, len(profiles))
	for _, name := range profiles {
		f, ok := p.Profile(name)
		switch {
		case len(p.Profiles) == 0:
			return nil, fmt.Errorf("profile %s: %s has no MIG; A100, A30, H100, H200 and B200 have", name, p.Name)
		case !ok && p.NearestProfile(name) == "":
			return nil, fmt.Errorf("profile %s: not a profile of %s; it has %s", name, p.Name, p.profileNames())
		case !ok:
			return nil, fmt.Errorf("profile %s: not a profile of %s; the nearest is %s", name, p.Name, p.NearestProfile(name))
		}
		want = append(want, f)
	}
	// Largest first: they have the fewest placements.
	slices.SortStableFunc(want, func(a, b Profile) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(b.Slices, a.Slices), cmp.Compare(a.Name, b.Name))
	})
	starts, ok := p.place(want)
	if !ok {
		return nil, p.refuse(want)
	}
	out := make([]MIGDevice, len(want))
	for i, f := range want {
		out[i] = MIGDevice{
			Profile: f.Name, Start: starts[i], GI: p.instance(f, starts[i]),
			Slices: f.Slices, MemoryBytes: f.MemoryMiB << 20,
		}
	}
	slices.SortFunc(out, func(a, b MIGDevice) int { return cmp.Compare(a.Start, b.Start) })
	return out, nil
}

// place gives a start for each of want, which has equal profiles side by side.
// Budgets first (they do not depend on starts), then search.
func (p Product) place(want []Profile) ([]int, bool) {
	count := map[string]int{}
	computeSlices, ofa, ofaMost := 0, 0, 0
	for _, f := range p.Profiles {
		ofaMost = max(ofaMost, f.OFA)
	}
	for _, f := range want {
		count[f.Name]++
		computeSlices += f.Slices
		ofa += f.OFA
		if count[f.Name] > f.Max {
			return nil, false
		}
	}
	if computeSlices > p.ComputeSlices || ofa > ofaMost {
		return nil, false
	}
	starts := make([]int, len(want))
	return starts, search(want, starts, 0, 0)
}

// search places want[i:] where used (a bit for each memory slice) leaves room,
// lowest starts first, and steps back where the rest does not fit. Equal
// profiles take ascending starts, so that no geometry is tried twice. At most
// 7 devices with 7 placements: some thousand steps at worst.
func search(want []Profile, starts []int, i int, used uint) bool {
	if i == len(want) {
		return true
	}
	for _, start := range want[i].Placements {
		mask := (uint(1)<<want[i].Size - 1) << start
		if used&mask != 0 || i > 0 && want[i].Name == want[i-1].Name && start < starts[i-1] {
			continue
		}
		starts[i] = start
		if search(want, starts, i+1, used|mask) {
			return true
		}
	}
	return false
}

// refuse names the first of want that does not fit beside those before it, and
// how many of it would.
func (p Product) refuse(want []Profile) error {
	for i, f := range want {
		if _, ok := p.place(want[:i+1]); ok {
			continue
		}
		asked, fit, others := 0, 0, map[string]int{}
		for j, o := range want {
			switch {
			case o.Name != f.Name:
				if j < i {
					others[o.Name]++
				}
			default:
				asked++
				if j < i {
					fit++
				}
			}
		}
		if asked > f.Max && fit == f.Max {
			return fmt.Errorf("profile %s: %d asked, but one %s holds at most %d; ask for %d", f.Name, asked, p.Name, f.Max, f.Max)
		}
		return fmt.Errorf("profile %s: no placement left on one %s beside %s; at most %d of it %s there",
			f.Name, p.Name, tally(others), fit, plural(fit, "fits", "fit"))
	}
	return fmt.Errorf("profiles do not fit on one %s", p.Name)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// tally writes {"1g.5gb": 2, "3g.20gb": 1} as "2x 1g.5gb and 1x 3g.20gb".
func tally(count map[string]int) string {
	var parts []string
	for name, n := range count {
		parts = append(parts, strconv.Itoa(n)+"x "+name)
	}
	slices.SortFunc(parts, func(a, b string) int {
		_, a, _ = strings.Cut(a, " ")
		_, b, _ = strings.Cut(b, " ")
		return strings.Compare(a, b)
	})
	return strings.Join(parts, " and ")
}

func (p Product) profileNames() string {
	var names []string
	for _, f := range p.Profiles {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// instance gives the GPU instance ID of a device: the memory slices are halved
// into a tree whose nodes are counted level by level, 0 for the whole GPU, 1
// and 2 for its halves, and so on. On GPUs of 8 memory slices the upper half
// counts first. So a lone 1g.5gb at 6 is instance 9, as nvidia-smi shows it.
func (p Product) instance(f Profile, start int) int {
	level := bits.Len(uint(p.MemorySlices/f.Size)) - 1
	if p.MemorySlices == 8 {
		start = (start + 4) % 8
	}
	if level == 0 {
		return 0
	}
	return 1<<level - 1 + start/f.Size
}
