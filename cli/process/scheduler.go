package process

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"berth.dev/berth/cli/term"
	"berth.dev/berth/internal/visible"
)

// SchedulerOptions is what `berth scheduler` was asked for.
type SchedulerOptions struct {
	Kubeconfig string   // file; "" is the ServiceAccount of the pod that it runs in
	Names      []string // schedulerName of the pods to schedule
	ConfigFile string   // a KubeSchedulerConfiguration instead of Berth's; "" is none
	// PrintConfig writes Berth's KubeSchedulerConfiguration to stdout, and no more.
	PrintConfig bool
	NodePolicy
	UserPolicy
	LeaseOptions
	MetricsAddr       string // host:port, http://LOOPBACK:port, or "" for none
	CertFile, KeyFile string // for MetricsAddr; "" is a new self-signed certificate
	Policies          bool   // apply the admission policies
	User              string // user that they let commit devices; "" is this process's own
	TakeOver          bool   // also where they name another user
}

// SchedulerFunc schedules until ctx ends, and then returns nil.
type SchedulerFunc func(ctx context.Context, o SchedulerOptions) error

// NewScheduler makes `berth scheduler`, which calls run.
func NewScheduler(run SchedulerFunc) *cobra.Command {
	var s SchedulerOptions
	var verbosity int
	cmd := &cobra.Command{
		Use:   "scheduler",
		Short: "Run the scheduler",
		Long: "Run kube-scheduler with Berth's plugins, alongside the cluster's scheduler or instead of it. It chooses the\n" +
			"GPUs of a pod and writes them in the request that binds the pod. Pods select it with schedulerName. You can\n" +
			"run several replicas: one leads, and another takes over if it stops.\n" +
			"\n" +
			"It uses the cluster of --kubeconfig, else of $KUBECONFIG, else of the pod it runs in. Its permissions are in\n" +
			"deploy/scheduler.yaml; docs/tasks/install-the-scheduler.md describes how to install it. It does not limit its own\n" +
			"requests to the API server.",
		Example: "  berth scheduler --kubeconfig ~/.kube/config\n" +
			"  berth scheduler --scheduler-name default-scheduler,berth-scheduler\n" +
			"  berth scheduler --metrics-addr http://127.0.0.1:10259    metrics and health without TLS, for this machine",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(); err != nil {
				return err
			}
			return untilSignal(cmd.Context(), verbosity, func(ctx context.Context) error { return run(ctx, s) })
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&s.Kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, else the ServiceAccount of the pod)")
	f.StringSliceVar(&s.Names, "scheduler-name", []string{"berth-scheduler"}, "schedule pods with this schedulerName (comma-separated)")
	f.StringVar(&s.ConfigFile, "config", "", "KubeSchedulerConfiguration file to use instead of Berth's profiles")
	f.BoolVar(&s.PrintConfig, "print-config", false, "print Berth's KubeSchedulerConfiguration for these flags, and exit")
	f.StringVar(&s.MetricsAddr, "metrics-addr", "127.0.0.1:10259", "address of /metrics, /healthz, /livez, and /readyz with TLS; http://127.0.0.1:PORT without TLS; \"\" to disable")
	f.StringVar(&s.CertFile, "tls-cert-file", "", "certificate for --metrics-addr (default: a new self-signed one)")
	f.StringVar(&s.KeyFile, "tls-private-key-file", "", "private key for --tls-cert-file")
	s.LeaseOptions.flags(f, "berth-scheduler", "schedule")
	f.BoolVar(&s.Policies, "admission-policies", true, "apply the admission policies that let only this scheduler write berth.dev/devices and write the user of objects, if permitted")
	f.StringVar(&s.User, "policy-user", "", "user that may commit devices under the policies (default: this process's own user)")
	f.BoolVar(&s.TakeOver, "take-over", false, "overwrite policies that name another scheduler")
	s.UserPolicy.AddFlags(f)
	s.NodePolicy.AddFlags(f)
	f.IntVarP(&verbosity, "v", "v", 0, "log verbosity, as in Kubernetes")
	return cmd
}

// check refuses what cannot work, and finds the cluster.
func (s *SchedulerOptions) check() error {
	if err := errors.Join(s.NodePolicy.Check(), s.UserPolicy.Check()); err != nil {
		return err
	}
	if err := s.LeaseOptions.check(); err != nil {
		return err
	}
	switch {
	case len(s.Names) == 0 && s.ConfigFile == "":
		return term.Usagef("invalid --scheduler-name \"\": must not be empty")
	case (s.CertFile == "") != (s.KeyFile == ""):
		return term.Usagef("set both --tls-cert-file and --tls-private-key-file, or neither")
	}
	found, err := oneCluster(s.Kubeconfig, "a scheduler")
	if err != nil && !s.PrintConfig {
		return err
	}
	s.Kubeconfig = found
	return nil
}

// oneCluster finds the cluster of a process that serves one: that of a kubeconfig,
// else of $KUBECONFIG, else, with "", the one whose pod this is. who is what it is
// called: "a scheduler".
func oneCluster(kubeconfig, who string) (string, error) {
	if kubeconfig == "" {
		kubeconfig = os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
		if list := filepath.SplitList(kubeconfig); len(list) > 1 {
			return "", term.Usagef("KUBECONFIG names %d files: choose one with --kubeconfig", len(list))
		}
	}
	if kubeconfig == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return "", term.Usagef("no cluster: set --kubeconfig or KUBECONFIG; %s in a pod needs neither", who)
	}
	return kubeconfig, nil
}

// untilSignal runs a process of a cluster until it ends or is told to, with
// Kubernetes' log on stderr up to level verbosity.
func untilSignal(ctx context.Context, verbosity int, run func(context.Context) error) error {
	if err := logVerbosity(verbosity); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the next signal has its default effect
	defer klog.Flush()
	return unreachable(run(ctx))
}

// logVerbosity sends Kubernetes' log to stderr, with messages up to level v. Texts of
// several lines are in it as others wrote them, so it is guarded.
func logVerbosity(v int) error {
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	if err := fs.Parse([]string{"--logtostderr=false", "--alsologtostderr=false", "--stderrthreshold=FATAL", "--v=" + strconv.Itoa(v)}); err != nil {
		return fmt.Errorf("set up the log: %w", err)
	}
	klog.SetOutput(io.Discard) // each severity is also written to those below it
	klog.SetOutputBySeverity("INFO", visible.NewWriter(os.Stderr))
	return nil
}

// unreachable tells a cluster that did not take the call from other errors.
func unreachable(err error) error {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return &term.UnreachableError{Cluster: "the cluster", Err: err, Next: "check that it is running and that this machine can reach it"}
	}
	return err
}
