package process

import (
	"context"
	"net"
	"os"

	"github.com/spf13/cobra"

	"berth.dev/berth/api"
	"berth.dev/berth/cli/term"
)

// ActivatorOptions is what `berth activator` was asked for.
type ActivatorOptions struct {
	Kubeconfig        string // file; "" is the ServiceAccount of the pod that it runs in
	PodName, PodIP    string // of the pod that it runs in
	Bind              string // IP to listen on for requests; "" is all
	Service           string // before all replicas; "" is that this is the only one
	Through           string // HTTP proxy to pods: host:port, or the path of a Unix socket; "" is none
	Addr              string // host:port, http://LOOPBACK:port, or "" for none
	CertFile, KeyFile string // for Addr; "" is a new self-signed certificate
}

// ActivatorFunc holds and passes on requests until ctx ends, and then returns nil.
type ActivatorFunc func(ctx context.Context, o ActivatorOptions) error

// NewActivator makes `berth activator`, which calls run.
func NewActivator(run ActivatorFunc) *cobra.Command {
	var a ActivatorOptions
	var verbosity int
	cmd := &cobra.Command{
		Use:   "activator",
		Short: "Hold and count the requests of model services that scale with them, to zero too",
		Long: "Stand before the model services whose replicas follow their requests: count requests, hold those for which no replica is\n" +
			"ready, and have the controllers start one. Run two replicas or more: each has an EndpointSlice at the Services.\n" +
			"It also holds requests for other model services while no replica of them is ready.\n" +
			"\n" +
			"It uses the cluster of --kubeconfig, else of $KUBECONFIG, else of the pod it runs in. Its permissions are in deploy/activator.yaml.",
		Example: "  kubectl apply -f deploy/activator.yaml -f deploy/activator-deployment.yaml    run it in the cluster",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.check(); err != nil {
				return err
			}
			return untilSignal(cmd.Context(), verbosity, func(ctx context.Context) error { return run(ctx, a) })
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&a.Kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, else the ServiceAccount of the pod)")
	f.StringVar(&a.PodName, "pod-name", "", "name of this pod ($POD_NAME)")
	f.StringVar(&a.PodIP, "pod-ip", "", "IP address of this pod, to which Services lead ($POD_IP)")
	f.StringVar(&a.Bind, "bind-address", "", "IP address to listen on for requests, each model service at another port (default all)")
	f.StringVar(&a.Service, "service", api.ActivatorApp, "Service in "+api.ActivatorNamespace+" in front of all replicas of the activator; only its ready pods take requests; \"\" for a single replica without one")
	f.StringVar(&a.Through, "through", "", "HTTP proxy with CONNECT to reach pods by, as HOST:PORT or the path of a Unix socket")
	f.StringVar(&a.Addr, "listen", "127.0.0.1:10262", "address of /stats, /metrics, /healthz, /livez, and /readyz with TLS; http://127.0.0.1:PORT without TLS; \"\" to disable")
	f.StringVar(&a.CertFile, "tls-cert-file", "", "certificate for --listen (default: a new self-signed one)")
	f.StringVar(&a.KeyFile, "tls-private-key-file", "", "private key for --tls-cert-file")
	f.IntVarP(&verbosity, "v", "v", 0, "log verbosity, as in Kubernetes")
	return cmd
}

// check refuses what cannot work, takes from the environment what no flag says, and finds the cluster.
func (a *ActivatorOptions) check() error {
	for value, variable := range map[*string]string{&a.PodName: "POD_NAME", &a.PodIP: "POD_IP"} {
		if *value == "" {
			*value = os.Getenv(variable)
		}
	}
	ip := net.ParseIP(a.PodIP)
	switch {
	case a.PodName == "":
		return term.Usagef("set --pod-name or POD_NAME to the name of this pod")
	case ip == nil || ip.IsLoopback() || ip.IsUnspecified():
		return term.Usagef("invalid --pod-ip %q: must be the IP address of this pod, such as 10.1.2.3", a.PodIP)
	case a.Bind != "" && net.ParseIP(a.Bind) == nil:
		return term.Usagef("invalid --bind-address %q: must be an IP address", a.Bind)
	case (a.CertFile == "") != (a.KeyFile == ""):
		return term.Usagef("set both --tls-cert-file and --tls-private-key-file, or neither")
	}
	found, err := oneCluster(a.Kubeconfig, "an activator")
	a.Kubeconfig = found
	return err
}
