package cli

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
	LeaseOptions
	MetricsAddr       string // host:port, http://LOOPBACK:port, or "" for none
	CertFile, KeyFile string // for MetricsAddr; "" is a certificate made at the start
	Policies          bool   // apply the admission policies
	User              string // whom they let commit devices; "" is this process's own name
	TakeOver          bool   // also where they name another user
}

// SchedulerFunc schedules until ctx ends, and then returns nil.
type SchedulerFunc func(ctx context.Context, o SchedulerOptions) error

func newScheduler(o Options) *cobra.Command {
	var s SchedulerOptions
	var verbosity int
	cmd := &cobra.Command{
		Use:   "scheduler",
		Short: "Run Berth's scheduler for a cluster",
		Long: "Run kube-scheduler with Berth's plugins for a cluster, beside its scheduler or instead of it. It chooses\n" +
			"the GPUs of a pod and commits them in the write that binds it. Pods say that they want it with\n" +
			"schedulerName. Several can run: one leads, and the others take over when it ends.\n\n" +
			"The cluster is that of --kubeconfig, else of $KUBECONFIG, else the one whose pod this runs in. What it\n" +
			"needs there is in deploy/scheduler.yaml, and how to run it in docs/running-the-scheduler.md. Its requests\n" +
			"to the API server are not limited on its side.",
		Example: "  berth scheduler --kubeconfig ~/.kube/config\n" +
			"  berth scheduler --scheduler-name default-scheduler,berth-scheduler\n" +
			"  berth scheduler --metrics-addr http://127.0.0.1:10259    metrics and health without TLS, for this machine",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(); err != nil {
				return err
			}
			return untilSignal(cmd.Context(), verbosity, func(ctx context.Context) error { return o.Scheduler(ctx, s) })
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&s.Kubeconfig, "kubeconfig", "", "cluster and identity (default $KUBECONFIG, else the ServiceAccount of the pod)")
	f.StringSliceVar(&s.Names, "scheduler-name", []string{"berth-scheduler"}, "schedule pods of this schedulerName; several are separated by commas")
	f.StringVar(&s.ConfigFile, "config", "", "a KubeSchedulerConfiguration to use instead of Berth's profiles")
	f.BoolVar(&s.PrintConfig, "print-config", false, "print Berth's KubeSchedulerConfiguration for these flags, and end")
	f.StringVar(&s.MetricsAddr, "metrics-addr", "127.0.0.1:10259", "address of /metrics, /healthz, /livez and /readyz, with TLS; http://127.0.0.1:PORT is without; \"\" is none")
	f.StringVar(&s.CertFile, "tls-cert-file", "", "certificate for --metrics-addr (default: one made at the start)")
	f.StringVar(&s.KeyFile, "tls-private-key-file", "", "key of --tls-cert-file")
	s.LeaseOptions.flags(f, "berth-scheduler", "schedule")
	f.BoolVar(&s.Policies, "admission-policies", true, "apply the policies that keep berth.dev/devices to this scheduler, if it may")
	f.StringVar(&s.User, "policy-user", "", "whom the policies let commit devices (default: who the API server says this is)")
	f.BoolVar(&s.TakeOver, "take-over", false, "change policies that name another scheduler")
	s.NodePolicy.flags(f)
	f.IntVarP(&verbosity, "v", "v", 0, "verbosity of the log on stderr, as in Kubernetes")
	return cmd
}

// check refuses what cannot work, and finds the cluster.
func (s *SchedulerOptions) check() error {
	if err := s.NodePolicy.check(); err != nil {
		return err
	}
	if err := s.LeaseOptions.check(); err != nil {
		return err
	}
	switch {
	case len(s.Names) == 0 && s.ConfigFile == "":
		return usagef("--scheduler-name \"\": pods need a name to ask for")
	case (s.CertFile == "") != (s.KeyFile == ""):
		return usagef("--tls-cert-file and --tls-private-key-file go together")
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
			return "", usagef("KUBECONFIG names %d files: choose one with --kubeconfig", len(list))
		}
	}
	if kubeconfig == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return "", usagef("which cluster? give --kubeconfig or set KUBECONFIG; %s in a pod needs neither", who)
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
// several lines are in it as others wrote them, so that it is guarded.
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
		return &UnreachableError{"the cluster", err, "check that it runs and that this machine can reach it"}
	}
	return err
}
