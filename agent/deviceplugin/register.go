package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// errAway says that there is no kubelet now. One that starts makes its socket
// again, which ends the waiting at once.
var errAway = errors.New("the kubelet cannot be reached")

// longer returns the next delay after a failure.
func (p *plugin) longer() time.Duration {
	p.delay = min(max(2*p.delay, p.opts.times.first), p.opts.times.most)
	return p.delay
}

// fail logs why the resource is not registered, once for each reason, and has
// it tried again.
func (p *plugin) fail(err error) {
	p.opts.Counters.RegistrationFailures.Add(1)
	if text := err.Error(); text != p.said {
		p.said = text
		level := slog.LevelWarn
		if errors.Is(err, errAway) {
			level = slog.LevelInfo // kubelets restart
		}
		p.opts.Log.Log(context.Background(), level, "resource is not registered with the kubelet; trying again", "resource", p.resource, "err", err)
	}
	p.ensureAt = time.Now().Add(p.longer())
}

// ensure makes true what should be: our socket is there, and the kubelet
// either reads our list or has just been asked to.
func (p *plugin) ensure(ctx context.Context) {
	if p.foreign != nil || !p.isOffered() {
		return
	}
	_, absent := os.Lstat(p.theirs) // before the look: one that is made after it is new
	if p.yield(ctx) {
		return
	}
	if p.server == nil {
		p.server = p.newServer()
	}
	err := p.server.listen(p.path)
	if errors.Is(err, errTaken) {
		if f := lookAt(ctx, p.path, p.foreignGone); f != nil {
			p.standBack(f, fmt.Sprintf("another node agent of Berth serves %s at %s: run only one on a node", p.resource, p.path))
			return
		}
	}
	if errors.Is(err, errNoFolder) {
		p.end(err) // inotify does not say so while a socket of ours was in it
		return
	}
	if err != nil {
		p.fail(err)
		return
	}
	if p.server.live() > 0 || !p.confirmAt.IsZero() {
		return // only the socket was missing
	}
	p.begun, p.stale = p.server.begun(), absent == nil
	if err := p.register(ctx); err != nil {
		p.fail(err)
		return
	}
	p.opts.Counters.Registrations.Add(1)
	p.opts.Log.Info("registered with the kubelet", "resource", p.resource)
	if p.server.begun() == p.begun {
		p.confirmAt = time.Now().Add(p.opts.times.confirm)
	}
}

func (p *plugin) kubeletSocket() string { return filepath.Join(p.opts.Dir, "kubelet.sock") }

// register tells the kubelet of our socket. The kubelet answers after it has
// connected to it.
//
// A kubelet that starts removes all sockets first and listens then. So only who
// is connected to it knows that a socket made now stays.
func (p *plugin) register(ctx context.Context) error {
	path := p.kubeletSocket()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := p.connect(ctx, path)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the answer has come
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	if err := p.server.listen(p.path); err != nil {
		return err
	}
	_, err = v1beta1.NewRegistrationClient(conn).Register(ctx, &v1beta1.RegisterRequest{
		Version: v1beta1.Version, Endpoint: filepath.Base(p.path), ResourceName: p.resource, Options: callOptions(),
	})
	if status.Code(err) == codes.Unavailable {
		return fmt.Errorf("%w: it exited while the resource was being registered", errAway)
	}
	if err != nil {
		return fmt.Errorf("register with the kubelet: %s", status.Convert(err).Message())
	}
	p.kubelet, p.since = info, time.Now()
	p.strikes, p.settleAt = 0, time.Time{} // what the checkpoint held before is of no account
	return nil
}

// connect returns a connection to the kubelet that is open.
func (p *plugin) connect(ctx context.Context, path string) (*grpc.ClientConn, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no kubelet.sock in %s; either it does not run, or another directory is mounted here", errAway, p.opts.Dir)
	}
	conn, err := dial(path)
	if err != nil {
		return nil, fmt.Errorf("register with the kubelet: %w", err)
	}
	for s := conn.GetState(); s != connectivity.Ready; s = conn.GetState() {
		if s == connectivity.Idle {
			conn.Connect() // also where it was open, and was closed by a kubelet that ended
		}
		if s == connectivity.TransientFailure || !conn.WaitForStateChange(ctx, s) {
			_ = conn.Close() // it never was open
			return nil, fmt.Errorf("%w: nothing answers at its socket %s", errAway, path)
		}
	}
	return conn, nil
}
