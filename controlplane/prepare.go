package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"berth.dev/berth/fleet/host"
	"berth.dev/berth/fleet/spec"
	"berth.dev/berth/internal/buildinfo"
	"berth.dev/berth/internal/datadir"
	"berth.dev/berth/internal/pause"
)

// minFree is the least free space a start needs: etcd sets 64 MB aside for its
// log at once, twice.
const minFree = 256 << 20

// prepare checks everything that can be checked before anything is started,
// writes the marker first, and then certificates and configuration. Nothing is
// written to a folder that is refused.
func prepare(o Options) (*plane, error) {
	p := &plane{Options: o, stepBegan: o.Began}
	var err error
	if p.hostRules, err = host.ParseRules(o.HostProcesses); err != nil {
		return nil, err
	}
	if err := host.CheckPass(o.HostEnv); err != nil {
		return nil, err
	}
	for _, r := range p.hostRules {
		if err := r.Check(); err != nil {
			return nil, err
		}
	}
	state, err := o.Dir.State()
	fresh := errors.Is(err, fs.ErrNotExist)
	if err != nil && !fresh {
		return nil, err
	}
	if err := checkSpace(o.Dir); err != nil {
		return nil, err
	}
	if p.spec, state.Fleet, err = chooseFleet(o, state, fresh); err != nil {
		return nil, err
	}
	if state.Scheduler, err = chooseScheduler(o.Scheduler, state.Scheduler, fresh); err != nil {
		return nil, err
	}
	if state.Kubernetes, err = chooseKubernetes(o.Kubernetes, state.Kubernetes); err != nil {
		return nil, err
	}
	if state.Training, err = chooseMode("training", o.Training, state.Training); err != nil {
		return nil, err
	}
	if state.Serving, err = chooseMode("serving", o.Serving, state.Serving); err != nil {
		return nil, err
	}
	if state.Notebooks, err = chooseMode("notebooks", o.Notebooks, state.Notebooks); err != nil {
		return nil, err
	}
	if p.listener, err = choosePort(o.Port, state.Port); err != nil {
		return nil, err
	}
	state.Port = p.listener.Addr().(*net.TCPAddr).Port
	state.Version, state.PID, state.Started = buildinfo.Version, os.Getpid(), o.Began.UTC()
	state.Server = fmt.Sprintf("https://127.0.0.1:%d", state.Port)
	state.Ready, state.Seconds = false, 0
	state.HostProcesses = o.HostProcesses
	p.state = state
	if err := o.Dir.WriteState(state); err != nil {
		return nil, err
	}
	return p, p.lay()
}

// checkSpace refuses a folder that cannot be written or a disk that is full.
func checkSpace(dir datadir.Dir) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(string(dir), &st); err != nil {
		return fmt.Errorf("data folder %s: %w", dir, err)
	}
	if free := int64(st.Bavail) * int64(st.Bsize); free < minFree { //nolint:unconvert // other systems have other types
		return fmt.Errorf("data folder %s: its disk has %d MB free, but %d MB are needed; free some space, or choose another --dir",
			dir, free>>20, minFree>>20)
	}
	f, err := os.CreateTemp(string(dir), "state.json.*")
	if err != nil {
		return fmt.Errorf("data folder %s is not writable: %w; choose another --dir", dir, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// chooseFleet loads the fleet. A folder keeps the fleet it was made with: a
// fleet file is copied into it, and another fleet is refused.
func chooseFleet(o Options, state datadir.State, fresh bool) (spec.Fleet, string, error) {
	kept := o.Dir.Fleet()
	if !fresh && o.Dir.KeepsFleet(&state, o.Fleet) {
		arg := state.Fleet
		if _, err := os.Stat(kept); err == nil {
			arg = kept
		}
		f, err := spec.Load(arg)
		return f, state.Fleet, err
	}
	arg := o.Fleet
	if arg == "" {
		arg = "default"
	}
	f, err := spec.Load(arg)
	if err != nil {
		return f, "", err
	}
	if !fresh {
		return f, "", fmt.Errorf("data folder %s was created with fleet %s and keeps it: omit --fleet, "+
			"choose another --dir, or remove the folder with `berth down --purge`", o.Dir.Short(), state.Fleet)
	}
	raw, readErr := os.ReadFile(arg) // built-in fleets are not files
	if readErr == nil {
		if err := datadir.WriteFile(kept, raw, 0o600); err != nil {
			return f, "", err
		}
	}
	return f, arg, nil
}

// lay makes certificates, configuration files and the log.
func (p *plane) lay() error {
	for _, d := range []string{"log", "run"} {
		if err := os.MkdirAll(p.Dir.Join(d), 0o700); err != nil {
			return fmt.Errorf("data folder: %w", err)
		}
	}
	var err error
	if p.logs, err = openLog(p.Dir.Join("log", "berth.log")); err != nil {
		return err
	}
	p.log = slog.New(slog.NewTextHandler(p.logs, nil))
	if err := settleKeys(p.Dir, p.NewKeys); err != nil {
		return fmt.Errorf("keys in %s: %w", p.Dir.Join("pki"), err)
	}
	if p.certs, err = issue(p.Dir, time.Now()); err != nil {
		return fmt.Errorf("certificates in %s: %w", p.Dir.Join("pki"), err)
	}
	if p.socks, p.removeSocks, err = sockets(p.Dir); err != nil {
		return err
	}
	run := p.Dir.Join("run")
	return errors.Join(
		writeEgress(run+"/egress.yaml", p.socks+"/egress.sock"),
		os.WriteFile(run+"/scheduler.yaml", []byte(schedulerConfig(run+"/scheduler.kubeconfig", p.state.Scheduler, p.OtherPods, p.ReserveAfter)), 0o600),
		p.writeKubeconfig(run+"/scheduler.kubeconfig", p.certs.user(schedulerFile)),
		p.writeKubeconfig(run+"/controller-manager.kubeconfig", p.certs.user(managerFile)),
		p.writeKubeconfig(p.Dir.Kubeconfig(), p.certs.owner()))
}

// fleetConfig is the fleet's own identity, which has just the rights of
// fleetRules.
func (p *plane) fleetConfig() *rest.Config { return p.clientConfig(fleetFile) }

// clientConfig is a client of the API server whose certificate is in a file of
// DIR/pki; it follows the file.
func (p *plane) clientConfig(file string) *rest.Config {
	return &rest.Config{Host: p.state.Server, TLSClientConfig: rest.TLSClientConfig{
		CAData: p.certs.ca.pem, CertFile: p.certs.path(file + ".crt"), KeyFile: p.certs.path(file + ".key"),
	}}
}

// awaitAccounts waits for the default ServiceAccount: from then on the
// controllers run and pods can be made.
func awaitAccounts(ctx context.Context, client kubernetes.Interface) error {
	for {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		if !pause.For(ctx, 15*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}
