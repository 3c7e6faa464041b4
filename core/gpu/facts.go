package gpu

// Facts is what a driver says of one GPU beyond what GPU holds. Where it is at
// hand, it goes before the catalog of products.
type Facts struct {
	ComputeMajor, ComputeMinor int // CUDA compute capability; 0, 0 is unknown
	Display                    bool
	MIGCapable                 bool
	Profiles                   []Profile // MIG profiles; nil is unknown
	Fabric                     string    // "<cluster UUID>.<clique>" of a NVLink fabric over several nodes; "" is none
}

// Family is GPU Feature Discovery's word for the family of GPUs that have a
// compute capability, such as "hopper", and "undefined" for one that has none.
//
// Source: the families in NVIDIA's CUDA programming guide.
func Family(major, minor int) string {
	switch {
	case major == 3:
		return kepler
	case major == 5:
		return "maxwell"
	case major == 6:
		return pascal
	case major == 7 && minor < 5:
		return volta
	case major == 7:
		return turing
	case major == 8 && minor < 9:
		return ampere
	case major == 8:
		return ada
	case major == 9:
		return hopper
	case major == 10, major == 12:
		return blackwell
	case major == 13:
		return "rubin"
	}
	return "undefined"
}

// labeller makes the labels of one node.
type labeller struct {
	sharing Sharing
	facts   map[string]Facts // by UUID; may be nil
	out     map[string]string
}

func (l *labeller) set(key, value string) { l.out[labelPrefix+key] = value }

// migCapable asks the driver, then the catalog.
func (l *labeller) migCapable(g GPU) bool {
	if f, ok := l.facts[g.UUID]; ok {
		return f.MIGCapable || g.MIGEnabled
	}
	p, ok := Find(g.Product)
	return g.MIGEnabled || ok && len(p.Profiles) > 0
}

// compute returns family and compute capability of a GPU, if they are known.
func (l *labeller) compute(g GPU) (family string, major, minor int, ok bool) {
	if f := l.facts[g.UUID]; f.ComputeMajor > 0 {
		return Family(f.ComputeMajor, f.ComputeMinor), f.ComputeMajor, f.ComputeMinor, true
	}
	p, ok := Find(g.Product)
	return p.Family, p.ComputeMajor, p.ComputeMinor, ok
}

// profile finds a MIG profile of a GPU.
func (l *labeller) profile(g GPU, name string) (Profile, bool) {
	for _, f := range l.facts[g.UUID].Profiles {
		if f.Name == name {
			return f, true
		}
	}
	p, _ := Find(g.Product)
	return p.Profile(name)
}

// fabric is the one that all GPUs of the node are on; "" is none, or several.
func (l *labeller) fabric(gpus []GPU) string {
	for _, g := range gpus {
		if f := l.facts[g.UUID].Fabric; f == "" || f != l.facts[gpus[0].UUID].Fabric {
			return ""
		}
	}
	return l.facts[gpus[0].UUID].Fabric
}
