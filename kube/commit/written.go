package commit

import (
	"strconv"
	"strings"

	"berth.dev/berth/core/sharing"
)

// written reads what Commitment writes, several times as fast as a reader of all JSON: schedulers and
// controllers read it of each pod. ok is false for texts of any other form, which may be JSON as well, and for devices that are
// more than a GPU has.
func written(raw string) (list map[string][]sharing.Named, ok bool) {
	t := text(raw)
	if !t.skip("{") {
		return nil, false
	}
	list = map[string][]sharing.Named{}
	for more := true; more; more = t.skip(",") {
		name, ok := t.quoted()
		if _, twice := list[name]; !ok || twice || !t.skip(":[") {
			return nil, false
		}
		if list[name], ok = t.devices(); !ok {
			return nil, false
		}
	}
	return list, t == "}"
}

// writtenFor is written for the devices of one container, if the text names no other.
func writtenFor(raw, container string) (devices []sharing.Named, ok bool) {
	t := text(raw)
	if !t.skip(`{"`) || !t.skip(container) || !t.skip(`":[`) {
		return nil, false
	}
	devices, ok = t.devices()
	return devices, ok && t == "}"
}

// text is what is still to be read.
type text string

// skip reads what is given, if that comes next.
func (t *text) skip(s string) bool {
	rest, ok := strings.CutPrefix(string(*t), s)
	*t = text(rest)
	return ok
}

// devices reads a list of devices whose beginning is read.
func (t *text) devices() ([]sharing.Named, bool) {
	var out []sharing.Named
	for more := true; more; more = t.skip(",") {
		d, ok := t.device()
		if !ok || d.check() != nil {
			return nil, false
		}
		out = append(out, sharing.Named{UUID: d.UUID, MilliGPU: d.MilliGPU, MemoryBytes: d.MemoryBytes})
	}
	return out, t.skip("]")
}

// device reads one device.
func (t *text) device() (d committedDevice, ok bool) {
	if !t.skip(`{"uuid":`) {
		return d, false
	}
	if d.UUID, ok = t.quoted(); !ok || !t.skip(`,"milliGPU":`) {
		return d, false
	}
	if d.MilliGPU, ok = t.number(); !ok || !t.skip(`,"memoryBytes":`) {
		return d, false
	}
	d.MemoryBytes, ok = t.number()
	return d, ok && t.skip("}")
}

// quoted reads a string of printable ASCII in which nothing is escaped.
func (t *text) quoted() (string, bool) {
	if !t.skip(`"`) {
		return "", false
	}
	word, rest, ok := strings.Cut(string(*t), `"`)
	for i := range len(word) {
		ok = ok && word[i] >= ' ' && word[i] <= '~' && word[i] != '\\'
	}
	*t = text(rest)
	return word, ok
}

// number reads a whole number that is not negative.
func (t *text) number() (int64, bool) {
	n := 0
	for n < len(*t) && (*t)[n] >= '0' && (*t)[n] <= '9' {
		n++
	}
	digits := string((*t)[:n])
	*t = (*t)[n:]
	value, err := strconv.ParseInt(digits, 10, 64)
	return value, err == nil && (n == 1 || digits[0] != '0')
}
