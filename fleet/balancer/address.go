package balancer

import (
	"fmt"
	"net/netip"
	"runtime"
)

// The loopback addresses that Services get: from 127.66.0.1 on, one each, where the
// system answers at all of 127.0.0.0/8, as Linux does. Elsewhere all have 127.0.0.1.
const (
	network       = "127.66."
	maxAddresses  = 256*254 + 1
	onlyLoopback  = "127.0.0.1"
	wholeLoopback = runtime.GOOS == "linux"
)

// pick returns the address of a Service that has the address had, or "" for none:
// that one if it is in the range and free, else the lowest free one, else "".
func pick(had string, taken map[string]bool) string {
	if !wholeLoopback {
		return onlyLoopback
	}
	if a, err := netip.ParseAddr(had); err == nil && ours(a) && !taken[had] {
		return had
	}
	for i := range maxAddresses - 1 {
		if ip := fmt.Sprintf("%s%d.%d", network, i/254, i%254+1); !taken[ip] {
			return ip
		}
	}
	return ""
}

// ours reports whether an address is one that pick returns.
func ours(a netip.Addr) bool {
	if !a.Is4() {
		return false
	}
	b := a.As4()
	return b[0] == 127 && b[1] == 66 && b[3] != 0 && b[3] != 255
}
