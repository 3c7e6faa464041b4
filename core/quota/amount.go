package quota

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"berth.dev/berth/core/gpu"
)

// Whole is one physical GPU in parts. It can be divided by every number up to 16, so
// that the MIG devices and shares of one GPU add up to it exactly.
const Whole = 720720

// Unlimited is an amount that sets no limit.
const Unlimited = math.MaxInt64

// Resource is what a quota is about: GPUs, Equivalents, the name of a GPU product as
// its label nvidia.com/gpu.product has it, a MIG profile after MIGPrefix, or GPUs of the nodes
// with a label, as "workload=training".
type Resource string

// The resources that are not products.
const (
	// GPUs is physical GPUs of all products together.
	GPUs Resource = "gpus"
	// Equivalents is GPUs weighted by what their product is worth: see cost.Weight.
	Equivalents Resource = "gpu-equivalents"
	// MIGPrefix begins the name of a MIG profile, as "mig-1g.5gb". Such an amount counts
	// MIG devices, each as Whole.
	MIGPrefix = "mig-"
)

// Profile returns the MIG profile that a resource counts; "" is none.
func (r Resource) Profile() string {
	if name, ok := strings.CutPrefix(string(r), MIGPrefix); ok {
		return name
	}
	return ""
}

// Piece is some equal devices that a pod holds or asks for.
type Piece struct {
	Product string // as its label has it; "" is not known yet
	Labels  string // of its node, as in Kind; "" is none, or not known yet
	Profile string // of MIG devices, such as "1g.5gb"; "" is none
	Devices int64  // how many
	Parts   int64  // of GPUs, of all of them together
}

// PartOfMIG returns the parts of one MIG device of a profile: its compute slices of those
// of the GPU. Of a product that is "" or does not have the profile it is the most that
// any product gives, and a whole GPU where none has it.
func PartOfMIG(product, profile string) int64 {
	if p, ok := gpu.Find(product); ok {
		if n := partOf(p, profile); n > 0 {
			return n
		}
	}
	most := int64(0)
	for _, p := range gpu.Products() {
		most = max(most, partOf(p, profile))
	}
	if most == 0 {
		return Whole
	}
	return most
}

// partOf is PartOfMIG for one product; 0 is that it does not have the profile.
func partOf(p gpu.Product, profile string) int64 {
	_, slices, ok := p.Compute(profile)
	if !ok || p.ComputeSlices <= 0 {
		return 0
	}
	return int64(slices) * Whole / int64(p.ComputeSlices)
}

// PartOfMilli returns the parts of some milli-GPUs, rounded down.
func PartOfMilli(milli int64) int64 { return milli/1000*Whole + milli%1000*Whole/1000 }

// Milli returns the milli-GPUs of parts, rounded to the nearest.
func Milli(parts int64) int64 {
	if parts == Unlimited {
		return Unlimited
	}
	return parts/Whole*1000 + (parts%Whole*1000+Whole/2)/Whole
}

// Text returns parts in GPUs, for people: "7", "0.5", "0.143"; "no limit" for Unlimited.
func Text(parts int64) string {
	if parts == Unlimited {
		return "no limit"
	}
	sign, milli := "", Milli(parts)
	if milli < 0 {
		sign, milli = "-", -milli
	}
	s := strconv.FormatInt(milli/1000, 10)
	if rest := milli % 1000; rest > 0 {
		s += strings.TrimRight(fmt.Sprintf(".%03d", rest), "0")
	}
	return sign + s
}

// add is a + b, Unlimited where either is or the sum would not fit.
func add(a, b int64) int64 {
	if a == Unlimited || b == Unlimited || b > 0 && a > Unlimited-b {
		return Unlimited
	}
	return a + b
}
