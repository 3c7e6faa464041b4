package balancer

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// dialTime is how long connecting to a pod may take.
const dialTime = 20 * time.Second

// accept forwards the connections of a listener to an address of the cluster, until
// it is closed. ctx ends the connections too.
func (b *Balancer) accept(ctx context.Context, l net.Listener, to string) {
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			b.log.Error("accept a connection to a Service", "address", l.Addr(), "err", err)
			select { // out of file descriptors: wait for some to close
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		b.conns.Go(func() { b.forward(ctx, c, to) })
	}
}

// forward connects c with an address of the cluster until either side ends, or ctx.
func (b *Balancer) forward(ctx context.Context, c net.Conn, to string) {
	defer c.Close()
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	pod, err := b.dial(dialing, to)
	cancel()
	if err != nil {
		b.log.Debug("no pod for a connection to a Service", "to", to, "err", err)
		return
	}
	defer pod.Close()
	defer context.AfterFunc(ctx, func() {
		c.Close()
		pod.Close()
	})()
	Join(c, pod)
}

// Join copies both ways between two connections until either side ends, and closes both.
func Join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, p := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(p[0], p[1]) // either side may end it
			p[0].Close()
			p[1].Close()
		})
	}
	both.Wait()
}
