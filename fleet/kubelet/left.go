package kubelet

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// leftWatch is a ResponseWriter whose ctx ends when the client of a hijacked
// connection is gone. A request's own context does not, and a command such as
// watch would run on.
type leftWatch struct {
	http.ResponseWriter
	ctx    context.Context //nolint:containedctx // it lives as long as the request
	cancel context.CancelFunc
}

func newLeftWatch(ctx context.Context, w http.ResponseWriter) *leftWatch {
	ctx, cancel := context.WithCancel(ctx)
	return &leftWatch{ResponseWriter: w, ctx: ctx, cancel: cancel}
}

// Hijack takes over the connection and watches what is read from it.
func (l *leftWatch) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(l.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, err := rw.Peek(rw.Reader.Buffered())
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	watched := &watchedConn{Conn: conn, gone: l.cancel}
	r := bufio.NewReader(io.MultiReader(bytes.NewReader(bytes.Clone(early)), watched))
	return watched, bufio.NewReadWriter(r, bufio.NewWriter(watched)), nil
}

// watchedConn calls gone when either side has closed. SPDY may say goodbye in a
// frame of its own: then it is our side that closes.
type watchedConn struct {
	net.Conn
	gone func()
}

// Read reads, and calls gone at the first error.
func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.gone()
	}
	return n, err
}

// linger bounds how long a closed connection waits for its client to close too: as
// long as a client may need that has much to do, or is held up.
const linger = 30 * time.Second

// Close ends what is written, reads until the client has closed or linger is
// over, closes the connection and calls gone. A connection that is closed while
// something the client sent lies unread is reset, and the client may lose what
// it had not read yet: the exit code of a shell, most often, since that comes
// last.
func (c *watchedConn) Close() error {
	c.gone()
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if ok && half.CloseWrite() == nil && c.SetReadDeadline(time.Now().Add(linger)) == nil {
		_, _ = io.Copy(io.Discard, c.Conn)
	}
	return c.Conn.Close()
}
