package balancer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"syscall"

	v1 "k8s.io/api/core/v1"
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

// mostTries bounds how many addresses are looked at whose ports are in use: then they are in use everywhere.
const mostTries = 256

// address returns the address of a Service that has no listeners: the one that its status has or the first free one, without those
// on which other processes, such as the control plane of another folder, listen on its ports. It is "" if all are taken. b.mu is held.
func (b *Balancer) address(ctx context.Context, s *v1.Service) string {
	had, taken := "", map[string]bool{}
	if len(s.Status.LoadBalancer.Ingress) > 0 {
		had = s.Status.LoadBalancer.Ingress[0].IP
	}
	for _, other := range b.served {
		taken[other.ip] = true
	}
	first := pick(had, taken)
	for ip, tries := first, 0; ip != "" && tries < mostTries && wholeLoopback; tries++ {
		if !inUse(ctx, ip, s) {
			return ip
		}
		taken[ip] = true
		ip = pick("", taken)
	}
	return first
}

// inUse reports whether another process listens on a port of a Service at an address.
func inUse(ctx context.Context, ip string, s *v1.Service) bool {
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.Protocol != "" && p.Protocol != v1.ProtocolTCP {
			continue
		}
		for _, port := range []int32{p.Port, p.NodePort} {
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(int(port)))) // 0 is any
			if err == nil {
				_ = l.Close()
			}
			if errors.Is(err, syscall.EADDRINUSE) {
				return true
			}
		}
	}
	return false
}

// ours reports whether an address is one that pick returns.
func ours(a netip.Addr) bool {
	if !a.Is4() {
		return false
	}
	b := a.As4()
	return b[0] == 127 && b[1] == 66 && b[3] != 0 && b[3] != 255
}
