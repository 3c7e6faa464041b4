package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Spelling is the name of a MIG profile, taken apart.
//
// Source: the names that nvidia-smi mig -lgip and -lcip print, and the rules of
// NVIDIA's go-nvlib for reading them.
type Spelling struct {
	// Compute is the compute slices of the compute instance: Slices, unless the
	// name begins with them, as 1c.3g.20gb does.
	Compute    int
	Slices     int      // compute slices of the GPU instance
	GB         int      // memory of the GPU instance, rounded as ProfileName does
	Attributes []string // such as "me", "me.all" or "gfx", sorted; without the sign
	Without    bool     // the attributes follow a minus: the instance lacks them
}

// ParseProfile reads the name of a MIG profile, such as "1g.5gb", "1g.24gb-me",
// "1g.24gb+me.all" or "1c.3g.20gb". The form of resource and label names, where a
// dot stands for the plus ("1g.5gb.me"), is read as well. Whether any GPU has the
// profile is not checked.
func ParseProfile(name string) (Spelling, error) {
	bad := func(why string) (Spelling, error) {
		return Spelling{}, fmt.Errorf("not a MIG profile: %s: %s", name, why)
	}
	head, list, sign := name, "", strings.IndexAny(name, "+-")
	s := Spelling{}
	if sign >= 0 {
		head, list, s.Without = name[:sign], name[sign+1:], name[sign] == '-'
	} else if at := strings.Index(name, "gb."); at >= 0 {
		head, list, sign = name[:at+2], name[at+3:], at+2
	}
	parts := strings.Split(head, ".")
	units := []string{"c", "g", "gb"}
	if len(parts) == 2 {
		units = units[1:]
	}
	if len(parts) != len(units) {
		return bad("it has no form like 1g.5gb")
	}
	numbers := [3]int{}
	for i, unit := range units {
		digits, ok := strings.CutSuffix(parts[i], unit)
		n, err := strconv.ParseUint(digits, 10, 16)
		if !ok || err != nil {
			return bad(fmt.Sprintf("%q is not a number before %q", parts[i], unit))
		}
		numbers[3-len(units)+i] = int(n)
	}
	s.Compute, s.Slices, s.GB = numbers[0], numbers[1], numbers[2]
	switch {
	case len(parts) == 2:
		s.Compute = s.Slices
	case s.Compute < 1 || s.Compute > s.Slices:
		return bad("its compute instance does not fit into its GPU instance")
	}
	if sign < 0 {
		return s, nil
	}
	s.Attributes = strings.Split(list, ",")
	slices.Sort(s.Attributes)
	for i, a := range s.Attributes {
		if !attribute(a) || i > 0 && a == s.Attributes[i-1] {
			return bad(fmt.Sprintf("%q is not an attribute such as me, me.all or gfx, given once", a))
		}
	}
	return s, nil
}

// attribute reports whether a is letters, digits and dots, begins with a letter
// and does not end with a dot.
func attribute(a string) bool {
	for i, r := range a {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r != '.' && (r < '0' || r > '9')) {
			return false
		}
	}
	return a != "" && !strings.HasSuffix(a, ".")
}

// Instance is the name of the profile of the GPU instance alone.
func (s Spelling) Instance() string {
	return strconv.Itoa(s.Slices) + "g." + strconv.Itoa(s.GB) + "gb" + s.suffix()
}

// suffix is what follows the memory, such as "+me".
func (s Spelling) suffix() string {
	switch {
	case len(s.Attributes) == 0:
		return ""
	case s.Without:
		return "-" + strings.Join(s.Attributes, ",")
	}
	return "+" + strings.Join(s.Attributes, ",")
}

// String is the name as nvidia-smi prints it.
func (s Spelling) String() string {
	if s.Compute == s.Slices {
		return s.Instance()
	}
	return strconv.Itoa(s.Compute) + "c." + s.Instance()
}

// CanonicalProfile returns the name of a profile as nvidia-smi prints it, or name
// itself where it is not the name of any. So "1g.5gb.me" becomes "1g.5gb+me", and
// "1c.1g.5gb" becomes "1g.5gb".
func CanonicalProfile(name string) string {
	s, err := ParseProfile(name)
	if err != nil {
		return name
	}
	return s.String()
}
