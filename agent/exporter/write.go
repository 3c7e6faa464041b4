package exporter

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
)

// rooms are what scrapes are written into, one after the other: nothing of a scrape is kept.
var rooms = sync.Pool{New: func() any { return &room{} }} //nolint:gochecknoglobals // memory, and no state

type room struct {
	text []byte
	sets arena
}

// Write writes all devices as one scrape: the fields in their order, under each
// its series in the order of devs and their pods. Equal arguments give equal
// bytes. In the series of a MIG device, UUID is the GPU's.
//
// A free device has one series per field, without pod labels, one that is held
// whole has one with them. Without o.Divide, a shared one has a series for each
// sharer with the same value. With it, each sharer has a series with its own part
// of memory and utilization, beside one without pod labels for what no pod uses;
// every other field has the one series of the device. A GPU that is partitioned with MIG has
// the series of what its MIG devices have in common, such as power, and each MIG
// device only those of its own.
//
// The one error is w's.
func Write(w io.Writer, o Options, devs []Device) error {
	r := rooms.Get().(*room)
	defer rooms.Put(r)
	r.sets.b = r.sets.b[:0]
	r.text = appendFields(r.text[:0], &o, devs, &r.sets)
	if _, err := w.Write(r.text); err != nil {
		return fmt.Errorf("write metrics of %s: %w", o.Hostname, err)
	}
	return nil
}

func appendFields(b []byte, o *Options, devs []Device, a *arena) []byte {
	list, driver := o.Fields.list()
	all := make([]series, len(devs))
	for i := range devs {
		all[i] = newSeries(a, o, &devs[i], driver)
	}
	for i := range list {
		f := &list[i]
		head := false
		for j := range devs {
			d := &devs[j]
			if !f.has(o, d) {
				continue
			}
			if !head {
				b = appendHead(b, f.name, f.kind, f.help)
				head = true
			}
			b = f.append(b, o, d, &all[j])
		}
	}
	return b
}

// appendHead writes the lines before the series of a metric. Its help is escaped
// as the text format asks to.
func appendHead(b []byte, name, kind, help string) []byte {
	b = append(append(append(b, "# HELP "...), name...), ' ')
	for i := 0; i < len(help); i++ {
		switch help[i] {
		case '\\':
			b = append(b, `\\`...)
		case '\n':
			b = append(b, `\n`...)
		default:
			b = append(b, help[i])
		}
	}
	b = append(append(append(b, "\n# TYPE "...), name...), ' ')
	return append(append(b, kind...), '\n')
}

// has reports whether a device has series of the field.
func (f *field) has(o *Options, d *Device) bool {
	switch {
	case d.Unread, f.notMIG && d.GPU.MIGEnabled:
		return false
	case o.Divide && d.MIG != nil && !f.cut, o.Divide && d.MIG == nil && f.cut && len(d.GPU.MIG) > 0:
		return false
	}
	if f.measure != "" && f.at >= len(d.More) {
		return false
	}
	for _, name := range f.needs {
		if slices.Contains(d.Absent, name) {
			return false
		}
	}
	return true
}

// append writes the series of one device.
func (f *field) append(b []byte, o *Options, d *Device, s *series) []byte {
	line := func(labels []byte, whole int64, ratio float64) {
		b = append(append(b, f.name...), labels...)
		if f.more != nil {
			b = append(f.more(b[:len(b)-len(ends)], d), ends...)
		}
		b = append(f.number(b, whole, ratio), '\n')
	}
	var whole int64
	var ratio float64
	switch {
	case f.measure != "":
		whole, ratio = int64(d.More[f.at]), d.More[f.at]
	case f.whole != nil:
		whole = f.whole(d)
	default:
		ratio = f.ratio(d)
	}
	switch {
	case len(s.pods) == 0:
		line(s.device, whole, ratio)
	case !o.Divide || !d.shared():
		for _, labels := range s.pods {
			line(labels, whole, ratio)
		}
	default:
		parts, rest := f.divide(d, whole, ratio)
		for i, part := range parts {
			line(s.pods[i], part, float64(part)/millionths)
		}
		line(s.device, rest, float64(rest)/millionths)
	}
	return b
}

// millionths is what ratios are divided in: the text has six decimals.
const millionths = 1e6

// divide returns the part of each pod, none or one for each, and what is left for
// the device's own series; of ratios in millionths.
func (f *field) divide(d *Device, whole int64, ratio float64) (parts []int64, rest int64) {
	if !f.isWhole() {
		whole = int64(ratio*millionths + 0.5)
	}
	switch f.parts {
	case byMemory:
		return memoryParts(whole, d.Pods)
	case byWork:
		return workParts(whole, d.Pods)
	case undivided:
	}
	return nil, whole
}

func (f *field) isWhole() bool { return f.whole != nil || f.integer }

// number writes integers as such and floating point numbers with six decimals.
func (f *field) number(b []byte, whole int64, ratio float64) []byte {
	if f.isWhole() {
		return strconv.AppendInt(b, whole, 10)
	}
	return strconv.AppendFloat(b, ratio, 'f', 6, 64)
}
