// Package cluster is `berth up`, `down`, and `status`: the simulated cluster on this machine,
// its data folder, and its process. Package controlplane runs it.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/process"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/internal/buildinfo"
	"berth.dev/berth/internal/datadir"
)

// UpOptions is what `berth up` was asked for.
type UpOptions struct {
	Dir   datadir.Dir
	Fleet string // lab, default, scale:N or a file; "" is the folder's own, else default
	Port  int    // of the API server; 0 chooses
	Began time.Time
	// Scheduler is "stock", "berth" or "none"; "" is the folder's own, and berth in a new one.
	Scheduler string
	// Kubernetes is the version whose API is served, such as "1.33"; "" is the folder's
	// own, and the newest in a new one.
	Kubernetes string
	// NewKeys makes new keys before anything starts: what was handed out before is
	// worthless then.
	NewKeys bool
	// AutoToleration adds to new pods that request GPUs a toleration of the taint
	// nvidia.com/gpu:NoSchedule.
	AutoToleration bool
	// Notebooks is what Berth does with Notebooks: "own", "govern", "off" or "auto"; ""
	// is the folder's own, and auto in a new one.
	Notebooks string
	// Training is the same for training jobs.
	Training string
	// Serving is the same for InferenceServices.
	Serving string
	process.NodePolicy
	process.UserPolicy
	process.LedgerPolicy
	NoLedger bool // the ledger is left to `berth meter`
	// HoldScheduler, if not empty, is a file: the scheduler starts when it is
	// gone. Benchmarks use it to measure from one moment on.
	HoldScheduler string
	// HostProcesses are rules PATTERN=CMD for containers that run on this machine.
	HostProcesses []string
	// HostEnv names variables that they get beside the usual ones.
	HostEnv []string
	// Laid is called once, when the folder and its log folder exist.
	Laid func()
	// Died is called with the cause, when the process is about to exit.
	Died func(error)
	// Step is called for each finished step of the start; Ready is called once.
	Step  func(name, detail string, took time.Duration)
	Ready func(datadir.State)
}

// UpFunc runs the control plane and the fleet until ctx ends. It returns
// *datadir.HeldError, with nothing touched, when the folder is in use.
type UpFunc func(ctx context.Context, o UpOptions) error

// upCommand is `berth up`.
type upCommand struct {
	out, err io.Writer
	run      UpFunc
	o        UpOptions
	dir      string
	detach   bool
	output   string
}

// NewUp makes `berth up`, which calls run.
func NewUp(o client.Options, run UpFunc) *cobra.Command {
	u := &upCommand{out: o.Out, err: o.Err, run: run}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a Kubernetes control plane with a simulated GPU fleet",
		Long: "Start a real Kubernetes control plane (etcd, API server, controllers, scheduler) in one process, with simulated\n" +
			"GPU nodes. It needs no root, no Docker, and no network, listens on loopback only, and keeps all data in one\n" +
			"folder.",
		Example: "  berth up                       the default fleet: 6 nodes, 34 GPUs\n" +
			"  berth up --fleet lab           gpu-node-1 to 3 with 8 A100, 4 V100, and 2 T4\n" +
			"  berth up --fleet scale:1000    1,000 nodes with 8 GPUs each\n" +
			"  berth up --detach -o json      return when ready, with one JSON object",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return u.main(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&u.dir, "dir", "", "data folder (default $XDG_DATA_HOME/berth/default)")
	f.StringVar(&u.o.Fleet, "fleet", "", "lab, default, scale:N, none, or a fleet file (default: the folder's, else default)")
	f.IntVar(&u.o.Port, "port", 0, "port of the API server on 127.0.0.1 (default: a free one)")
	f.StringVar(&u.o.Scheduler, "scheduler", "", "berth (kube-scheduler with Berth's plugins), stock (without them), or none (default: the folder's last, else berth)")
	f.StringVar(&u.o.Kubernetes, "kubernetes-version", "", "serve the API of this Kubernetes version, from "+versionsSentence()+" (default: the folder's last, else the newest)")
	f.BoolVar(&u.o.AutoToleration, "auto-toleration", false, "add a toleration for nvidia.com/gpu:NoSchedule to new pods that request GPUs")
	f.StringVar(&u.o.Serving, "serving", "", process.ServingUsage+" (default: the folder's last, else auto)")
	f.StringVar(&u.o.Training, "training", "", process.TrainingUsage+" (default: the folder's last, else auto)")
	f.StringVar(&u.o.Notebooks, "notebooks", "", process.NotebooksUsage+" (default: the folder's last, else auto)")
	u.o.NodePolicy.AddFlags(f)
	u.o.UserPolicy.AddFlags(f)
	u.o.LedgerPolicy.AddFlags(f)
	f.BoolVar(&u.o.NoLedger, "no-ledger", false, "keep no ledger: leave it to berth meter")
	f.StringArrayVar(&u.o.HostProcesses, "host-process", nil, "PATTERN=CMD: run CMD on this machine, as your user, for containers whose image matches PATTERN; {port}, {prefix}, and {home} are replaced (repeatable)")
	f.StringArrayVar(&u.o.HostEnv, "host-env", nil, "NAME: pass this environment variable of the container, or else of berth, to host processes; NAME* passes all with this prefix (repeatable)")
	f.StringVar(&u.o.HoldScheduler, "hold-scheduler", "", "start the scheduler when this file is removed (for benchmarks)")
	f.Lookup("hold-scheduler").Hidden = true
	f.BoolVar(&u.o.NewKeys, "new-keys", false, "create new keys: every kubeconfig, certificate, and token issued before becomes invalid")
	f.BoolVarP(&u.detach, "detach", "d", false, "return when ready, and continue in the background")
	f.StringVarP(&u.output, "output", "o", "", "json: print one object")
	return cmd
}

