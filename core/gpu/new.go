package gpu

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
)

// UUID returns the UUID that belongs to seed: kind ("GPU" or "MIG"), "-", and 32
// digits in the form of RFC 9562 version 5. Equal arguments give equal UUIDs;
// the digits are FNV-1a hashes, spread by a finalizer, and are no secret.
func UUID(kind, seed string) string {
	hi, lo := spread(kind+"/0/"+seed), spread(kind+"/1/"+seed)
	hi = hi&^0xf000 | 0x5000                    // version 5
	lo = lo&^(0b11<<62) | 0b10<<62              // the variant of RFC 9562
	a, b, c := hi>>32, hi>>16&0xffff, hi&0xffff // 8-4-4 digits
	return fmt.Sprintf("%s-%08x-%04x-%04x-%04x-%012x", kind, a, b, c, lo>>48, lo&0xffffffffffff)
}

// spread hashes s so that each bit of the result depends on all of s: FNV-1a
// alone moves only some bits for a change at the end.
//
// Source: the finalizer of SplitMix64, after MurmurHash3.
func spread(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s)) // never an error, says package hash
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Usual PCI bus numbers: of an 8-way board with NVLink, and of a server with
// PCIe slots.
var (
	boardBuses = [8]int{0x07, 0x0f, 0x47, 0x4e, 0x87, 0x90, 0xb7, 0xbd}
	slotBuses  = [8]int{0x17, 0x31, 0x4b, 0x65, 0x98, 0xb1, 0xca, 0xe3}
)

// New makes the GPUs of a node: count healthy GPUs of one product, none cut.
// UUIDs follow from the node's name and the index alone. The first half is on
// NUMA node 0, the second on 1. Products with NVLink are one clique if there
// is more than one GPU.
//
// New panics if count is negative or over 256, the buses of a PCI domain.
func New(node string, p Product, count int) []GPU {
	if count < 0 || count > 256 {
		panic("gpu.New: count is " + strconv.Itoa(count) + ", not 0 to 256")
	}
	out := make([]GPU, count)
	for i := range out {
		bus := i
		switch {
		case count <= 8 && p.NVLinks > 0:
			bus = boardBuses[i]
		case count <= 8:
			bus = slotBuses[i]
		case count <= 64:
			bus = 3 + 3*i
		}
		clique := 0
		if p.NVLinks > 0 && count > 1 {
			clique = 1
		}
		out[i] = GPU{
			Index: i, UUID: UUID("GPU", node+"/"+strconv.Itoa(i)), Product: p.Name,
			MemoryBytes: p.MemoryMiB << 20, BusID: fmt.Sprintf("00000000:%02X:00.0", bus),
			NUMANode: 2 * i / count, Clique: clique, Healthy: true,
		}
	}
	return out
}

// Cut turns MIG on for g, a GPU of product p, and cuts it into profiles as
// Layout places them; what it was cut into before is gone. No profiles leave
// it with MIG on and no device. A device's UUID follows from the UUID of the
// GPU, the profile, the start and the compute instance. On an error, which is Layout's, g is as
// before.
func Cut(g *GPU, p Product, profiles []string) error {
	if len(p.Profiles) == 0 {
		return errors.New(p.WithoutMIG())
	}
	devices, err := Layout(p, profiles)
	if err != nil {
		return err
	}
	for i := range devices {
		d := &devices[i]
		d.UUID = d.seeded(g.UUID)
	}
	g.MIGEnabled, g.MIG = true, devices
	return nil
}

// seeded returns the UUID of a simulated MIG device on the GPU of a UUID.
func (d MIGDevice) seeded(of string) string {
	seed := of + "/" + d.Profile + "/" + strconv.Itoa(d.Start)
	if d.CI > 0 {
		seed += "/" + strconv.Itoa(d.CI)
	}
	return UUID("MIG", seed)
}
