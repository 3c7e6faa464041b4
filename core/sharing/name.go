package sharing

import "slices"

// NameDevices hands devices to parts in their order, as a kubelet does: a part
// uses again what one before it hands on. The result has the devices of each part
// by its name, as Commit wants them. ok is false where there are too few devices, or
// too many.
func NameDevices(parts []Part, devices []Named) (named map[string][]Named, ok bool) {
	named = make(map[string][]Named, len(parts))
	var reuse []Named
	next := 0
	for i := range parts {
		had := reuse
		for _, a := range parts[i].Asks {
			for range a.Units() {
				switch {
				case len(had) > 0:
					named[parts[i].Name], had = append(named[parts[i].Name], had[0]), had[1:]
				case next < len(devices):
					named[parts[i].Name] = append(named[parts[i].Name], devices[next])
					next++
				default:
					return nil, false
				}
			}
		}
		if !parts[i].HandsOn {
			reuse = had
			continue
		}
		reuse = append([]Named(nil), devices[:next]...)
		for _, taken := range lasting(parts[:i], named) {
			if k := slices.Index(reuse, taken); k >= 0 {
				reuse = slices.Delete(reuse, k, k+1)
			}
		}
	}
	return named, next == len(devices)
}

// lasting returns the devices of parts that do not hand them on.
func lasting(parts []Part, named map[string][]Named) []Named {
	var out []Named
	for i := range parts {
		if !parts[i].HandsOn {
			out = append(out, named[parts[i].Name]...)
		}
	}
	return out
}
