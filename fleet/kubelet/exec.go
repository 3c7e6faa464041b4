package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	exitcode "k8s.io/client-go/util/exec"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"berth.dev/berth/fleet/kubelet/shell"
)

// idleTimeout ends a stream on which nothing moved, as the kubelet's
// --streaming-connection-idle-timeout does by default.
const idleTimeout = 4 * time.Hour

// serveExec is /exec/{namespace}/{pod}/{container}?command=...
func (s *Server) serveExec(w http.ResponseWriter, r *http.Request, node string) {
	c, o, ok := s.streamTarget(w, r, node)
	if !ok {
		return
	}
	left := newLeftWatch(r.Context(), w)
	defer left.cancel()
	remotecommand.ServeExec(left, r.WithContext(left.ctx), executor{s, c}, c.Pod, c.UID, c.Name, r.URL.Query()["command"],
		o, idleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// serveAttach is /attach/{namespace}/{pod}/{container}.
func (s *Server) serveAttach(w http.ResponseWriter, r *http.Request, node string) {
	c, o, ok := s.streamTarget(w, r, node)
	if !ok {
		return
	}
	left := newLeftWatch(r.Context(), w)
	defer left.cancel()
	remotecommand.ServeAttach(left, r.WithContext(left.ctx), executor{s, c}, c.Pod, c.UID, c.Name,
		o, idleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// streamTarget finds the running container that a request names, and which
// streams are wanted; else it answers as a kubelet does.
func (s *Server) streamTarget(w http.ResponseWriter, r *http.Request, node string) (Container, *remotecommand.Options, bool) {
	o, err := remotecommand.NewOptions(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return Container{}, nil, false
	}
	ns, pod, name := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	c, podFound, found := s.find(node, ns, pod, name)
	switch {
	case !podFound:
		refuse(w, http.StatusNotFound, "pod does not exist")
	case !found || c.State != StateRunning:
		refuse(w, http.StatusInternalServerError, "container not found (%q)", name)
	default:
		return c, o, true
	}
	return Container{}, nil, false
}

// executor runs commands in one container.
type executor struct {
	s *Server
	c Container
}

// ExecInContainer runs cmd with the streams that are not nil. A code other
// than 0 comes back as an error that carries it to the client.
func (e executor) ExecInContainer(ctx context.Context, _, _, _ string, cmd []string, in io.Reader, stdout, stderr io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if len(cmd) == 0 {
		return fmt.Errorf("no command given")
	}
	m := Machine(e.s.rt, e.c, e.s.now)
	code := 0
	switch {
	case tty && in != nil && shell.Interactive(cmd):
		code = shell.Interact(ctx, m, in, writer(stdout), sizes(ctx, resize))
	case tty:
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		sizes(ctx, resize)
		if in != nil {
			in = shell.Interruptible(in, cancel)
		}
		out := &crlf{w: writer(stdout)}
		code = shell.Run(ctx, m, cmd, in, out, out)
	default:
		code = shell.Run(ctx, m, cmd, in, writer(stdout), writer(stderr))
	}
	if code != 0 {
		return exitcode.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", code), Code: code}
	}
	return nil
}

// AttachContainer shows what the container prints from now on, until its
// instance ends. A container whose process is a shell can be typed into; it
// ends when that exits.
func (e executor) AttachContainer(ctx context.Context, _, _, _ string, in io.Reader, stdout, stderr io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	if in != nil && e.c.Shell {
		e.typeInto(ctx, in, stdout, stderr, tty, resize)
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sizes(ctx, resize)
	out := writer(stdout)
	if tty {
		out = &crlf{w: out}
		if in != nil {
			shell.Interruptible(in, cancel)
		}
	}
	log := &logWriter{w: out, left: -1, flush: func() {}}
	e.s.follow(ctx, e.c, log, cursorAt(printed(e.c.Lines, e.s.now())))
	return nil
}

// typeInto runs the container's shell. A client that goes away leaves it as it
// is.
func (e executor) typeInto(ctx context.Context, in io.Reader, stdout, stderr io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) {
	m, code := Machine(e.s.rt, e.c, e.s.now), 0
	if tty {
		code = shell.Interact(ctx, m, in, writer(stdout), sizes(ctx, resize))
	} else {
		code = shell.Run(ctx, m, []string{"sh"}, in, writer(stdout), writer(stderr))
	}
	if x, ok := e.s.rt.(Exiter); ok && ctx.Err() == nil {
		x.Exit(e.c.Node, e.c.UID, e.c.Name, e.c.RestartCount, code)
	}
}

// writer is w, or what swallows all where the stream was not asked for.
func writer(w io.WriteCloser) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// sizes passes on the terminal's sizes until ctx ends, and drops those that
// no client takes.
func sizes(ctx context.Context, in <-chan remotecommand.TerminalSize) <-chan shell.Size {
	out := make(chan shell.Size, 1)
	if in == nil {
		return out
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case size, ok := <-in:
				if !ok {
					return
				}
				select {
				case out <- shell.Size{Width: int(size.Width), Height: int(size.Height)}:
				default:
				}
			}
		}
	}()
	return out
}

// crlf writes "\r\n" for "\n", as a terminal in raw mode needs it.
type crlf struct {
	mu sync.Mutex
	w  io.Writer
}

// Write writes b; the count is in bytes of b.
func (c *crlf) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.w.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(b), nil
}