func (u *upCommand) main(ctx context.Context) error {
	u.o.Began = began()
	if u.output != "" && u.output != "json" {
		return term.Usagef("invalid --output %q: must be json", u.output)
	}
	for _, rule := range u.o.HostProcesses {
		if pattern, command, _ := strings.Cut(rule, "="); strings.TrimSpace(pattern) == "" || strings.TrimSpace(command) == "" {
			return term.Usagef("invalid --host-process %q: must be PATTERN=CMD, such as 'jupyter*=jupyter-notebook --ip=127.0.0.1 --port={port}'", rule)
		}
	}
	if u.o.Port < 0 || u.o.Port > 65535 {
		return term.Usagef("invalid --port %d: must be between 1 and 65535", u.o.Port)
	}
	if s := u.o.Scheduler; s != "" && s != "stock" && s != "berth" && s != "none" {
		return term.Usagef("invalid --scheduler %q: must be stock, berth, or none", s)
	}
	if v := u.o.Kubernetes; v != "" && !slices.Contains(buildinfo.KubernetesMinors(), v) {
		return term.Usagef("invalid --kubernetes-version %q: must be a version from %s", v, versionsSentence())
	}
	if err := errors.Join(process.CheckMode("notebooks", u.o.Notebooks), process.CheckMode("training", u.o.Training), process.CheckMode("serving", u.o.Serving), u.o.NodePolicy.Check(), u.o.UserPolicy.Check(), u.o.LedgerPolicy.Check()); err != nil {
		return err
	}
	dir, err := datadir.At(u.dir)
	if err != nil {
		return err
	}
	u.o.Dir = dir
	if child := os.Getenv(childVariable); child != "" {
		return u.child(ctx)
	}
	if done, err := u.already(ctx); done || err != nil {
		return err
	}
	if u.detach {
		return u.detached(ctx)
	}
	return u.foreground(ctx)
}

// versionsSentence is the versions of Kubernetes that there are, as "1.33 to 1.36".
func versionsSentence() string {
	minors := buildinfo.KubernetesMinors()
	return minors[0] + " to " + minors[len(minors)-1]
}

