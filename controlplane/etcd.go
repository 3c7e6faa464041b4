package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"berth.dev/berth/internal/datadir"
)

// maxSocketPath is the longest path of a unix socket, less what etcd's peer
// socket adds to the client's (sun_path is 108 bytes with its final zero on
// Linux, 104 on macOS).
const maxSocketPath = 103 - len("-peer")

// sockets is the folder for unix sockets, which others cannot enter: the data folder
// itself, or a new one when its path is too long for a socket address. remove ends it.
func sockets(dir datadir.Dir) (path string, remove func(), err error) {
	if len(dir.Join("egress.sock")) <= maxSocketPath {
		return string(dir), func() {}, nil
	}
	if err := datadir.CheckParent(os.TempDir(), "the folder for sockets"); err != nil {
		return "", nil, fmt.Errorf("%w; or set TMPDIR to a folder that belongs to you", err)
	}
	tmp, err := os.MkdirTemp("", "berth-")
	if err != nil {
		return "", nil, fmt.Errorf("create a folder for sockets: %w", err)
	}
	return tmp, func() { _ = os.RemoveAll(tmp) }, nil // what could stay is dead sockets
}

// socketMode is that of a unix socket: who can connect to one decides nothing else
// here. The folder around it is closed already, whatever the umask makes of a new
// socket; umask itself is every thread's and every child's, and stays as it is.
const socketMode = 0o600

// startStore starts etcd on a unix socket in folder socks, with its data under
// dir/etcd, and returns its client URL. It returns an error, and ends etcd, when
// ctx ends first. fsync stays on: what was acknowledged survives a power cut.
func startStore(ctx context.Context, dir datadir.Dir, socks string) (*embed.Etcd, string, error) {
	log, err := storeLog(dir.Join("log", "etcd.log"))
	if err != nil {
		return nil, "", err
	}
	// etcd dials neither of these: clients use the socket, and there is no peer.
	nowhere := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	sock := socks + "/etcd.sock"
	cfg := embed.NewConfig()
	cfg.Name = "berth"
	cfg.Dir = dir.Join("etcd")
	cfg.ListenClientUrls = []url.URL{{Scheme: "unix", Path: sock}}
	// Of this one etcd takes the host alone. Without it the kernel would choose an
	// abstract name, and to that every account of the machine can connect.
	cfg.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: sock + "-peer"}}
	cfg.AdvertiseClientUrls = []url.URL{nowhere}
	cfg.AdvertisePeerUrls = []url.URL{nowhere}
	cfg.InitialCluster = cfg.Name + "=" + nowhere.String()
	cfg.QuotaBackendBytes = 4 << 30
	cfg.WarningUnaryRequestDuration = time.Second
	cfg.TickMs, cfg.ElectionMs = tickMs, startTicks*tickMs
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)

	err = checkStore(cfg.Dir)
	var e *embed.Etcd
	if err == nil {
		e, err = startEtcd(cfg)
	}
	if err == nil {
		err = closeSockets(e, sock, sock+"-peer")
	}
	if err != nil {
		return nil, "", fmt.Errorf("start the store in %s: %w; details in %s; if the store is damaged, "+
			"`berth down --purge` removes the folder and `berth up` starts an empty one", cfg.Dir, err, dir.Join("log", "etcd.log"))
	}
	select {
	case <-e.Server.ReadyNotify():
		e.Server.Cfg.ElectionTicks = patientTicks // the election is over, and requests come from now on
		return e, "unix://" + sock, nil
	case err = <-e.Err():
	case <-e.Server.StopNotify():
		err = errStoreStopped
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(startPatience):
		err = fmt.Errorf("not ready after %v", startPatience)
	}
	e.Close()
	return nil, "", fmt.Errorf("start the store in %s: %w", cfg.Dir, err)
}

// etcd refuses a request that waits for longer than five seconds and twice the
// election timeout, which no machine keeps that stands still for a while. With this
// timeout, which counts for nothing else once the one member leads, it waits as long
// as the API server does: a minute. A store that is closed goes back to the first
// one, since it waits as long for its clients.
const (
	tickMs       = 20
	startTicks   = 10 // to elect the one member: there is nothing to wait for
	patientTicks = 55_000 / 2 / tickMs
)

// closeSockets lets this account alone connect to a store that has begun to listen,
// or ends it.
func closeSockets(e *embed.Etcd, socks ...string) error {
	for _, sock := range socks {
		if err := os.Chmod(sock, socketMode); err != nil {
			e.Close()
			return fmt.Errorf("restrict access to the store: %w", err)
		}
	}
	return nil
}

// errStoreStopped is why a store has ended that did not say.
var errStoreStopped = errors.New("the store stopped unexpectedly")

// awaitStore returns when a store has ended, with why, or ctx has.
func awaitStore(ctx context.Context, e *embed.Etcd) error {
	select {
	case err := <-e.Err():
		return err
	case <-e.Server.StopNotify():
		return errStoreStopped
	case <-ctx.Done():
		return nil
	}
}

// closeStore ends a store that startStore has started.
func closeStore(e *embed.Etcd) {
	e.Server.Cfg.ElectionTicks = startTicks
	e.Close()
}

// startEtcd turns what etcd says by panicking (a damaged file) into an error.
func startEtcd(cfg *embed.Config) (e *embed.Etcd, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return embed.StartEtcd(cfg)
}

// storeLog writes etcd's warnings and errors to a file. Where etcd would end
// the process at once, the log panics instead, so Berth can say why.
func storeLog(path string) (*zap.Logger, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.AddSync(f), zap.WarnLevel)
	return zap.New(core, zap.WithFatalHook(zapcore.WriteThenPanic)), nil
}
