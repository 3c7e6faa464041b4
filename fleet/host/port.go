package host

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from here, where systems give none to sockets that do not ask
// for one (Linux: 32768 to 60999; RFC 6335: from 49152), and below the NodePorts
// of Kubernetes (from 30000): between the moment at which a port is chosen and that
// at which the process listens, seconds for a Jupyter server, no client gets it by
// chance.
const (
	firstPort = 20000
	manyPorts = 10000
)

// port returns a port of 127.0.0.1 that nothing listens on and no other run was
// promised.
func (r *Runner) port() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var last error
	for range 100 {
		port := firstPort + rand.IntN(manyPorts)
		if r.ports[port] {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("find a free port on 127.0.0.1: %w", err)
		}
		r.ports[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("find a free port on 127.0.0.1 from %d to %d: %w", firstPort, firstPort+manyPorts-1, errors.Join(errors.New("the first 100 are in use"), last))
}

// free takes back the promise of a port.
func (r *Runner) free(port int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ports, port)
}
