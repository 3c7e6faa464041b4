package kubelet

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
)

// HostAddr returns the address on this machine that answers at one port of a
// pod, where a process backs the container that has the port. The port that a process
// is given stands for the first that its container declares, or for any if it
// declares none. Any other port that no container declares is the process's own, if it listens there.
func (s *Server) HostAddr(node, namespace, pod string, port int) (string, bool) {
	all := s.rt.Containers(node, namespace, pod)
	declared := slices.ContainsFunc(all, func(o Container) bool { return slices.Contains(o.Ports, port) })
	for _, c := range all {
		if !c.Hosted || c.HostPort == 0 || c.State != StateRunning {
			continue
		}
		switch {
		case len(c.Ports) > 0 && c.Ports[0] == port, len(c.Ports) == 0 && !declared: // else another container of the pod says that it is its own
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.HostPort)), true
		case !declared && c.Listens != nil && c.Listens(port):
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), true
		}
	}
	return "", false
}

// dialInto joins a stream to an address of this machine until both have said all,
// or the address has closed.
func dialInto(ctx context.Context, address string, stream io.ReadWriteCloser) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("the host process behind this port does not answer: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var in sync.WaitGroup
	in.Go(func() {
		_, _ = io.Copy(conn, stream) // until the client has said all, or has gone
		if c, ok := conn.(*net.TCPConn); ok {
			_ = c.CloseWrite() // the process may still answer
		}
	})
	_, err = io.Copy(stream, conn)
	_ = stream.Close() // ends the other direction, too
	_ = conn.Close()
	in.Wait()
	return err
}
