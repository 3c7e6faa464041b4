package exporter

import "strconv"

// series are the label sets of one device, "{...} " each.
type series struct {
	// device has no pod labels or, with Options.Divide, empty ones. To Prometheus
	// that is the same, but for one thing: with honor_labels it would add the pod
	// that it scrapes, the exporter's own.
	device []byte
	pods   [][]byte // one for each pod
}

// arena is memory from which label sets are taken, one after the other. What was cut
// stays as it is when the arena grows.
type arena struct{ b []byte }

// cut returns what f appends.
func (a *arena) cut(f func(b []byte) []byte) []byte {
	from := len(a.b)
	a.b = f(a.b)
	return a.b[from:len(a.b):len(a.b)]
}

// newSeries makes the label sets of a device in a. driver leaves the driver's version
// in.
func newSeries(a *arena, o *Options, d *Device, driver bool) series {
	common := a.cut(func(b []byte) []byte {
		b = deviceLabels(append(b, '{'), o, d)
		if driver {
			b = addLabel(b, "DCGM_FI_DRIVER_VERSION", o.DriverVersion)
		}
		return b
	})
	with := func(p *Pod) []byte {
		return a.cut(func(b []byte) []byte {
			b = podLabels(append(b, common...), o, p)
			for _, l := range p.labels {
				b = addLabel(b, l.name, l.value)
			}
			return append(b, ends...)
		})
	}
	var s series
	if len(d.Pods) > 0 {
		s.pods = make([][]byte, len(d.Pods))
	}
	for i := range d.Pods {
		s.pods[i] = with(&d.Pods[i])
	}
	if o.Divide {
		s.device = with(&Pod{})
	} else {
		s.device = a.cut(func(b []byte) []byte { return append(append(b, common...), ends...) })
	}
	return s
}

// deviceLabels are those of dcgm-exporter.
func deviceLabels(b []byte, o *Options, d *Device) []byte {
	b = addLabel(b, "gpu", strconv.Itoa(d.GPU.Index))
	b = addUUID(b, o, d.GPU.UUID)
	b = addLabel(b, "pci_bus_id", d.GPU.BusID)
	b = addLabel(b, "device", "nvidia"+strconv.Itoa(d.GPU.Index))
	b = addLabel(b, "modelName", d.GPU.Product)
	return addHostname(instanceLabels(b, d), o)
}

// ownLabels are those of Berth's metrics: enough to join them with DCGM's, by UUID
// and GPU_I_ID.
func ownLabels(o *Options, d *Device) []byte { return appendOwnLabels(make([]byte, 0, 240), o, d) }

// appendOwnLabels appends them after a brace, or to nothing.
func appendOwnLabels(b []byte, o *Options, d *Device) []byte {
	b = addLabel(b, "gpu", strconv.Itoa(d.GPU.Index))
	return addHostname(instanceLabels(addUUID(b, o, d.GPU.UUID), d), o)
}

func instanceLabels(b []byte, d *Device) []byte {
	if d.MIG == nil {
		return b
	}
	return addLabel(addLabel(b, "GPU_I_PROFILE", d.MIG.Profile), "GPU_I_ID", strconv.Itoa(d.MIG.GI))
}

func addUUID(b []byte, o *Options, uuid string) []byte {
	if o.OldLabels {
		return addLabel(b, "uuid", uuid)
	}
	return addLabel(b, "UUID", uuid)
}

func addHostname(b []byte, o *Options) []byte {
	if o.HostnameLabel != "" {
		return addLabel(b, o.HostnameLabel, o.Hostname)
	}
	return addLabel(b, "hostname", o.Hostname)
}

func podLabels(b []byte, o *Options, p *Pod) []byte {
	container, namespace, pod := "container", "namespace", "pod"
	if o.OldLabels {
		container, namespace, pod = "container_name", "pod_namespace", "pod_name"
	}
	b = addLabel(b, container, p.Container)
	b = addLabel(b, namespace, p.Namespace)
	b = addLabel(b, pod, p.Name)
	if p.UID != "" {
		b = addLabel(b, "pod_uid", p.UID)
	}
	return b
}

// addLabel appends one label, with a comma if there is one before it.
func addLabel(b []byte, name, value string) []byte {
	if len(b) > 0 && b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, name...)
	b = append(b, '=', '"')
	b = appendEscaped(b, value)
	return append(b, '"')
}

// ends is the end of a label set.
const ends = "} "

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
