package gate

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// Foreign says why a request to a port of this machine's loopback addresses is not one of
// its own pages, of a person who typed its address, or of a program on this machine; "" is that
// it may be. A page of another origin is known by its name in Host, where its owner lets that name
// lead to this machine, and by what browsers say of the page that a request is from. what is what
// the port leads to, "notebook", and command the one that opens it: "berth notebook open NAME".
func Foreign(r *http.Request, port int, what, command string) string {
	if !own(r.Host, port) {
		return fmt.Sprintf("this address is localhost:%d, but the request is for %q; if you forward the port, use the same number on both sides: `%s --port %d` sets it",
			port, r.Host, command, port)
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if strings.EqualFold(origin, "http://"+r.Host) {
			return ""
		}
		return fmt.Sprintf("a page of %q cannot use this %s; open the %s's own address", origin, what, what)
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
		return ""
	default:
		if navigates(r) {
			return ""
		}
		return fmt.Sprintf("a page of another origin (%s) cannot use this %s; open the %s's own address", site, what, what)
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
