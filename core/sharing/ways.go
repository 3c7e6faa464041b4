package sharing

import "strings"

// Ways is a set of the ways in which pods use GPUs.
type Ways uint8

// The ways. A pod with a share of a MIG device uses two.
const (
	WayWhole       Ways = 1 << iota // a whole GPU
	WayMIG                          // a MIG device
	WayTimeSlicing                  // a share by time
	WayMPS                          // a share by MPS
	WayMemory                       // a share by memory, or by another size

	AllWays = WayWhole | WayMIG | WayTimeSlicing | WayMPS | WayMemory
)

// wayNames are the names of the ways, in the order of their bits.
var wayNames = []string{"Whole", "MIG", "TimeSlicing", "MPS", "Memory"}

// Way returns the way of a name, such as "TimeSlicing"; 0 is that there is none.
func Way(name string) Ways {
	for i, known := range wayNames {
		if known == name {
			return 1 << i
		}
	}
	return 0
}

// In reports whether allowed has all ways of w.
func (w Ways) In(allowed Ways) bool { return w&^allowed == 0 }

// Names returns the names of the ways, in the order of the constants.
func (w Ways) Names() []string {
	var out []string
	for i, name := range wayNames {
		if w&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// Text writes the ways for people, the last two with a word between them: "Whole, MIG and MPS".
// It is "" for none.
func (w Ways) Text(word string) string {
	names := w.Names()
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + word + " " + names[last]
}
