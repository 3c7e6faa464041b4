package cli_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/cli"
	"berth.dev/berth/cli/process"
	"berth.dev/berth/core/idle"
)

// controller runs `berth controller` with controllers that note what they were asked
// for, and returns what.
func controller(t *testing.T, args string) (asked *process.ControllerOptions, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	o := cli.Options{Out: &out, Err: &errs, Controller: func(_ context.Context, o process.ControllerOptions) error {
		asked = &o
		return nil
	}}
	code = cli.Main(append([]string{"berth", "controller"}, strings.Fields(args)...), o)
	return asked, errs.String(), code
}

func TestControllerOptions(t *testing.T) {
	defaults := func() process.ControllerOptions {
		return process.ControllerOptions{
			Kubeconfig: "k", Notebooks: "auto", Training: "auto", Serving: "auto", MetricsAddr: "127.0.0.1:10260",
			NotebookSettings: process.NotebookSettings{
				Domain: "cluster.local", FSGroup: true, Istio: true, IstioGateway: "kubeflow/kubeflow-gateway", IstioHost: "*", Idle: idle.Off(),
			},
			LeaseOptions: process.LeaseOptions{
				LeaderElect: true, LeaseNamespace: "kube-system", LeaseName: "berth-controller",
				LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
			},
		}
	}
	for _, tt := range []struct {
		name, args string
		env        map[string]string
		want       func(*process.ControllerOptions)
	}{
		{name: "nothing is said", want: func(*process.ControllerOptions) {}},
		{
			name: "by flags", args: "--notebooks govern --idle-after 8h --idle-warning 30m --idle-period 2m --idle-by gpu --fsgroup=false --through-api-server",
			want: func(o *process.ControllerOptions) {
				o.Notebooks, o.FSGroup, o.Proxied = "govern", false, true
				o.Idle = idle.Policy{After: 8 * time.Hour, Warning: 30 * time.Minute, Period: 2 * time.Minute, By: idle.ByGPU}
			},
		},
		{
			name: "by Kubeflow's variables",
			env: map[string]string{
				"ADD_FSGROUP": "false", "USE_ISTIO": "false", "ISTIO_GATEWAY": "a/b", "ISTIO_HOST": "h", "CLUSTER_DOMAIN": "d", "CUSTOM_CLUSTER_DOMAIN": "e", "DEV": "true",
				"ENABLE_CULLING": "true", "CULL_IDLE_TIME": "60", "IDLENESS_CHECK_PERIOD": "5",
			},
			want: func(o *process.ControllerOptions) {
				p := idle.Off()
				p.Never, p.After, p.Period = false, time.Hour, 5*time.Minute
				o.JobDomain = "e"
				o.NotebookSettings = process.NotebookSettings{Domain: "d", IstioGateway: "a/b", IstioHost: "h", Proxied: true, Idle: p}
			},
		},
		{
			name: "a flag goes before its variable", args: "--istio --cluster-domain x --idle-after never",
			env:  map[string]string{"USE_ISTIO": "false", "CLUSTER_DOMAIN": "y", "ENABLE_CULLING": "true"},
			want: func(o *process.ControllerOptions) { o.Domain = "x" },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			got, stderr, code := controller(t, "--kubeconfig k "+tt.args)
			if code != 0 || got == nil {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			want := defaults()
			tt.want(&want)
			if diff := cmp.Diff(want, *got); diff != "" {
				t.Errorf("options differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestControllerRefusesWhatCannotWork(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, tt := range []struct{ name, args, variable, value, says string }{
		{name: "no cluster", says: "no cluster: set --kubeconfig"},
		{name: "a mode that is none", args: "--kubeconfig k --notebooks yes", says: `--notebooks "yes": must be own, govern, off, or auto`},
		{name: "a certificate without its key", args: "--kubeconfig k --tls-cert-file=c", says: "set both --tls-cert-file"},
		{name: "a lease that ends before its deadline", args: "--kubeconfig k --leader-elect-lease-duration=10s", says: "shorter than the lease"},
		{name: "a time that is none", args: "--kubeconfig k --idle-after soon", says: `"soon" is not a time without activity`},
		{name: "no time between looks", args: "--kubeconfig k --idle-period 0s", says: `--idle-period "0s"`},
		{name: "a switch that is neither", args: "--kubeconfig k", variable: "USE_ISTIO", value: "yes", says: `environment variable USE_ISTIO "yes": must be true or false`},
		{name: "culling that is neither", args: "--kubeconfig k", variable: "ENABLE_CULLING", value: "1", says: `environment variable ENABLE_CULLING "1"`},
		{name: "minutes that are none", args: "--kubeconfig k", variable: "CULL_IDLE_TIME", value: "1h", says: "environment variable CULL_IDLE_TIME"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.variable != "" {
				t.Setenv(tt.variable, tt.value)
			}
			got, stderr, code := controller(t, tt.args)
			if code != 2 || got != nil || !strings.Contains(stderr, tt.says) {
				t.Errorf("exit code %d, started %v, and it says\n%swant 2, false and %q", code, got != nil, stderr, tt.says)
			}
		})
	}
}
