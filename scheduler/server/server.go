package server

import (
	"context"
	"fmt"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"berth.dev/berth/core/user"
	"berth.dev/berth/internal/input"
	"berth.dev/berth/internal/listen"
	"berth.dev/berth/internal/rights"
	"berth.dev/berth/scheduler/admission"
	"berth.dev/berth/scheduler/server/leader"
	"berth.dev/berth/scheduler/stuck"
)

// Options says how to run the scheduler. Only one can run in a process: upstream
// keeps global registries.
type Options struct {
	Kubeconfig string   // file; "" is the ServiceAccount of the pod that it runs in
	Names      []string // schedulerName of the pods to schedule
	// ConfigFile, if not empty, is a KubeSchedulerConfiguration to use instead of
	// Berth's: its profiles, and all but its leader election.
	ConfigFile string
	Lease      *Lease // nil: this is the only scheduler, and elects nobody
	// MetricsAddr is host:port for metrics and health, with TLS and delegated
	// authentication; "http://" before a loopback address is without both; "" is
	// none.
	MetricsAddr       string
	CertFile, KeyFile string // for MetricsAddr; "" is a new self-signed certificate
	// Policies lets the scheduler apply its admission policies: those that explain
	// requests, and the one that keeps committed devices to User; "" is whoever the
	// API server takes this process for.
	Policies bool
	User     string
	TakeOver bool // also where that one names another
	// UserSpeakers may name the user that they create objects for, and UserControllers create
	// objects for others: see user.NewPolicy. The policies say so.
	UserSpeakers, UserControllers []string
	// OtherPods is what is done about pods without GPUs on GPU nodes, see Settings,
	// and Stuck about pods that hold GPUs and cannot run.
	OtherPods string
	// ReserveAfter is how long a pod waits before a place is kept for it, see Settings.
	ReserveAfter *time.Duration
	Stuck        stuck.Policy
}

// Run schedules until ctx ends; it then sends nothing more, gives its lease back
// and returns nil. It returns an error when it cannot start, or has lost its
// lease: then it must not go on, and whoever runs it starts it anew.
func Run(ctx context.Context, o Options) error {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	client, served, err := o.prepare(ctx)
	if err != nil {
		return err
	}
	listener, plain, err := listen.On(o.MetricsAddr)
	if err != nil {
		return err
	}
	opts, err := o.upstream(listener, plain, served)
	if err != nil {
		return err
	}
	// What it runs ends when this function does, not when ctx does: before that,
	// bindings on their way are waited for.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, reads := leader.NewGate(), &lists{}
	cc, s, err := Setup(work, opts, Hooks{Writes: g.Wrap, Reads: reads.wrap, Leads: g.Leads})
	if err != nil {
		return fmt.Errorf("set up the scheduler: %w", err)
	}
	if o.ConfigFile != "" && !commits(&cc.ComponentConfig) {
		return fmt.Errorf("configuration %s: no profile has Berth's plugin; start from what `berth scheduler --print-config` prints", o.ConfigFile)
	}
	p, err := newProcess(cc, s, g, o.Policies, o.Stuck)
	if err != nil {
		return err
	}
	p.reads, p.guard = reads, func(ctx context.Context) error { return o.guard(ctx, client) }
	return p.run(ctx, work, listener)
}

// prepare asks the API server for its version, who this is and what it may. Each
// way in which a scheduler could run and do nothing is an error.
func (o *Options) prepare(ctx context.Context) (client kubernetes.Interface, served string, err error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, "", fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.QPS = -1
	client, err = kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("read kubeconfig: %w", err)
	}
	if served, err = serverVersion(ctx, client.Discovery().RESTClient(), cfg.Host); err != nil {
		return nil, "", err
	}
	user, err := rights.WhoAmI(ctx, client)
	if err != nil {
		return nil, "", fmt.Errorf("ask %s who this is: %w", cfg.Host, err)
	}
	if err := checkRights(ctx, client, user, o.Lease); err != nil {
		return nil, "", err
	}
	if o.User == "" {
		o.User = user
	}
	klog.InfoS("Scheduling", "server", cfg.Host, "kubernetes", served, "user", user, "schedulerNames", o.Names)
	return client, served, nil
}

// guard applies the admission policies that guard committed devices, if it is to.
func (o *Options) guard(ctx context.Context, client kubernetes.Interface) error {
	if !o.Policies {
		return nil
	}
	err := admission.Apply(ctx, client, o.User, o.TakeOver)
	if err := unlessForbidden(err, "anyone who can create pods can claim devices"); err != nil {
		return err
	}
	if o.Lease != nil {
		err := admission.ApplyLeader(ctx, client, types.NamespacedName{Namespace: o.Lease.Namespace, Name: o.Lease.Name})
		if err := unlessForbidden(err, "a binding of the leader before that is held up on its way may give devices twice"); err != nil {
			return err
		}
	}
	stamps, err := admission.ApplyUsers(ctx, client, user.NewPolicy(o.UserSpeakers, o.UserControllers))
	if err == nil && !stamps {
		klog.InfoS("The API server serves no MutatingAdmissionPolicies, so the users of pods are known only where these say their own")
	}
	return unlessForbidden(err, "the users of pods are not known")
}

// unlessForbidden is err, unless the scheduler may not apply its admission policies: then it logs what follows, and what helps.
func unlessForbidden(err error, follows string) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	klog.ErrorS(err, "Admission policies could not be applied, so "+follows+": grant the scheduler the ClusterRole berth-scheduler-policies in deploy/scheduler.yaml")
	return nil
}

// upstream gives upstream's options for o and an API server of version served.
func (o *Options) upstream(listener net.Listener, plain bool, served string) (*options.Options, error) {
	opts := options.NewOptions()
	if err := emulate(opts, served); err != nil {
		return nil, err
	}
	text, from := []byte(Configuration(Settings{Kubeconfig: o.Kubeconfig, Names: o.Names, Lease: o.Lease, OtherPods: o.OtherPods, ReserveAfter: o.ReserveAfter})), "Berth's configuration"
	if o.ConfigFile != "" {
		var err error
		if text, err = input.ReadFile(o.ConfigFile, input.Config); err != nil {
			return nil, fmt.Errorf("read the configuration: %w", err)
		}
		from = o.ConfigFile
	}
	cfg, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", from, err)
	}
	if o.ConfigFile != "" {
		own, err := decode([]byte(Configuration(Settings{Kubeconfig: o.Kubeconfig, Lease: o.Lease})))
		if err != nil {
			return nil, fmt.Errorf("configuration of Berth itself: %w", err)
		}
		cfg.LeaderElection = own.LeaderElection
		if o.Kubeconfig != "" || cfg.ClientConnection.Kubeconfig == "" {
			cfg.ClientConnection.Kubeconfig = o.Kubeconfig
		}
	}
	opts.ComponentConfig = cfg
	opts.Authentication.RemoteKubeConfigFile, opts.Authorization.RemoteKubeConfigFile = o.Kubeconfig, o.Kubeconfig
	opts.SecureServing.BindPort = 0
	if listener != nil && !plain {
		opts.SecureServing.Listener = listener
		opts.SecureServing.ServerCert.CertKey.CertFile, opts.SecureServing.ServerCert.CertKey.KeyFile = o.CertFile, o.KeyFile
	}
	return opts, nil
}
