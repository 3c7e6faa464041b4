package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/buildinfo"
)

// Options is what the commands need from the outside.
type Options struct {
	In       io.Reader
	Out, Err io.Writer
	// Up runs the control plane; nil leaves `berth up` out.
	Up UpFunc
	// Scheduler runs Berth's scheduler; nil leaves `berth scheduler` out.
	Scheduler SchedulerFunc
	// Controller runs Berth's controllers; nil leaves `berth controller` out.
	Controller ControllerFunc
	// Connect makes the client for a cluster; nil is kubernetes.NewForConfig.
	Connect func(*rest.Config) (kubernetes.Interface, error)
	// Dynamic makes the client for kinds without a type of client-go's; nil is
	// dynamic.NewForConfig.
	Dynamic func(*rest.Config) (dynamic.Interface, error)
	// Now tells the time that ages are shown against; nil is time.Now.
	Now func() time.Time
	// BusyPatience is how long all exporters of a cluster together may take to say how
	// busy its GPUs are; 0 is two seconds.
	BusyPatience time.Duration
	// Exec becomes another program; nil is syscall.Exec.
	Exec ExecFunc
	// Name is how the user calls the program; "" is "berth".
	Name string
}

func (o Options) now() time.Time {
	if o.Now == nil {
		return time.Now()
	}
	return o.Now()
}

// Main runs the program with its arguments, args[0] being its name, prints an
// error and returns the exit code. Called as kubectl-berth it speaks of itself
// as "kubectl berth"; called as kubectl_complete-berth it answers kubectl's
// question how a command line goes on.
func Main(args []string, o Options) int {
	name, rest := "", []string(nil)
	if len(args) > 0 {
		name, rest = strings.TrimSuffix(filepath.Base(args[0]), ".exe"), args[1:]
	}
	switch name {
	case "kubectl-berth":
		o.Name = "kubectl berth"
	case "kubectl_complete-berth":
		o.Name = "kubectl berth"
		rest = append([]string{cobra.ShellCompRequestCmd}, rest...)
	}
	// Kubernetes' packages register flags of their own for every program.
	pflag.CommandLine = pflag.NewFlagSet(name, pflag.ContinueOnError)
	o = o.guarded()
	defer o.flush()
	root := New(o)
	root.SetArgs(rest)
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return exitDone
	}
	if !errors.Is(err, errFound) {
		printf(o.Err, "error: %v\n", err)
	}
	if code := ExitCode(err); code != exitUsage {
		return code
	}
	printf(o.Err, "see `%s --help`\n", cmd.CommandPath())
	return exitUsage
}

// New makes the command tree. Executing it returns errors and prints none; see
// ExitCode.
func New(o Options) *cobra.Command {
	o = o.guarded()
	if o.In == nil {
		o.In = os.Stdin
	}
	if o.Name == "" {
		o.Name = "berth"
	}
	root := &cobra.Command{
		Use:           "berth",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: o.Name},
		Short:         "Schedule GPU workloads on Kubernetes, and show which pod uses which GPU",
		Long:          "Berth schedules GPU workloads on Kubernetes and shows which pod uses which GPU.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          func(cmd *cobra.Command, args []string) error { return unknownCommand(cmd, args) },
		RunE: func(*cobra.Command, []string) error {
			_, err := printBlock(o.Out, block(welcome(o.Name)))
			return err
		},
	}
	root.SetIn(o.In)
	root.SetOut(o.Out)
	root.SetErr(o.Err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &UsageError{err} })
	if o.Up != nil {
		root.AddCommand(newUp(o))
	}
	if o.Scheduler != nil {
		root.AddCommand(newScheduler(o))
	}
	if o.Controller != nil {
		root.AddCommand(newController(o))
	}
	root.AddCommand(newDown(o), newStatus(o), newNodes(o), newGPUs(o), newWhy(o), newExplain(o), newNotebook(o), newProfiles(o), newSimulate(o), newSim(o), newAgent(o), newDoctor(o), newVersion(o))
	root.InitDefaultCompletionCmd()
	addCompletionInstall(root, o)
	usageErrors(root)
	return root
}

// welcome is what the program says when it is called with nothing.
func welcome(name string) string {
	return strings.ReplaceAll(fmt.Sprintf(`berth %s: schedules GPU workloads on Kubernetes and shows which pod uses which GPU

  NAME up       start a Kubernetes cluster with simulated GPUs on this machine, without root
  NAME nodes    show the GPUs of your cluster: allocated, busy, free, unhealthy, and their price
  NAME gpus     show every GPU and the pod that uses it
  NAME status   show whether a cluster of NAME up is running, and where

Run NAME help for all commands, and NAME help COMMAND for one.
`, buildinfo.Version), "NAME", name)
}

// unknownCommand refuses arguments of a command that only has commands.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if near := gpu.NearestWord(args[0], names); near != "" {
		return usagef("unknown command %q for %q; did you mean %q?", args[0], cmd.CommandPath(), near)
	}
	return usagef("unknown command %q for %q; available: %s", args[0], cmd.CommandPath(), strings.Join(names, ", "))
}

// usageErrors makes what cobra says of wrong arguments a UsageError, in every
// command.
func usageErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			var usage *UsageError
			if err == nil || errors.As(err, &usage) {
				return err
			}
			return &UsageError{err}
		}
	}
	for _, c := range cmd.Commands() {
		usageErrors(c)
	}
}
