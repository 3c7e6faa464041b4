package quota

import "berth.dev/berth/core/cost"

// weighted returns the GPU-equivalents of parts of GPUs of a product, in parts, rounded
// down. "" is that the product is not known yet; its parts count as they are.
func weighted(parts int64, product string) int64 {
	if product == "" {
		return parts
	}
	w := cost.Weight(product)
	return parts/cost.Unit*w + parts%cost.Unit*w/cost.Unit // so large amounts do not overflow
}
