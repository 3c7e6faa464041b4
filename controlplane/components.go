package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apioptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	manageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	names "berth.dev/berth/api"
	"berth.dev/berth/controller/meter"
	"berth.dev/berth/internal/datadir"
	"berth.dev/berth/internal/pause"
)

// serviceRange holds the addresses of Services. Nothing outside the process
// ever sees one.
const serviceRange = "10.96.0.0/16"

// components is the three parts of Kubernetes with their options parsed. The
// parts share one registry of feature gates, which is set once, after all
// three have parsed their flags: that is why they are built together.
type components struct {
	api     *apioptions.ServerRunOptions
	manager *manageroptions.KubeControllerManagerOptions
	sched   *scheduleroptions.Options
	ledger  *lateHandler
	prom    *lateHandler // readings and alerts, as Prometheus serves them
	proxied serviceProxy
}

// parse passes flags to the options of one component.
func parse(fss cliflag.NamedFlagSets, args []string) error {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, set := range fss.FlagSets {
		fs.AddFlagSet(set)
	}
	return fs.Parse(args)
}

// newComponents parses the options. Flag names are used rather than struct
// fields because upstream keeps them stable.
func newComponents(dir datadir.Dir, c *certs, g *guard, store, egress string, port int, emulated string) (*components, error) {
	p := &components{api: apioptions.NewServerRunOptions(), sched: scheduleroptions.NewOptions(), ledger: &lateHandler{}, prom: &lateHandler{}}
	var err error
	if p.manager, err = manageroptions.NewKubeControllerManagerOptions(); err != nil {
		return nil, fmt.Errorf("options of kube-controller-manager: %w", err)
	}
	g.register(p.api.Admission.GenericAdmission)
	flags := p.manager.Flags(manager.KnownControllers(), manager.ControllersDisabledByDefault(), manager.ControllerAliases())
	p.manager.ParsedFlags = &flags
	api := apiFlags(c, store, egress, port)
	if emulated != "" {
		api = append(api, "--emulated-version="+emulated) // of all three: they share it
	}
	err = errors.Join(
		parse(p.api.Flags(), api),
		parse(flags, managerFlags(dir, c)),
		parse(*p.sched.Flags, []string{"--config=" + dir.Join("run", "scheduler.yaml"), "--secure-port=0"}))
	if err != nil {
		return nil, fmt.Errorf("options of the control plane: %w", err)
	}
	if err := p.api.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, fmt.Errorf("feature gates: %w", err)
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	return p, nil
}

