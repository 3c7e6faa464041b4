package devices

import (
	"math/bits"

	"berth.dev/berth/core/quota"
)

// part is how much of one physical GPU something takes, as an integer: sums of MIG
// slices, shares and milli-GPUs are exact.
type part int64

// oneGPU is all of a GPU. It divides by 1 to 16 and by 1,000, so that slices, the usual
// numbers of shares, and milli-GPUs are whole numbers; what does not divide is rounded
// down, so parts of a GPU are never more than the GPU.
const oneGPU part = 1000 * quota.Whole

// quota is p in the parts of package quota, rounded down.
func (p part) quota() int64 { return int64(p) / (int64(oneGPU) / quota.Whole) }

// times is p * of / all, rounded down, and at most p. It is 0 where all is not known.
func (p part) times(of, all int64) part {
	switch {
	case all <= 0 || of <= 0:
		return 0
	case of >= all:
		return p
	}
	hi, lo := bits.Mul64(uint64(p), uint64(of))
	out, _ := bits.Div64(hi, lo, uint64(all)) // less than p, so it does not overflow
	return part(out)
}

// milliDown is p in milli-GPUs, rounded down.
func (p part) milliDown() int64 { return int64(p/oneGPU)*1000 + int64(p%oneGPU*1000/oneGPU) }

// milli is p in milli-GPUs, to the nearest.
func (p part) milli() int64 {
	return int64(p/oneGPU)*1000 + int64((p%oneGPU*1000+oneGPU/2)/oneGPU)
}

// gpus is p in GPUs, rounded up.
func (p part) gpus() int { return int((p + oneGPU - 1) / oneGPU) }
