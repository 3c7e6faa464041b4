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

	"berth.dev/berth/cli/alerts"
	"berth.dev/berth/cli/audit"
	"berth.dev/berth/cli/budget"
	"berth.dev/berth/cli/can"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/cluster"
	"berth.dev/berth/cli/cost"
	"berth.dev/berth/cli/doctor"
	"berth.dev/berth/cli/fetch"
	"berth.dev/berth/cli/idle"
	"berth.dev/berth/cli/lint"
	"berth.dev/berth/cli/nodes"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/process"
	"berth.dev/berth/cli/profiles"
	"berth.dev/berth/cli/query"
	"berth.dev/berth/cli/queue"
	"berth.dev/berth/cli/report"
	"berth.dev/berth/cli/service"
	"berth.dev/berth/cli/sim"
	"berth.dev/berth/cli/simulate"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/cli/top"
	"berth.dev/berth/cli/train"
	"berth.dev/berth/cli/why"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/buildinfo"
)

// Options is what the commands need from the outside.
type Options struct {
	In       io.Reader
	Out, Err io.Writer
	// Up runs the control plane; nil leaves `berth up` out.
	Up cluster.UpFunc
	// Scheduler runs Berth's scheduler; nil leaves `berth scheduler` out.
	Scheduler process.SchedulerFunc
	// Controller runs Berth's controllers; nil leaves `berth controller` out.
	Controller process.ControllerFunc
	// Meter writes a ledger; nil leaves `berth meter` out.
	Meter process.MeterFunc
	// Activator holds and passes on requests; nil leaves `berth activator` out.
	Activator process.ActivatorFunc
	// PluginConfig reads a configuration of NVIDIA's device plugin, and returns warnings, for `berth lint`; nil
	// leaves them unread.
	PluginConfig lint.PluginConfig
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
	Exec client.ExecFunc
	// Name is how the user calls the program; "" is "berth".
	Name string
}

// shared is what every command gets of o.
func (o Options) shared() client.Options {
	return client.Options{
		In: o.In, Out: o.Out, Err: o.Err, Connect: o.Connect, Dynamic: o.Dynamic, Now: o.Now,
		BusyPatience: o.BusyPatience, Exec: o.Exec, Name: o.Name,
	}
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
	o.Out, o.Err = term.Guard(o.Out), term.Guard(o.Err)
	defer term.Flush(o.Out, o.Err)
	root := New(o)
	root.SetArgs(rest)
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return term.ExitDone
	}
	if !errors.Is(err, term.ErrFound) {
		term.Printf(o.Err, "error: %v\n", err)
	}
	if code := term.ExitCode(err); code != term.ExitUsage {
		return code
	}
	term.Printf(o.Err, "see `%s --help`\n", cmd.CommandPath())
	return term.ExitUsage
}

// New makes the command tree. Executing it returns errors and prints none; see
// ExitCode.
func New(o Options) *cobra.Command {
	o.Out, o.Err = term.Guard(o.Out), term.Guard(o.Err)
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
		Args:          func(cmd *cobra.Command, args []string) error { return term.UnknownCommand(cmd, args) },
		RunE: func(*cobra.Command, []string) error {
			_, err := term.PrintBlock(o.Out, term.Block(welcome(o.Name)))
			return err
		},
	}
	root.SetIn(o.In)
	root.SetOut(o.Out)
	root.SetErr(o.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &term.UsageError{Err: flagMeant(cmd, err)} })
	root.Version = buildinfo.Version
	root.SetVersionTemplate("berth {{.Version}}\n")
	with := o.shared()
	if o.Up != nil {
		root.AddCommand(cluster.NewUp(with, o.Up))
	}
	if o.Scheduler != nil {
		root.AddCommand(process.NewScheduler(o.Scheduler))
	}
	if o.Controller != nil {
		root.AddCommand(process.NewController(o.Controller))
	}
	if o.Activator != nil {
		root.AddCommand(process.NewActivator(o.Activator))
	}
	if o.Meter != nil {
		root.AddCommand(process.NewMeter(o.Meter))
	}
	root.AddCommand(
		cluster.NewDown(with),
		cluster.NewStatus(with),
		nodes.New(with),
		nodes.NewGPUs(with),
		top.New(with),
		why.New(with),
		why.NewExplain(with),
		notebook.New(with, why.Prospects, why.NewNotebook(with), train.NewFromNotebook(with)),
		train.New(with, service.NewFromJob(with)), service.New(with), fetch.New(with),
		profiles.New(with),
		queue.New(with),
		cost.New(with),
		cost.NewPrice(with),
		budget.New(with),
		idle.New(with),
		audit.New(with),
		audit.NewHistory(with),
		report.New(with),
		query.New(with),
		alerts.New(with),
		simulate.New(with),
		sim.New(with),
		process.NewAgent(with),
		doctor.New(with),
		lint.New(with, o.PluginConfig),
		can.New(with),
		newVersion(with),
	)
	root.InitDefaultCompletionCmd()
	addCompletionInstall(root, with)
	completeValues(root, with)
	usageErrors(root)
	return root
}

// unknownFlag is how pflag names a flag that a command does not have.
const unknownFlag = "unknown flag: --"

// flagMeant adds to the error about a flag that a command does not have the nearest that it has.
func flagMeant(cmd *cobra.Command, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), unknownFlag)
	if !unknown {
		return err
	}
	var names []string
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	if near := gpu.NearestWord(name, names); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return err
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

// usageErrors makes what cobra says of wrong arguments a UsageError, in every
// command.
func usageErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			var usage *term.UsageError
			if err == nil || errors.As(err, &usage) {
				return err
			}
			return &term.UsageError{Err: err}
		}
	}
	for _, c := range cmd.Commands() {
		usageErrors(c)
	}
}
