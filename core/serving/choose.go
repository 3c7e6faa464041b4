package serving

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/core/gpu"
)

// The reasons of a Fault, of KServe's status.
const (
	FaultNoRuntime  = "NoSupportingRuntime"
	FaultUnknown    = "RuntimeNotRecognized"
	FaultDisabled   = "RuntimeDisabled"
	FaultSpec       = "InvalidPredictorSpec"
	FaultLoad       = "ModelLoadFailed"
	FaultUnhealthy  = "RuntimeUnhealthy"
	protocolDefault = "v1"
)

// Fault is why a service cannot run as it is.
type Fault struct {
	Reason  string // one of KServe's
	Message string // a sentence with what to do
}

// Choose returns the runtime of a model, of those that its namespace and the cluster have. As KServe does
// (ModelSpec.GetSupportingRuntimes), it prefers those of the namespace, then a higher priority for the format, then the
// first protocol, the newest, and the first name. A runtime that the model names must serve the format too. A model that names no
// protocol is served by v1; unlike with KServe, if no runtime of the format speaks that, by what one speaks.
func Choose(m *Model, runtimes []Runtime) (*Runtime, *Fault) {
	if m.Runtime != "" {
		return named(m, runtimes)
	}
	fit := fitting(m, cmp.Or(m.Protocol, protocolDefault), runtimes)
	if len(fit) == 0 && m.Protocol == "" {
		fit = fitting(m, "", runtimes)
	}
	if len(fit) == 0 {
		return nil, unserved(m, cmp.Or(m.Protocol, protocolDefault), runtimes)
	}
	return slices.MinFunc(fit, func(a, b *Runtime) int { return a.compare(b, m.Format) }), nil
}

// fitting returns the runtimes that may be chosen for a model and speak a protocol; "" is any.
func fitting(m *Model, protocol string, runtimes []Runtime) (out []*Runtime) {
	for i := range runtimes {
		r := &runtimes[i]
		if !r.Disabled && !r.MultiModel && !r.MultiNode && (protocol == "" || r.speaks(protocol)) && r.serves(m, true) {
			out = append(out, r)
		}
	}
	return out
}

// named returns the runtime that a model names.
func named(m *Model, runtimes []Runtime) (*Runtime, *Fault) {
	var names []string
	for _, own := range []bool{true, false} {
		for i := range runtimes {
			if r := &runtimes[i]; r.Cluster == own {
				continue
			} else if r.Name == m.Runtime {
				return r, r.refuses(m)
			}
			names = append(names, runtimes[i].Name)
		}
	}
	text := fmt.Sprintf("runtime %s does not exist", m.Runtime)
	if near := gpu.NearestWord(m.Runtime, names); near != "" {
		return nil, &Fault{FaultUnknown, text + "; did you mean " + near + "?"}
	}
	return nil, &Fault{FaultUnknown, text + "; use " + oneOf(names) + ", or leave runtime out"}
}

// refuses returns why a runtime that a model names does not serve it; nil is that it does.
func (r *Runtime) refuses(m *Model) *Fault {
	switch {
	case r.Disabled:
		return &Fault{FaultDisabled, fmt.Sprintf("runtime %s is disabled; set spec.disabled: false in it, or leave runtime out", r.Name)}
	case r.MultiModel || r.MultiNode:
		return &Fault{FaultSpec, fmt.Sprintf("runtime %s serves a model on several nodes, or many models, which Berth does not run; use another one", r.Name)}
	case !r.serves(m, false):
		return &Fault{FaultNoRuntime, fmt.Sprintf("runtime %s does not serve format %s; it serves %s", r.Name, m.format(), oneOf(r.formats(false)))}
	case m.Protocol != "" && !r.speaks(m.Protocol):
		return &Fault{FaultNoRuntime, fmt.Sprintf("runtime %s does not speak protocol %s; it speaks %s", r.Name, m.Protocol, oneOf(r.Protocols))}
	}
	return nil
}

// unserved is why no runtime can be chosen.
func unserved(m *Model, protocol string, runtimes []Runtime) *Fault {
	var names, versions, protocols, asked []string
	for i := range runtimes {
		r := &runtimes[i]
		if r.Disabled || r.MultiModel || r.MultiNode {
			continue
		}
		names = append(names, r.formats(true)...)
		for _, f := range r.Formats {
			switch {
			case f.Name != m.Format:
			case !f.Auto:
				asked = append(asked, r.Name)
			case m.Version == "" || f.Version == m.Version:
				protocols = append(protocols, r.Protocols...)
			default:
				versions = append(versions, f.Version)
			}
		}
	}
	text := fmt.Sprintf("no runtime serves format %s", m.format())
	switch near := gpu.NearestWord(m.Format, names); {
	case len(protocols) > 0:
		text = fmt.Sprintf("no runtime serves format %s with protocol %s; set protocolVersion to %s", m.format(), protocol, oneOf(protocols))
	case len(versions) > 0:
		text += "; there is one for version " + oneOf(versions)
	case len(asked) > 0:
		text += " unless it is named; set runtime to " + oneOf(asked)
	case near != "" && near != m.Format:
		text += "; did you mean " + near + "?"
	case len(names) == 0:
		text += ": the cluster has no runtimes; `berth controller` installs them"
	default:
		text += "; formats with a runtime are " + list(names)
	}
	return &Fault{FaultNoRuntime, text}
}

// format names the format of a model, with its version.
func (m *Model) format() string {
	if m.Version == "" {
		return m.Format
	}
	return m.Format + " " + m.Version
}

// serves reports whether a runtime serves the format of a model; if auto, whether it may be chosen for it.
func (r *Runtime) serves(m *Model, auto bool) bool {
	return slices.ContainsFunc(r.Formats, func(f Format) bool {
		return f.Name == m.Format && (m.Version == "" || f.Version == m.Version) && (f.Auto || !auto)
	})
}

// speaks reports whether a runtime speaks a protocol.
func (r *Runtime) speaks(protocol string) bool {
	return slices.Contains(r.Protocols, protocol) || len(r.Protocols) == 0 && protocol == protocolDefault
}

// formats returns the names of the formats of a runtime; if auto, those that it may be chosen for.
func (r *Runtime) formats(auto bool) (out []string) {
	for _, f := range r.Formats {
		if f.Auto || !auto {
			out = append(out, f.Name)
		}
	}
	return out
}

// compare orders runtimes by which is chosen for a format first.
func (r *Runtime) compare(o *Runtime, format string) int {
	where := func(r *Runtime) int {
		if r.Cluster {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(where(r), where(o)), cmp.Compare(o.priority(format), r.priority(format)), cmp.Compare(r.protocol(), o.protocol()), o.Created.Compare(r.Created), cmp.Compare(r.Name, o.Name))
}

// priority is the highest that a runtime has for a format.
func (r *Runtime) priority(format string) (most int) {
	for _, f := range r.Formats {
		if f.Name == format && f.Auto {
			most = max(most, f.Priority)
		}
	}
	return most
}

// protocol is the place of a runtime's first protocol in the order v1, v2, others.
func (r *Runtime) protocol() int {
	for i, p := range []string{protocolDefault, "v2"} {
		if r.speaks(p) {
			return i
		}
	}
	return 2
}

// list joins words, each once and sorted.
func list(words []string) string {
	words = slices.Clone(words)
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ", ")
}

// oneOf is list with "or" before the last.
func oneOf(words []string) string {
	text := list(words)
	if i := strings.LastIndex(text, ", "); i >= 0 {
		return text[:i] + " or" + text[i+1:]
	}
	return text
}
