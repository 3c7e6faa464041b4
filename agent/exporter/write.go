package exporter

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// Write writes all devices as one scrape: the fields in dcgm-exporter's order,
// under each its series in the order of devs and their pods. Equal arguments
// give equal bytes.
//
// A free device has one series per field, without pod labels. A shared one has
// a series for each sharer with the same value: the value of the device, so a
// sum over pods counts it more than once, as with dcgm-exporter's
// KUBERNETES_VIRTUAL_GPUS. In the series of a MIG device, UUID is the GPU's.
//
// The one error is w's.
func Write(w io.Writer, o Options, devs []Device) error {
	labels := make([][][]byte, len(devs))
	for i, d := range devs {
		labels[i] = seriesLabels(o, d)
	}
	var b bytes.Buffer
	for _, f := range fields {
		head := false
		for i, d := range devs {
			if f.notMIG && d.GPU.MIGEnabled {
				continue
			}
			if !head {
				fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
				head = true
			}
			value := f.value(d)
			for _, l := range labels[i] {
				b.WriteString(f.name)
				b.Write(l)
				b.WriteString(value)
				b.WriteByte('\n')
			}
		}
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write metrics of %s: %w", o.Hostname, err)
	}
	return nil
}

// value prints integers as such and floating point numbers with six decimals.
func (f field) value(d Device) string {
	if f.whole != nil {
		return strconv.FormatInt(f.whole(d), 10)
	}
	return strconv.FormatFloat(f.ratio(d), 'f', 6, 64)
}

// seriesLabels is "{...} " for each series of a device.
func seriesLabels(o Options, d Device) [][]byte {
	var b []byte
	add := func(name, value string) {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(b, name...)
		b = append(b, '=', '"')
		b = appendEscaped(b, value)
		b = append(b, '"')
	}
	add("gpu", strconv.Itoa(d.GPU.Index))
	add("UUID", d.GPU.UUID)
	add("pci_bus_id", d.GPU.BusID)
	add("device", "nvidia"+strconv.Itoa(d.GPU.Index))
	add("modelName", d.GPU.Product)
	if d.MIG != nil {
		add("GPU_I_PROFILE", d.MIG.Profile)
		add("GPU_I_ID", strconv.Itoa(d.MIG.GI))
	}
	add("hostname", o.Hostname)
	add("DCGM_FI_DRIVER_VERSION", o.DriverVersion)
	if len(d.Pods) == 0 {
		return [][]byte{closed(b)}
	}
	var all [][]byte
	device := b
	for _, p := range d.Pods {
		b = append([]byte(nil), device...)
		add("container", p.Container)
		add("namespace", p.Namespace)
		add("pod", p.Name)
		if p.UID != "" {
			add("pod_uid", p.UID)
		}
		all = append(all, closed(b))
	}
	return all
}

func closed(labels []byte) []byte {
	return append(append([]byte{'{'}, labels...), '}', ' ')
}

// appendEscaped escapes what the text format asks to: backslash, quote, newline.
func appendEscaped(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\', '"':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, c)
		}
	}
	return b
}