func apiFlags(c *certs, store, egress string, port int) []string {
	return []string{
		"--etcd-servers=" + store,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		// Endpoints refuse loopback addresses, so nothing keeps the Service "kubernetes".
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + serviceRange,
		"--allow-privileged=true", // the driver's and plugin's DaemonSets are privileged everywhere
		"--tls-cert-file=" + c.path("apiserver.crt"), "--tls-private-key-file=" + c.path("apiserver.key"),
		"--client-ca-file=" + c.path("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.path("sa.key"), "--service-account-signing-key-file=" + c.path("sa.key"),
		"--requestheader-client-ca-file=" + c.path("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + c.path("front-proxy-client.crt"), "--proxy-client-key-file=" + c.path("front-proxy-client.key"),
		"--kubelet-client-certificate=" + c.path("kubelet-client.crt"), "--kubelet-client-key=" + c.path("kubelet-client.key"),
		"--kubelet-certificate-authority=" + c.path("ca.crt"),
		"--kubelet-preferred-address-types=InternalDNS,InternalIP",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--egress-selector-config-file=" + egress,
		"--shutdown-delay-duration=0s",
		// Without it the end waits a minute for the watches of clients outside, such as a
		// real kubelet or kubectl get -w.
		"--shutdown-watch-termination-grace-period=1s",
	}
}

func managerFlags(dir datadir.Dir, c *certs) []string {
	return []string{
		"--kubeconfig=" + dir.Join("run", "controller-manager.kubeconfig"),
		"--secure-port=0", "--leader-elect=false", "--use-service-account-credentials=true",
		"--root-ca-file=" + c.path("ca.crt"), "--service-account-private-key-file=" + c.path("sa.key"),
		"--cluster-signing-cert-file=" + c.path("ca.crt"), "--cluster-signing-key-file=" + c.path("ca.key"),
		// The default of 20 requests a second spends five seconds on service accounts.
		"--kube-api-qps=2000", "--kube-api-burst=4000",
		// Simulated nodes renew their leases once or half a minute: see fleet.
		"--node-monitor-grace-period=10m", "--node-monitor-period=30s",
		// The ttl controller annotates each node, again at each size of the
		// cluster, for kubelets that cache Secrets: simulated ones do not.
		"--controllers=*,-ttl-controller",
	}
}

// apiServer is a running kube-apiserver.
type apiServer struct {
	loopback *rest.Config  // its own client, with all rights
	done     chan struct{} // closed when it has ended
	err      error         // why, from then on
}

// wait returns when the server has ended, with why, or ctx has.
func (a *apiServer) wait(ctx context.Context) error {
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return nil
	}
}

// startAPI starts the API server, to run until run ends, and waits until it is
// ready or wait ends.
func (p *components) startAPI(wait, run context.Context) (*apiServer, error) {
	opts, err := p.api.Complete(run)
	if err != nil {
		return nil, fmt.Errorf("configure kube-apiserver: %w", err)
	}
	if errs := opts.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("configure kube-apiserver: %w", utilerrors.NewAggregate(errs))
	}
	cfg, err := apiserver.NewConfig(opts)
	if err != nil {
		return nil, fmt.Errorf("configure kube-apiserver: %w", err)
	}
	fixCertificates(cfg)
	extra := &cfg.ApiExtensions.ExtraConfig
	extra.CRDRESTOptionsGetter = oneCache{extra.CRDRESTOptionsGetter}
	p.proxied.into(&cfg.Aggregator.GenericConfig.Config)
	completed, err := cfg.Complete()
	if err != nil {
		return nil, fmt.Errorf("configure kube-apiserver: %w", err)
	}
	chain, err := apiserver.CreateServerChain(completed)
	if err != nil {
		return nil, fmt.Errorf("create kube-apiserver: %w", err)
	}
	chain.GenericAPIServer.Handler.NonGoRestfulMux.HandlePrefix(meter.Path, p.ledger)
	chain.GenericAPIServer.Handler.NonGoRestfulMux.HandlePrefix(names.PrometheusPath, p.prom)
	server, err := chain.PrepareRun()
	if err != nil {
		return nil, fmt.Errorf("prepare kube-apiserver: %w", err)
	}
	a := &apiServer{loopback: rest.CopyConfig(chain.GenericAPIServer.LoopbackClientConfig), done: make(chan struct{})}
	labeled(run, "apiserver", func(ctx context.Context) {
		defer close(a.done)
		a.err = server.Run(ctx)
	})
	return a, a.ready(wait)
}

// ready asks /readyz until it says yes, ctx ends or the server does.
func (a *apiServer) ready(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(unlimited(a.loopback))
	if err != nil {
		return fmt.Errorf("client of kube-apiserver: %w", err)
	}
	asking, stop := context.WithTimeout(ctx, startPatience)
	defer stop()
	go func() { // a server that has ended answers nothing, and its port still takes connections
		if _ = a.wait(asking); asking.Err() == nil {
			stop()
		}
	}()
	for {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(asking)
		if err == nil {
			return nil
		}
		if pause.For(asking, 20*time.Millisecond) {
			continue
		}
		select {
		case <-a.done:
			return fmt.Errorf("kube-apiserver exited during startup: %w", a.err)
		default:
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("kube-apiserver was not ready after %v: %w", startPatience, err)
	}
}

// unlimited is cfg without a client-side limit on requests.
func unlimited(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	return cfg
}

// startManager starts kube-controller-manager.
func (p *components) startManager(ctx context.Context, g *group) error {
	cfg, err := p.manager.Config(ctx, manager.KnownControllers(), manager.ControllersDisabledByDefault(), manager.ControllerAliases())
	if err != nil {
		return fmt.Errorf("configure kube-controller-manager: %w", err)
	}
	g.start(ctx, "kube-controller-manager", "controller-manager", func(ctx context.Context) error { return manager.Run(ctx, cfg.Complete()) })
	return nil
}

// labeled runs fn in a goroutine whose CPU samples carry its component's name.
func labeled(ctx context.Context, component string, fn func(context.Context)) {
	go pprof.Do(ctx, pprof.Labels("component", component), fn)
}

// writeEgress writes the egress selector's file: every connection of the API
// server to nodes, pods, Services, webhooks and aggregated APIs goes to sock.
func writeEgress(path, sock string) error {
	return os.WriteFile(path, []byte("apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n"+
		"- name: cluster\n  connection:\n    proxyProtocol: HTTPConnect\n    transport:\n      uds:\n        udsName: "+sock+"\n"), 0o600)
}