// already reports a control plane that runs in the folder. One that is still
// starting is waited for, and so is the end of one that does not answer because
// it is just ending.
func (u *upCommand) already(ctx context.Context) (bool, error) {
	pid, held, err := u.o.Dir.Holder()
	if err != nil || !held {
		return false, err
	}
	state, err := awaitReady(ctx, u.o.Dir)
	if errors.Is(err, errEnded) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if u.o.NewKeys {
		return false, fmt.Errorf("new keys are created at startup, but berth up is running in %s (pid %d): run `berth down` first", u.o.Dir.Short(), pid)
	}
	if list := differences(&u.o, &state); len(list) > 0 {
		return false, term.Usagef("berth up is already running in %s (pid %d) with other settings: %s; run `berth down` first, or name another --dir", u.o.Dir.Short(), pid, strings.Join(list, ", "))
	}
	if u.output == "json" {
		return true, u.printJSON(state)
	}
	term.Printf(u.out, "berth up is already running in %s (pid %d)\n\n", u.o.Dir.Short(), pid)
	printAddresses(u.out, u.o.Dir, state)
	return true, nil
}

// errEnded says that the holder of a folder has let it go.
var errEnded = errors.New("it has exited")

// readyPatience is how long a berth up that runs already may take to answer: it may
// still be starting, on a machine that is busy.
const readyPatience = 5 * time.Minute

// awaitReady waits until the holder of the folder is ready and answers. It
// returns errEnded when the holder lets go first, and gives up after readyPatience.
func awaitReady(ctx context.Context, dir datadir.Dir) (datadir.State, error) {
	for wait := time.After(readyPatience); ; {
		pid, held, err := dir.Holder()
		if err != nil {
			return datadir.State{}, err
		}
		if !held {
			return datadir.State{}, errEnded
		}
		state, err := dir.State()
		if err == nil && state.Ready && state.PID == pid && answers(ctx, dir.Kubeconfig()) {
			return state, nil
		}
		select {
		case <-ctx.Done():
			return state, context.Cause(ctx)
		case <-wait:
			return state, fmt.Errorf("berth up in %s (pid %d) does not respond after %v; see its log in %s", dir.Short(), pid, readyPatience, dir.Logs())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// answers asks the API server whether it is ready. A process that has been
// killed holds its folder and its port for some moments more.
func answers(ctx context.Context, kubeconfig string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return false
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+"/livez/ping", nil)
	if err != nil {
		return false
	}
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	return res.Body.Close() == nil && res.StatusCode == http.StatusOK
}

// foreground runs here until a signal comes. The first signal ends the run in
// order; a second one ends the process at once.
func (u *upCommand) foreground(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	restore := u.quiet()
	defer restore()
	p := newProgress(u.err, u.o.Dir, u.output != "json")
	p.start()
	u.o.Step = p.step
	u.o.Died = func(err error) {
		p.end()
		term.Printf(u.err, "error: %v\n", err)
	}
	u.o.Ready = func(s datadir.State) {
		p.ready(s)
		if u.output == "json" {
			if err := u.printJSON(s); err != nil {
				term.Printf(u.err, "error: %v\n", err)
			}
			return
		}
		printAddresses(u.err, u.o.Dir, s)
		printHints(u.err, u.o.Dir, false, s.HostProcesses)
	}
	said := make(chan struct{})
	notStopped := context.AfterFunc(ctx, func() {
		defer close(said)
		stop() // the next signal has its default effect
		p.stopping()
	})
	err := u.run(ctx, u.o)
	if !notStopped() {
		<-said
	}
	p.end()
	return err
}

// upResult is the object that `berth up -o json` prints.
type upResult struct {
	Kubeconfig string  `json:"kubeconfig"`
	Server     string  `json:"server"`
	Dir        string  `json:"dir"`
	PID        int     `json:"pid"`
	Seconds    float64 `json:"seconds"`
	Nodes      int     `json:"nodes"`
	GPUs       int     `json:"gpus"`
	Version    string  `json:"version"`
}

func (u *upCommand) printJSON(s datadir.State) error {
	enc := json.NewEncoder(term.Exact(u.out))
	enc.SetIndent("", "  ")
	return enc.Encode(upResult{
		Kubeconfig: u.o.Dir.Kubeconfig(), Server: s.Server, Dir: string(u.o.Dir), PID: s.PID,
		Seconds: s.Seconds, Nodes: s.Nodes, GPUs: s.GPUs, Version: buildinfo.Version,
	})
}
