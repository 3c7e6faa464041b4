package process

import (
	"context"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/term"
)

// MeterOptions is what `berth meter` was asked for.
type MeterOptions struct {
	Kubeconfig string // file; "" is the ServiceAccount of the pod that it runs in
	Dir        string // where the ledger is
	LedgerPolicy
	Addr              string // host:port, http://LOOPBACK:port, or "" for none
	CertFile, KeyFile string // for Addr; "" is a new self-signed certificate
}

// MeterFunc writes and serves the ledger until ctx ends, and then returns nil.
type MeterFunc func(ctx context.Context, o MeterOptions) error

// NewMeter makes `berth meter`, which calls run.
func NewMeter(run MeterFunc) *cobra.Command {
	var m MeterOptions
	var verbosity int
	cmd := &cobra.Command{
		Use:   "meter",
		Short: "Write the ledger of a cluster: who holds which GPUs, and what that costs",
		Long: "Write the ledger of a cluster, and serve it to `berth cost`, `berth idle`, `berth audit`, and `berth report`. It reads the cluster, and writes\n" +
			"nothing but how budgets of queues stand: no scheduler and no controller of Berth is needed. Only one process can write a ledger. It works with any scheduler, and with the device plugins\n" +
			"of NVIDIA and Berth.\n" +
			"\n" +
			"It uses the cluster of --kubeconfig, else of $KUBECONFIG, else of the pod it runs in. Its permissions are in deploy/meter.yaml.",
		Example: "  berth meter --kubeconfig ~/.kube/config --data ./ledger\n" +
			"  kubectl apply -f deploy/meter.yaml -f deploy/meter-deployment.yaml    run it in the cluster",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := m.check(); err != nil {
				return err
			}
			return untilSignal(cmd.Context(), verbosity, func(ctx context.Context) error { return run(ctx, m) })
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&m.Kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, else the ServiceAccount of the pod)")
	f.StringVar(&m.Dir, "data", "", "folder of the ledger (required)")
	m.LedgerPolicy.AddFlags(f)
	f.StringVar(&m.Addr, "listen", "127.0.0.1:10261", "address of the ledger, /metrics, /healthz, /livez, and /readyz with TLS; http://127.0.0.1:PORT without TLS; \"\" to disable")
	f.StringVar(&m.CertFile, "tls-cert-file", "", "certificate for --listen (default: a new self-signed one)")
	f.StringVar(&m.KeyFile, "tls-private-key-file", "", "private key for --tls-cert-file")
	f.IntVarP(&verbosity, "v", "v", 0, "log verbosity, as in Kubernetes")
	return cmd
}

// check refuses what cannot work, and finds the cluster.
func (m *MeterOptions) check() error {
	if m.Dir == "" {
		return term.Usagef("set --data to the folder of the ledger")
	}
	if (m.CertFile == "") != (m.KeyFile == "") {
		return term.Usagef("set both --tls-cert-file and --tls-private-key-file, or neither")
	}
	if err := m.LedgerPolicy.Check(); err != nil {
		return err
	}
	found, err := oneCluster(m.Kubeconfig, "a meter")
	m.Kubeconfig = found
	return err
}
