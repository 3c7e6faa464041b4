package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth.dev/berth/internal/datadir"
)

// damages are what keeps each part of the control plane from starting: what is done
// to a folder that is laid out, before anything runs in it.
var damages = []struct {
	name, part string
	do         func(o *Options, dir datadir.Dir) error
	want       string // in the error
}{
	{"the socket of the simulated network cannot be made", "egress", func(_ *Options, dir datadir.Dir) error {
		return os.MkdirAll(dir.Join("egress.sock", "in-the-way"), 0o700)
	}, "listen for the simulated network"},
	{"the store cannot be opened", "store", func(_ *Options, dir datadir.Dir) error {
		return os.WriteFile(dir.Join("etcd"), nil, 0o600)
	}, "start the store in "},
	{"the API server has no key", "api", func(_ *Options, dir datadir.Dir) error {
		return os.Remove(dir.Join("pki", "apiserver.key"))
	}, "kube-apiserver: "},
	{"the controller manager has no kubeconfig", "manager", func(_ *Options, dir datadir.Dir) error {
		return os.Remove(dir.Join("run", "controller-manager.kubeconfig"))
	}, "configure kube-controller-manager: "},
	{"the scheduler has a configuration that it does not take", "scheduler", func(_ *Options, dir datadir.Dir) error {
		return os.WriteFile(dir.Join("run", "scheduler.yaml"), []byte("kind: Nonsense\n"), 0o600)
	}, "configure kube-scheduler: "},
	{"so has one that starts later", "held", func(o *Options, dir datadir.Dir) error {
		return os.WriteFile(dir.Join("run", "scheduler.yaml"), []byte("kind: Nonsense\n"), 0o600)
	}, "kube-scheduler ended: configure kube-scheduler: "},
}

// damageVariable names the damage in the environment of the process that
// TestAPartThatDoesNotStartEndsBerthUp starts, and damageDir its data folder.
const (
	damageVariable = "BERTH_TEST_DAMAGE"
	damageDir      = "BERTH_TEST_DAMAGE_DIR"
)

// TestMain runs a control plane instead of tests where damageVariable says so: one
// process can have one.
func TestMain(m *testing.M) {
	name := os.Getenv(damageVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	for _, d := range damages {
		if d.part == name {
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
			err := runDamaged(ctx, datadir.Dir(os.Getenv(damageDir)), d.part, d.do)
			stop()
			fmt.Println(err)
			os.Exit(3)
		}
	}
	os.Exit(4)
}

func runDamaged(ctx context.Context, dir datadir.Dir, part string, do func(*Options, datadir.Dir) error) error {
	o := Options{Dir: dir, Fleet: "lab", Began: time.Now()}
	if part == "held" {
		o.HoldScheduler = dir.Join("held")
	}
	var damage error
	o.Laid = func() { damage = do(&o, dir) }
	err := Run(ctx, o)
	return errors.Join(damage, err)
}

// A part that does not start ends `berth up` with its error. It once waited forever
// for parts that nobody had told to stop.
func TestAPartThatDoesNotStartEndsBerthUp(t *testing.T) {
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "berth") //nolint:usetesting // a short path: sockets are in it
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(dir) }()
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // it takes seconds, on a machine with nothing else to do
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(os.Environ(), damageVariable+"="+d.part, damageDir+"="+dir)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			began := time.Now()
			err = cmd.Run()
			if ctx.Err() != nil {
				t.Fatalf("it had not ended after %v:\n%s", time.Since(began), out.String())
			}
			if cmd.ProcessState.ExitCode() != 3 || !strings.Contains(out.String(), d.want) {
				t.Errorf("it ended with %v, and said\n%s\nwant %q in it", err, out.String(), d.want)
			}
			t.Logf("after %v: %s", time.Since(began).Round(10*time.Millisecond), out.String())
		})
	}
}

func TestChooseKubernetes(t *testing.T) {
	for _, tt := range []struct{ name, asked, had, want string }{
		{"a new folder has the program's own", "", "", ""},
		{"an older one is kept", "", "1.33", "1.33"},
		{"what is asked for wins", "1.34", "1.33", "1.34"},
		{"the newest is the program's own, and follows it", "1.36", "1.33", ""},
		{"one that is not served is refused", "1.32", "", "Kubernetes 1.32 is not supported: must be one of 1.33, 1.34, 1.35, 1.36; set --kubernetes-version"},
		{"so is one that the folder had and that is no longer served", "", "1.20", "Kubernetes 1.20 is not supported: must be one of 1.33, 1.34, 1.35, 1.36; set --kubernetes-version"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := chooseKubernetes(tt.asked, tt.had)
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
