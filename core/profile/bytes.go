package profile

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units are the units of a size. JupyterHub's G is 2^30, not 10^9.
var units = map[byte]float64{'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40}

// Bytes reads a size as JupyterHub does: a number of bytes, or a text that is a
// number with K, M, G or T, each 1024 of the one before. Fractions of a byte are
// dropped. What Kubernetes writes as Gi is refused.
func Bytes(v any) (int64, error) {
	var n float64
	switch v := v.(type) {
	case int64:
		if v >= 0 {
			return v, nil
		}
		n = -1
	case float64:
		n = v
	case string:
		number, unit := "", byte(0)
		if v != "" {
			number, unit = v[:len(v)-1], v[len(v)-1]
		}
		size, ok := units[unit]
		x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if !ok || err != nil || strings.ContainsAny(number, "xXpP_") {
			return 0, fmt.Errorf("%q is not a size: write a number with K, M, G or T, such as 4G, which is %d bytes", v, int64(4)<<30)
		}
		n = x * size
	default:
		return 0, fmt.Errorf("%s is not a size: write a number with K, M, G or T, such as 4G", describe(v))
	}
	if math.IsNaN(n) || n < 0 || n >= 1<<62 {
		return 0, fmt.Errorf("%s: a size is from 0 to 4 million T", describe(v))
	}
	return int64(n), nil
}
