package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"berth.dev/berth/controller/crd"
	"berth.dev/berth/internal/heap"
	"berth.dev/berth/internal/listen"
	"berth.dev/berth/internal/rights"
	"berth.dev/berth/kube/view"
)

// Options configures the process.
type Options struct {
	Kubeconfig string // file; "" is the ServiceAccount of the pod that this runs in
	Kinds      []Kind
	Lease      *Lease // nil: no leader election, as this is the only process
	// MetricsAddr is host:port for metrics and health, with TLS and delegated
	// authentication; "http://" before a loopback address is without both; "" is
	// none.
	MetricsAddr       string
	CertFile, KeyFile string // for MetricsAddr; "" is a self-signed certificate, made at startup
}

// Lease configures leader election.
type Lease struct {
	Namespace, Name string
	// Another process may lead once the leader has not renewed for Duration; a
	// leader that could not renew for Deadline stops; Retry is the time between
	// two tries. Duration must exceed Deadline, and Deadline 1.2 times Retry.
	Duration, Deadline, Retry time.Duration
}

// Namespace and Name are the defaults of the lease and of the record of modes.
const (
	Namespace = view.ModesNamespace
	Name      = view.ModesName
)

// DefaultLease returns upstream's timing under Berth's name.
func DefaultLease() Lease {
	return Lease{Namespace: Namespace, Name: Name, Duration: 15 * time.Second, Deadline: 10 * time.Second, Retry: 2 * time.Second}
}

// Run installs the definitions of Berth's kinds in the cluster and runs the
// controllers until ctx ends; it then releases its lease and returns nil. It
// returns an error if it cannot start or has lost its lease: the process must then
// exit and be restarted.
func Run(ctx context.Context, o Options) error {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	go heap.Process().Start()(ctx)
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
	if slices.ContainsFunc(o.Kinds, func(k Kind) bool { return !k.off() }) {
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

// Start runs the controllers of kinds until ctx ends, without leader election and
// without serving anything. The definitions must have been installed.
func Start(ctx context.Context, cfg *rest.Config, kinds ...Kind) error {
	mgr, err := newManager(cfg, Options{Kinds: kinds})
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// install installs the definitions, and logs which ones are not managed by Berth.
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

// checkRights returns an error that names the missing rights.
func checkRights(ctx context.Context, cfg *rest.Config, o Options) error {
	namespace, name := recordIn(o.Lease)
	_, user, err := rights.Check(ctx, cfg, "deploy/controller.yaml",
		rights.Need{Rules: Rules(o.Kinds...)}, rights.Need{Namespace: namespace, Rules: OwnRules(name)})
	if err != nil {
		return err
	}
	klog.InfoS("Running controllers", "server", cfg.Host, "user", user)
	return nil
}

// builtIn adds the groups of Kubernetes whose objects the controllers read or write by their types. All that there are, as client-go has
// them, take more than a megabyte of memory.
func builtIn(scheme *runtime.Scheme) error {
	groups := runtime.SchemeBuilder{
		admissionv1.AddToScheme, admissionv1beta1.AddToScheme, appsv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme,
		corev1.AddToScheme, discoveryv1.AddToScheme, eventsv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, schedulingv1.AddToScheme,
	}
	return groups.AddToScheme(scheme)
}

// shutdownTimeout is how long work in progress may take at the end.
const shutdownTimeout = 5 * time.Second

// newManager returns a manager of the controllers of all kinds.
func newManager(cfg *rest.Config, o Options) (manager.Manager, error) {
	log.SetLogger(klog.Background()) // the first call counts
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // API servers defend themselves by priority and fairness
	scheme := runtime.NewScheme()
	err := builtIn(scheme)
	for _, k := range o.Kinds {
		err = errors.Join(err, k.Scheme(scheme))
	}
	kept, cacheErr := cacheOptions(o.Kinds)
	if err = errors.Join(err, cacheErr); err != nil {
		return nil, fmt.Errorf("set up the controllers: %w", err)
	}
	timeout, anyName := shutdownTimeout, true
	mo := manager.Options{
		Scheme: scheme, Logger: klog.Background(), Cache: kept,
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		GracefulShutdownTimeout: &timeout,
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
	writer, err := kubernetes.NewForConfigAndClient(cfg, mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("set up the controllers: %w", err)
	}
	for _, k := range o.Kinds {
		w, err := newModeWatcher(mgr, writer, k, o.Lease)
		if err != nil {
			return nil, fmt.Errorf("set up the controllers: %w", err)
		}
		if k.off() {
			continue
		}
		if err := k.Add(mgr, ModeSource{Now: w.Mode, Changed: w.changed}); err != nil {
			return nil, fmt.Errorf("set up the controllers of %s: %w", k.plural(), err)
		}
	}
	return mgr, nil
}
