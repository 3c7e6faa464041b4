package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// errTaken says that a process which lives serves the socket that we want.
var errTaken = errors.New("a running process serves this socket")

// errNoFolder says that the folder of the sockets was removed. Where it is
// mounted into a container, the one that the kubelet makes in its place is
// never seen there.
var errNoFolder = errors.New("was removed: restart the node agent, which then gets the kubelet's new directory")

// socketNames are the socket names of a resource: ours, and the one that
// NVIDIA's plugin uses. nvidia.com/mig-1g.10gb has berth-nvidia-mig-1g.10gb.sock
// and nvidia-mig-1g.10gb.sock.
func socketNames(prefix, resource string) (ours, nvidia string) {
	domain, name, ok := strings.Cut(resource, "/")
	if !ok {
		domain, name = "", resource
	}
	if domain == "" || domain == "nvidia.com" {
		domain = "nvidia"
	}
	nvidia = domain + "-" + strings.ReplaceAll(name, "/", "-") + ".sock"
	return prefix + nvidia, nvidia
}

// socket is a listener and the file that it made, by which to know the file
// again: another process may put its own in its place.
type socket struct {
	net.Listener
	path string
	made os.FileInfo
}

// listen makes the socket at path. One that no process serves is replaced: it is
// what a killed agent left.
func listen(path string) (*socket, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&fs.ModeSocket == 0 {
			return nil, fmt.Errorf("%s exists but is not a socket: remove it", path)
		}
		if served(path) {
			return nil, fmt.Errorf("%s: %w", path, errTaken)
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove an unused socket: %w", err)
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return nil, fmt.Errorf("no space for a socket: free some on the file system of %s: %w", filepath.Dir(path), err)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EROFS):
		return nil, fmt.Errorf("cannot create a socket: the agent must run as root with %s mounted writable: %w", filepath.Dir(path), err)
	case errors.Is(err, syscall.EINVAL):
		return nil, fmt.Errorf("cannot create a socket: its path can have 107 characters at most, this one has %d: %w", len(path), err)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s %w", filepath.Dir(path), errNoFolder)
	case err != nil:
		return nil, err
	}
	l.SetUnlinkOnClose(false)   // by then the file may be another's
	err = os.Chmod(path, 0o600) // whatever the umask; the kubelet is root
	var made os.FileInfo
	if err == nil {
		made, err = os.Lstat(path)
	}
	if err != nil {
		_ = l.Close() // no client has connected
		return nil, fmt.Errorf("the socket was removed at once: %w", err)
	}
	return &socket{Listener: l, path: path, made: made}, nil
}

// intact reports whether the file is still the one that was made.
func (s *socket) intact() bool {
	info, err := os.Lstat(s.path)
	return err == nil && sameFile(info, s.made)
}

// remove removes the file if it is still the one that was made.
func (s *socket) remove() {
	if s.intact() {
		_ = os.Remove(s.path) // a kubelet that starts now may have been first
	}
}

// sameFile is os.SameFile for file systems that give the number of a removed
// file to the next one.
func sameFile(a, b os.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}

// served reports whether a process accepts connections at path.
func served(path string) bool {
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(context.Background(), "unix", path)
	if err != nil {
		return errors.Is(err, syscall.EAGAIN) // its queue is full: it lives
	}
	_ = conn.Close() // nothing was said
	return true
}

// removeStale removes the sockets of our prefix that no process serves.
func removeStale(dir, prefix string) error {
	names, err := filepath.Glob(filepath.Join(dir, prefix+"*.sock"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if info, err := os.Lstat(name); err != nil || info.Mode()&fs.ModeSocket == 0 || served(name) {
			continue
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an unused socket: %w", err)
		}
	}
	return nil
}

// dial returns a connection to the gRPC server at a unix socket. It is opened by
// the first call, or by Connect, and never closed for being idle.
func dial(path string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+filepath.Base(path),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithIdleTimeout(0),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}))
}
