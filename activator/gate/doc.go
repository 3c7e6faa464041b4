// Package gate lets requests for one service through to its backends, and holds them,
// oldest first, while no backend has room. It knows nothing of HTTP: a request is a
// number of bytes that are kept for it, and a backend an address.
package gate
