package gpu

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Profile returns the MIG profile of a name such as "1g.5gb", in any spelling that
// ParseProfile reads. The name of a compute instance that is smaller than its GPU
// instance is none.
func (p Product) Profile(name string) (Profile, bool) {
	name = CanonicalProfile(name)
	i := slices.IndexFunc(p.Profiles, func(f Profile) bool { return f.Name == name })
	if i < 0 {
		return Profile{}, false
	}
	return p.Profiles[i], true
}

// Compute returns the profile of the GPU instance that name asks for, and the
// compute slices of the compute instance in it: those of the profile, unless name
// has fewer, as 1c.3g.20gb has.
func (p Product) Compute(name string) (f Profile, computeSlices int, ok bool) {
	s, err := ParseProfile(name)
	if err != nil {
		return Profile{}, 0, false
	}
	f, ok = p.Profile(s.Instance())
	return f, s.Compute, ok
}

// NearestProfile returns the profile of p that comes nearest to name, or "" if p
// has no MIG: as many compute slices, or nearly, then memory, then the same
// attributes. A name that is not a profile at all is compared by its letters.
func (p Product) NearestProfile(name string) string {
	want, err := ParseProfile(name)
	if err != nil {
		names := make([]string, 0, len(p.Profiles))
		for _, f := range p.Profiles {
			names = append(names, f.Name)
		}
		return NearestWord(name, names)
	}
	best := ""
	var least [4]int
	for _, f := range p.Profiles {
		is, _ := ParseProfile(f.Name)
		d := [4]int{abs(is.Slices - want.Slices), abs(is.GB - want.GB), 1, len(is.suffix())}
		if is.suffix() == want.suffix() {
			d[2] = 0
		}
		if best == "" || slices.Compare(d[:], least[:]) < 0 {
			best, least = f.Name, d
		}
	}
	return best
}

// KnownProfile reports whether any known product can be cut into a MIG device of a
// profile, such as 1g.5gb or 1c.3g.20gb. Where none can, nearest is the profile of any
// product that comes nearest to it.
func KnownProfile(name string) (nearest string, known bool) {
	var all Product
	for _, p := range Products() {
		if _, _, ok := p.Compute(name); ok {
			return name, true
		}
		all.Profiles = append(all.Profiles, p.Profiles...)
	}
	return all.NearestProfile(name), false
}

func abs(n int) int { return max(n, -n) }

// Layout finds a legal place on one GPU of product p for each of profiles; one
// name per MIG device, in any order. Where any legal geometry exists, one is
// found, and the same one for the same multiset. Compute instances that are
// smaller than their GPU instance (1c.3g.20gb) share as few GPU instances as they
// fit into. The result is in the order of starts and compute instances, and has
// GI, CI, Slices and MemoryBytes, which compute instances of one GPU instance
// share. It has no UUID.
//
// The error names the profile that does not fit, why, and what would.
func Layout(p Product, profiles []string) ([]MIGDevice, error) {
	instances, err := p.group(profiles)
	if err != nil {
		return nil, err
	}
	want := make([]Profile, len(instances))
	for i, in := range instances {
		want[i] = in.Profile
	}
	starts, ok := p.place(want)
	if !ok {
		return nil, p.refuse(want)
	}
	var out []MIGDevice
	for i, in := range instances {
		for ci, n := range in.computes {
			name := in.Name
			if n < in.Slices {
				name = strconv.Itoa(n) + "c." + name
			}
			out = append(out, MIGDevice{
				Profile: name, Start: starts[i], GI: p.instance(in.Profile, starts[i]), CI: ci,
				Slices: n, MemoryBytes: in.MemoryMiB << 20,
			})
		}
	}
	slices.SortFunc(out, func(a, b MIGDevice) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.CI, b.CI)) })
	return out, nil
}

// computed is a GPU instance with the compute slices of each compute instance in
// it, largest first.
type computed struct {
	Profile
	computes []int
}

// group says which GPU instances profiles need, largest first: those have the
// fewest placements. Equal profiles are side by side.
func (p Product) group(profiles []string) ([]computed, error) {
	var out []computed
	smaller := map[string][]int{} // compute instances that do not fill theirs
	for _, name := range profiles {
		f, n, ok := p.Compute(name)
		switch {
		case len(p.Profiles) == 0:
			return nil, fmt.Errorf("profile %s: %s", name, p.WithoutMIG())
		case !ok && p.NearestProfile(name) == "":
			return nil, fmt.Errorf("profile %s: not a profile of %s; it has %s", name, p.Name, p.profileNames())
		case !ok:
			return nil, fmt.Errorf("profile %s: not a profile of %s; the nearest is %s", name, p.Name, p.NearestProfile(name))
		case !slices.Contains(f.ComputeSizes(), n):
			return nil, fmt.Errorf("profile %s: no compute instance of %d slices in a %s; there are those of %v", name, n, f.Name, f.ComputeSizes())
		case n < f.Slices:
			smaller[f.Name] = append(smaller[f.Name], n)
		default:
			out = append(out, computed{f, []int{n}})
		}
	}
	for name, sizes := range smaller {
		f, _ := p.Profile(name)
		out = append(out, pack(f, sizes)...)
	}
	slices.SortStableFunc(out, func(a, b computed) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(b.Slices, a.Slices), cmp.Compare(a.Name, b.Name), slices.Compare(b.computes, a.computes))
	})
	return out, nil
}

// pack puts compute instances into GPU instances of f: largest first, each into
// the first with room. With at most 7 slices that takes as few as possible.
func pack(f Profile, sizes []int) []computed {
	slices.SortFunc(sizes, func(a, b int) int { return b - a })
	var out []computed
	var room []int
	for _, n := range sizes {
		i := slices.IndexFunc(room, func(r int) bool { return r >= n })
		if i < 0 {
			i = len(room)
			out, room = append(out, computed{Profile: f}), append(room, f.Slices)
		}
		out[i].computes, room[i] = append(out[i].computes, n), room[i]-n
	}
	return out
}

// place returns a start for each of want, which has equal profiles side by side.
// Budgets first (they do not depend on starts), then search.
func (p Product) place(want []Profile) ([]int, bool) {
	count := map[string]int{}
	computeSlices, ofa, ofaMost, media := 0, 0, 0, 0
	for _, f := range p.Profiles {
		ofaMost = max(ofaMost, f.OFA)
	}
	for _, f := range want {
		count[f.Name]++
		computeSlices += f.Slices
		ofa += f.OFA
		media += f.MediaUnits()
		if count[f.Name] > f.Max {
			return nil, false
		}
	}
	if computeSlices > p.ComputeSlices || ofa > ofaMost || media > MediaUnitsMost {
		return nil, false
	}
	starts := make([]int, len(want))
	return starts, search(want, starts, 0, 0)
}

// search places want[i:] where used (a bit for each memory slice) leaves room,
// lowest starts first, and steps back where the rest does not fit. Equal
// profiles take ascending starts, so no geometry is tried twice. At most
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

// instance returns the GPU instance ID of a device: the memory slices are halved
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
