package gate

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// foreign says why a request is not one of the gate's own pages, of a person who
// typed its address, or of a program on this machine; "" is that it may be. A page
// of another origin is known by its name in Host, where its owner lets that name lead
// to this machine, and by what browsers say of the page that a request is from.
func foreign(r *http.Request, port int) string {
	if !own(r.Host, port) {
		return fmt.Sprintf("this address is localhost:%d, but the request is for %q; if you forward the port, use the same number on both sides: `berth notebook open NAME --port %d` sets it",
			port, r.Host, port)
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if strings.EqualFold(origin, "http://"+r.Host) {
			return ""
		}
		return fmt.Sprintf("a page of %q cannot use this notebook; open the notebook's own address", origin)
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
		return ""
	default:
		if navigates(r) {
			return ""
		}
		return fmt.Sprintf("a page of another origin (%s) cannot use this notebook; open the notebook's own address", site)
	}
}

// own reports whether host is a name of this machine's loopback, with the port.
func own(host string, port int) bool {
	name, at, err := net.SplitHostPort(host)
	if err != nil {
		name, at = strings.Trim(host, "[]"), "80"
	}
	switch strings.ToLower(name) {
	case "localhost", "127.0.0.1", "::1":
		return at == strconv.Itoa(port)
	}
	return false
}

// navigates reports whether a browser goes to the address as a separate page, as by a
// link: then the page that had the link sees nothing of it.
func navigates(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Upgrade") == "" &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}
