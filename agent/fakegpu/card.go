package fakegpu

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"berth.dev/berth/core/gpu"
)

// card is one GPU that does not exist.
type card struct {
	index   int // place in the file
	product gpu.Product
	group   Group
	g       gpu.GPU // MIG and MIGEnabled follow from instances and mig

	mig, migNext bool // MIG mode in force, and after the next reset
	instances    []*instance
	exclusive    bool
	mended       time.Time // bad memory rows of before are replaced
	limits       map[string]int64

	totals  Totals // counters as of totals.At
	reading map[string]reading
}

// reading is what a device showed a moment ago.
type reading struct {
	at time.Time
	r  gpu.Reading
}

// instance is a GPU instance.
type instance struct {
	id       int
	profile  gpu.Profile
	start    int
	computes []computeInstance // by ID
}

type computeInstance struct{ id, slices int }

func newCard(p gpu.Product, g Group, index int) *card {
	return &card{
		index: index, product: p, group: g, limits: map[string]int64{}, reading: map[string]reading{},
		totals: Totals{At: time.Now()},
	}
}

// place gives the card its identity: the usual one, and what the file says
// else; then it is partitioned as the file says.
func (c *card) place(usual gpu.GPU, all []*card) {
	c.g = usual
	if c.group.UUID != "" {
		c.g.UUID = c.group.UUID
	}
	if c.group.BusID != "" {
		c.g.BusID = c.group.BusID
	}
	if c.group.NUMANode != nil {
		c.g.NUMANode = *c.group.NUMANode
	}
	// Only GPUs of one product are linked to one another.
	c.g.Clique = 0
	if c.product.NVLinks > 0 {
		alike := 0
		for _, o := range all {
			if o.product.Name == c.product.Name {
				alike++
			}
		}
		if alike > 1 {
			c.g.Clique = 1 + slices.IndexFunc(all, func(o *card) bool { return o.product.Name == c.product.Name })
		}
	}
	c.cut()
}

// cut makes the MIG devices that the file asks for.
func (c *card) cut() {
	c.instances = nil
	c.mig = c.group.MIG != nil
	c.migNext = c.mig
	if c.mig {
		devices, err := gpu.Layout(c.product, *c.group.MIG)
		if err != nil {
			devices = nil // Parse refuses it
		}
		for _, d := range devices {
			if d.CI == 0 {
				p, _, _ := c.product.Compute(d.Profile)
				c.instances = append(c.instances, &instance{id: d.GI, profile: p, start: d.Start})
			}
			in := c.instances[len(c.instances)-1]
			in.computes = append(in.computes, computeInstance{d.CI, d.Slices})
		}
	}
	c.describe()
}

// describe brings g up to date with the instances.
func (c *card) describe() {
	c.g.MIGEnabled, c.g.MIG = c.mig, nil
	clear(c.reading)
	slices.SortFunc(c.instances, func(a, b *instance) int { return a.start - b.start })
	for _, in := range c.instances {
		for _, ci := range in.computes {
			d := gpu.MIGDevice{
				Profile: in.profile.Name, Start: in.start, GI: in.id, CI: ci.id,
				Slices: ci.slices, MemoryBytes: in.profile.MemoryMiB << 20,
			}
			if ci.slices < in.profile.Slices {
				d.Profile = strconv.Itoa(ci.slices) + "c." + d.Profile
			}
			seed := c.g.UUID + "/" + d.Profile + "/" + strconv.Itoa(d.Start)
			if ci.id > 0 {
				seed += "/" + strconv.Itoa(ci.id)
			}
			d.UUID = gpu.UUID("MIG", seed)
			c.g.MIG = append(c.g.MIG, d)
		}
	}
}

// inherit takes over from the card of before what is not in the file.
func (c *card) inherit(b *card) {
	c.exclusive, c.limits, c.mended, c.totals = b.exclusive, b.limits, b.mended, b.totals
	if wish(c.group) == wish(b.group) {
		c.mig, c.migNext, c.instances = b.mig, b.migNext, b.instances
		c.describe()
	}
}

// wish writes what a group asks of MIG: two are alike when their files want the
// same.
func wish(g Group) string {
	if g.MIG == nil {
		return "off"
	}
	names := slices.Clone(*g.MIG)
	slices.Sort(names)
	return "on " + g.Product + " " + strings.Join(names, ",")
}

// reset is what a reset of the GPU does: a pending MIG mode comes into force.
func (c *card) reset() {
	c.mended = time.Now()
	if c.migNext != c.mig {
		c.mig, c.instances = c.migNext, nil
	}
	c.describe()
}

// device returns the MIG device at a place, in the order of starts.
func (c *card) device(place *int) string {
	if place == nil || *place >= len(c.g.MIG) {
		return ""
	}
	return c.g.MIG[*place].UUID
}
