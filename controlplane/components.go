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

	"berth.dev/berth/internal/datadir"
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
}

// parse gives flags to the options of one component.
func parse(fss cliflag.NamedFlagSets, args []string) error {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, set := range fss.FlagSets {
		fs.AddFlagSet(set)
	}
	return fs.Parse(args)
}

// newComponents parses the options. Flag names are used rather than struct
// fields because upstream keeps them stable.
func newComponents(dir datadir.Dir, c *certs, g *guard, store, egress string, port int) (*components, error) {
	p := &components{api: apioptions.NewServerRunOptions(), sched: scheduleroptions.NewOptions()}
	var err error
	if p.manager, err = manageroptions.NewKubeControllerManagerOptions(); err != nil {
		return nil, fmt.Errorf("options of kube-controller-manager: %w", err)
	}
	g.register(p.api.Admission.GenericAdmission)
	flags := p.manager.Flags(manager.KnownControllers(), manager.ControllersDisabledByDefault(), manager.ControllerAliases())
	p.manager.ParsedFlags = &flags
	err = errors.Join(
		parse(p.api.Flags(), apiFlags(c, store, egress, port)),
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

// startAPI starts the API server, to run until run ends, and waits until it is
// ready or wait ends. The returned config is its own loopback client, with all
// rights. done is closed when the server has ended after run.
func (p *components) startAPI(wait, run context.Context) (loopback *rest.Config, done <-chan struct{}, err error) {
	opts, err := p.api.Complete(run)
	if err != nil {
		return nil, nil, fmt.Errorf("configure kube-apiserver: %w", err)
	}
	if errs := opts.Validate(); len(errs) > 0 {
		return nil, nil, fmt.Errorf("configure kube-apiserver: %w", utilerrors.NewAggregate(errs))
	}
	cfg, err := apiserver.NewConfig(opts)
	if err != nil {
		return nil, nil, fmt.Errorf("configure kube-apiserver: %w", err)
	}
	extra := &cfg.ApiExtensions.ExtraConfig
	extra.CRDRESTOptionsGetter = oneCache{extra.CRDRESTOptionsGetter}
	completed, err := cfg.Complete()
	if err != nil {
		return nil, nil, fmt.Errorf("configure kube-apiserver: %w", err)
	}
	chain, err := apiserver.CreateServerChain(completed)
	if err != nil {
		return nil, nil, fmt.Errorf("make kube-apiserver: %w", err)
	}
	server, err := chain.PrepareRun()
	if err != nil {
		return nil, nil, fmt.Errorf("prepare kube-apiserver: %w", err)
	}
	ended := make(chan error, 1)
	finished := make(chan struct{})
	labelled(run, "apiserver", func(ctx context.Context) {
		ended <- server.Run(ctx)
		close(finished)
	})
	loopback = rest.CopyConfig(chain.GenericAPIServer.LoopbackClientConfig)
	return loopback, finished, waitReady(wait, loopback, ended)
}

// waitReady asks /readyz until it says yes, ctx ends or the server does.
func waitReady(ctx context.Context, cfg *rest.Config, ended <-chan error) error {
	clients, err := kubernetes.NewForConfig(unlimited(cfg))
	if err != nil {
		return fmt.Errorf("client of kube-apiserver: %w", err)
	}
	client := clients.Discovery().RESTClient()
	deadline := time.After(startPatience)
	var last error
	for {
		if _, last = client.Get().AbsPath("/readyz").DoRaw(ctx); last == nil {
			return nil
		}
		select {
		case err := <-ended:
			return fmt.Errorf("kube-apiserver ended while it started: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline:
			return fmt.Errorf("kube-apiserver was not ready after %v: %w", startPatience, last)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// unlimited is cfg without a client-side limit on requests.
func unlimited(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	return cfg
}

// startManager starts kube-controller-manager.
func (p *components) startManager(ctx context.Context, ended func(name string, err error)) error {
	cfg, err := p.manager.Config(ctx, manager.KnownControllers(), manager.ControllersDisabledByDefault(), manager.ControllerAliases())
	if err != nil {
		return fmt.Errorf("configure kube-controller-manager: %w", err)
	}
	labelled(ctx, "controller-manager", func(ctx context.Context) {
		ended("kube-controller-manager", manager.Run(ctx, cfg.Complete()))
	})
	return nil
}

// labelled runs fn in a goroutine whose CPU samples carry its component's name.
func labelled(ctx context.Context, component string, fn func(context.Context)) {
	go pprof.Do(ctx, pprof.Labels("component", component), fn)
}

// writeEgress writes the egress selector's file: every connection of the API
// server to nodes, pods, Services, webhooks and aggregated APIs goes to sock.
func writeEgress(path, sock string) error {
	return os.WriteFile(path, []byte("apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n"+
		"- name: cluster\n  connection:\n    proxyProtocol: HTTPConnect\n    transport:\n      uds:\n        udsName: "+sock+"\n"), 0o600)
}
