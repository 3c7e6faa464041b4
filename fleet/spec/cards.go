package spec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/internal/strictyaml"
)

// gpus returns the GPUs of the node of this name, cut as its group says.
func (b *builder) gpus(path, name string, g group) ([]gpu.GPU, error) {
	if g.GPUs == nil {
		return nil, nil
	}
	path += ".gpus"
	c := g.GPUs
	if c.Product == "" {
		return nil, b.refuse(path+".product", "name one as nvidia-smi does, such as NVIDIA A100-SXM4-40GB", "GPUs need a product")
	}
	p, ok := gpu.Find(c.Product)
	if !ok {
		return nil, b.refuse(path+".product", productFix(c.Product), "%q is not a product that Berth knows", c.Product)
	}
	if c.Count < 1 || c.Count > maxGPUs {
		return nil, b.refuse(path+".count", "leave gpus out for a node without GPUs", "a node has from 1 to %d GPUs, not %d", maxGPUs, c.Count)
	}
	list := gpu.New(name, p, c.Count)
	if c.NVLink != nil {
		if *c.NVLink && p.NVLinks == 0 {
			return nil, b.refuse(path+".nvlink", "leave it out", "%s has no NVLink", p.Name)
		}
		if !*c.NVLink {
			for i := range list {
				list[i].Clique = 0
			}
		}
	}
	if c.MIG == nil {
		return list, nil
	}
	return list, b.cut(path+".mig", p, list, *c.MIG)
}

// productFix offers the nearest product, or all.
func productFix(word string) string {
	if near := gpu.Nearest(word); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	var known []string
	for _, p := range gpu.Products() {
		known = append(known, p.Name)
	}
	return "use one of " + strings.Join(known, ", ")
}

// cut divides the GPUs of one node as its group says.
func (b *builder) cut(path string, p gpu.Product, list []gpu.GPU, m mig) error {
	known := []string{string(gpu.MIGNone), string(gpu.MIGSingle), string(gpu.MIGMixed)}
	if m.Strategy != "" && !slices.Contains(known, m.Strategy) {
		return b.refuse(path+".strategy", didYouMean(m.Strategy, known), "%q is not a MIG strategy", m.Strategy)
	}
	if m.Profiles != nil && m.PerGPU != nil {
		return b.refuse(path+".perGPU", "keep one of them", "profiles applies to all GPUs and perGPU to each; both are set")
	}
	if m.PerGPU != nil && len(m.PerGPU) != len(list) {
		return b.refuse(path+".perGPU", fmt.Sprintf("give %d entries; {} leaves MIG off", len(list)), "%d entries for %d GPUs", len(m.PerGPU), len(list))
	}
	for i := range list {
		at, want := path+".profiles", m.Profiles
		if m.PerGPU != nil {
			at, want = fmt.Sprintf("%s.perGPU[%d]", path, i), m.PerGPU[i]
		}
		if len(want) == 0 {
			continue
		}
		profiles, err := b.profiles(at, p, want)
		if err != nil {
			return err
		}
		if err := gpu.Cut(&list[i], p, profiles); err != nil {
			return b.wrap(at, err)
		}
	}
	return nil
}

// profiles spells out a count by profile, in the order of their names.
func (b *builder) profiles(path string, p gpu.Product, want map[string]int) ([]string, error) {
	if len(p.Profiles) == 0 {
		return nil, b.refuse(path, "leave it out, or take a product with MIG, such as NVIDIA A100-SXM4-40GB", "%s cannot be partitioned: it has no MIG", p.Name)
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		profile, ok := p.Profile(name)
		if !ok {
			return nil, b.refuse(entry(path, name), fmt.Sprintf("did you mean %q?", p.NearestProfile(name)), "%q is not a MIG profile of %s", name, p.Name)
		}
		if count := want[name]; count < 1 || count > profile.Max {
			return nil, b.refuse(entry(path, name), fmt.Sprintf("use a number from 1 to %d", profile.Max), "%d x %s does not fit on one %s", count, name, p.Name)
		}
		list = append(list, slices.Repeat([]string{name}, want[name])...)
	}
	return list, nil
}

// sharing returns what the device plugin of a group's nodes is told, and what
// its document was warned about.
func (b *builder) sharing(path string, g group) (s gpu.Sharing, warnings []string, err error) {
	at := path + ".sharing"
	if g.Sharing != nil {
		if g.GPUs == nil {
			return s, nil, b.refuse(at, "add gpus, or leave it out", "a node without GPUs has nothing to share")
		}
		if s, warnings, err = config.ParseNode(b.file, g.Sharing); err != nil {
			return s, nil, within(at, err)
		}
	}
	if g.GPUs == nil || g.GPUs.MIG == nil {
		return s, warnings, nil
	}
	m := g.GPUs.MIG
	switch strategy := gpu.MIGStrategy(m.Strategy); {
	case strategy != "" && s.MIGStrategy != "" && s.MIGStrategy != gpu.MIGNone && s.MIGStrategy != strategy:
		return s, nil, b.refuse(path+".gpus.mig.strategy", "set it in one place", "%q here, but flags.migStrategy under sharing is %q", strategy, s.MIGStrategy)
	case strategy != "":
		s.MIGStrategy = strategy
	case s.MIGStrategy == "" && (len(m.Profiles) > 0 || len(m.PerGPU) > 0):
		s.MIGStrategy = gpu.MIGMixed
	}
	return s, warnings, nil
}

// within returns an error of the document at path with its field named from
// the top of the file.
func within(path string, err error) error {
	var inner *strictyaml.Error
	if !errors.As(err, &inner) {
		return err
	}
	outer := *inner
	outer.Field = path
	if inner.Field != "" {
		outer.Field += "." + inner.Field
	}
	return &outer
}

// offered refuses a node whose GPUs cannot be offered as its sharing says.
func (b *builder) offered(path string, n Node, g group) error {
	if err := sharing.Check(n.GPUs, n.Sharing); err != nil {
		at := path + ".gpus.mig"
		if g.Sharing != nil {
			at = path + ".sharing"
		}
		return b.wrap(at, err)
	}
	return nil
}
