// Package listen opens the addresses at which Berth's processes serve metrics and
// health, and serves them there until told to stop. It does not know what is served.
package listen

import (
	"fmt"
	"net"
	"strings"
)

// Plain before an address asks for HTTP without TLS.
const Plain = "http://"

// On opens host:port for metrics and health; "" is none, and gives nil. With Plain
// before it, it is for HTTP without TLS: then only an address of this machine alone
// is accepted, because clients are not authenticated.
func On(addr string) (l net.Listener, plain bool, err error) {
	if addr == "" {
		return nil, false, nil
	}
	addr, plain = strings.CutPrefix(addr, Plain)
	if plain {
		host, _, err := net.SplitHostPort(addr)
		if err != nil || !Local(host) {
			return nil, false, fmt.Errorf("metrics address %s%s: without TLS it must be a loopback address such as %s127.0.0.1:10259", Plain, addr, Plain)
		}
	}
	if l, err = net.Listen("tcp", addr); err != nil {
		return nil, false, fmt.Errorf("metrics address: %w; choose another or \"\" for none", err)
	}
	return l, plain, nil
}

// Local reports whether a host, an address or localhost, is this machine alone.
func Local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
