package activator

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"berth.dev/berth/activator/proxy"
)

// connectBy connects by an HTTP proxy, which is at host:port or at the path of a Unix socket.
//
// Source: RFC 9110, section 9.3.6.
func connectBy(through string) proxy.Dial {
	network := "tcp"
	if strings.HasPrefix(through, "/") {
		network = "unix"
	}
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, through)
		if err != nil {
			return nil, err
		}
		if err := connect(ctx, c, address); err != nil {
			c.Close()
			return nil, err
		}
		return c, nil
	}
}

// connect asks a proxy to lead a connection to an address.
func connect(ctx context.Context, c net.Conn, address string) error {
	if end, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(end)
		defer func() { _ = c.SetDeadline(time.Time{}) }()
	}
	ask := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if err := ask.Write(c); err != nil {
		return err
	}
	in := bufio.NewReaderSize(onlyHead{c}, 1)
	resp, err := http.ReadResponse(in, ask) //nolint:bodyclose // a connection follows the head, or else the caller closes it
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("connect to %s: the proxy answers %s", address, resp.Status)
	}
	return nil
}

// onlyHead reads one byte at a time, so nothing after the head of an answer is taken.
type onlyHead struct{ net.Conn }

// Read reads a byte.
func (o onlyHead) Read(p []byte) (int, error) { return o.Conn.Read(p[:min(1, len(p))]) }
