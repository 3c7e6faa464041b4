package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/crd"
	"berth.dev/berth/controller/idle"
	"berth.dev/berth/controller/notebook"
	"berth.dev/berth/internal/listen"
	"berth.dev/berth/internal/rights"
	"berth.dev/berth/kube/view"
)

// Options says what to run and where.
type Options struct {
	Kubeconfig string // file; "" is the ServiceAccount of the pod that this runs in
	// Notebooks is Auto or a mode of package notebook; "" is Auto.
	Notebooks string
	Notebook  notebook.Options // Mode and ModeChanged are set here
	Idle      idle.Options     // Mode is set here
	Lease     *Lease           // nil: these are the only controllers, and elect nobody
	// MetricsAddr is host:port for metrics and health, with TLS and delegated
	// authentication; "http://" before a loopback address is without both; "" is
	// none.
	MetricsAddr       string
	CertFile, KeyFile string // for MetricsAddr; "" is a certificate of its own, made at the start
}

// Lease says how the process that leads is elected.
type Lease struct {
	Namespace, Name string
	// A leader that has not renewed for Duration is followed by another; one that
	// could not renew for Deadline stops; Retry is the time between two tries.
	// Duration must be longer than Deadline, and that than 1.2 times Retry.
	Duration, Deadline, Retry time.Duration
}

// Namespace is where the lease and the record of the modes are, and Name is what
// both are called, if nothing else is said.
const (
	Namespace = view.ModesNamespace
	Name      = view.ModesName
)

// DefaultLease is upstream's timing under Berth's name.
func DefaultLease() Lease {
	return Lease{Namespace: Namespace, Name: Name, Duration: 15 * time.Second, Deadline: 10 * time.Second, Retry: 2 * time.Second}
}

// Run brings the definitions of Berth's kinds to the cluster and runs the
// controllers until ctx ends; it then gives its lease back and returns nil. It
// returns an error when it cannot start, or has lost its lease: then it must not go
// on, and whoever runs it starts it anew.
func Run(ctx context.Context, o Options) error {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	cfg, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.QPS = -1
	if err := checkRights(ctx, cfg, o); err != nil {
		return err
	}
	listener, plain, err := listen.On(o.MetricsAddr)
	if err != nil {
		return err
	}
	if listener != nil {
		defer listener.Close()
	}
	if o.Notebooks != string(notebook.Off) {
		if err := install(ctx, cfg); err != nil {
			return err
		}
	}
	mgr, err := newManager(cfg, o)
	if err != nil {
		return err
	}
	if listener != nil {
		stop, err := serve(ctx, listener, plain, o, cfg, mgr.GetCache().WaitForCacheSync)
		if err != nil {
			return err
		}
		defer stop()
	}
	go func() {
		select {
		case <-mgr.Elected():
			klog.InfoS("Leading")
		case <-ctx.Done():
		}
	}()
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the controllers: %w", err)
	}
	return nil
}

// Start runs the controllers until ctx ends, as the only ones: it elects nobody,
// serves nothing and installs no definitions, which must be there. Of o it takes
// what is said of kinds.
func Start(ctx context.Context, cfg *rest.Config, o Options) error {
	o.Lease = nil
	mgr, err := newManager(cfg, o)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// install brings the definitions to the cluster, and says which are not Berth's.
func install(ctx context.Context, cfg *rest.Config) error {
	done, err := crd.Install(ctx, cfg)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; grant it the ClusterRole berth-controller-definitions of deploy/controller.yaml, or apply the output of `berth controller --print-definitions`", err)
	}
	if err != nil {
		return err
	}
	for _, d := range done {
		if d.Foreign {
			klog.InfoS("A CustomResourceDefinition does not belong to Berth and is not changed", "definition", d.Name)
		}
	}
	return nil
}

// checkRights refuses to start without a right that the controllers need: their
// watches would wait for ever, and say so only in the log.
func checkRights(ctx context.Context, cfg *rest.Config, o Options) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	user, err := rights.WhoAmI(ctx, client)
	if err != nil {
		return fmt.Errorf("read the user name of this process from %s: %w", cfg.Host, err)
	}
	rules := Rules()
	if o.Idle.Proxied {
		rules = append(rules, ProxiedRules()...)
	}
	missing, err := rights.Missing(ctx, client, "", rules)
	if err != nil {
		return err
	}
	namespace, name := recordIn(o.Lease)
	more, err := rights.Missing(ctx, client, namespace, OwnRules(name))
	if err != nil {
		return err
	}
	if missing = append(missing, more...); len(missing) > 0 {
		return errors.New(user + " cannot " + join(missing) + "; grant it the roles in deploy/controller.yaml")
	}
	klog.InfoS("Running controllers", "server", cfg.Host, "user", user)
	return nil
}

// stopping is how long work under way may take at the end.
const stopping = 5 * time.Second

// newManager makes a manager of all controllers.
func newManager(cfg *rest.Config, o Options) (manager.Manager, error) {
	log.SetLogger(klog.Background()) // the first call counts
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // API servers defend themselves by priority and fairness
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), kubeflow.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("set up the controllers: %w", err)
	}
	patience, anyName := stopping, true
	mo := manager.Options{
		Scheme: scheme, Logger: klog.Background(), Cache: cacheOptions(),
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		GracefulShutdownTimeout: &patience,
		Controller:              config.Controller{SkipNameValidation: &anyName}, // tests run several in one process
	}
	if l := o.Lease; l != nil {
		mo.LeaderElection, mo.LeaderElectionNamespace, mo.LeaderElectionID = true, l.Namespace, l.Name
		mo.LeaseDuration, mo.RenewDeadline, mo.RetryPeriod = &l.Duration, &l.Deadline, &l.Retry
		mo.LeaderElectionReleaseOnCancel = true
	}
	mgr, err := manager.New(cfg, mo)
	if err != nil {
		return nil, fmt.Errorf("set up the controllers: %w", err)
	}
	k, err := newKeeper(mgr, cfg, o)
	if err != nil {
		return nil, fmt.Errorf("set up the controllers: %w", err)
	}
	if o.Notebooks == string(notebook.Off) {
		return mgr, nil
	}
	o.Notebook.Mode, o.Notebook.ModeChanged, o.Idle.Mode = k.Mode, k.changed, k.Mode
	if err := notebook.Add(mgr, o.Notebook); err != nil {
		return nil, fmt.Errorf("set up the controller of notebooks: %w", err)
	}
	if err := idle.Add(mgr, o.Idle); err != nil {
		return nil, fmt.Errorf("set up the loop for idle notebooks: %w", err)
	}
	return mgr, nil
}
