package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/idle"
	"berth.dev/berth/kube/serving"
)

// ControllerOptions is what `berth controller` was asked for.
type ControllerOptions struct {
	Kubeconfig string          // file; "" is the ServiceAccount of the pod that it runs in
	Notebooks  string          // own, govern, off or auto
	Training   string          // the same for training jobs
	Serving    string          // the same for InferenceServices
	FetchImage string          // that downloads models; "" is KServe's storage initializer
	Outside    serving.Outside // how InferenceServices are reached from outside of the cluster
	JobDomain  string          // DNS domain for names in TF_CONFIG; "" leaves it out
	NotebookSettings
	LeaseOptions
	MetricsAddr       string // host:port, http://LOOPBACK:port, or "" for none
	CertFile, KeyFile string // for MetricsAddr; "" is a new self-signed certificate
	// PrintDefinitions writes the definitions of Berth's kinds to stdout, and no more.
	PrintDefinitions bool
}

// NotebookSettings says how notebooks are made, and when idle ones are stopped.
type NotebookSettings struct {
	Domain                  string // the cluster's DNS domain
	FSGroup                 bool   // pods without a security context get fsGroup 100
	Istio                   bool   // make VirtualServices where the cluster has that kind
	IstioGateway, IstioHost string
	Proxied                 bool // ask notebooks through the API server
	// Idle is the policy of notebooks of which neither they nor their namespace say
	// anything.
	Idle idle.Policy
}

// ControllerFunc runs the controllers until ctx ends, and then returns nil.
type ControllerFunc func(ctx context.Context, o ControllerOptions) error

// notebookModes are the values of --notebooks.
var notebookModes = []string{"auto", "own", "govern", "off"}

// NotebooksUsage explains --notebooks, but for its default.
const NotebooksUsage = "own (Berth runs notebooks), govern (another controller runs them and Berth stops idle ones), off, or auto (govern while Kubeflow's notebook-controller is running, else own)"

// TrainingUsage explains --training, but for its default.
const TrainingUsage = "own (Berth runs TFJobs, PyTorchJobs, and TrainJobs), govern or off (another controller runs them), or auto (govern while Kubeflow's training-operator is running, or for TrainJobs its trainer, else own)"

// ServingUsage explains --serving, but for its default.
const ServingUsage = "own (Berth runs InferenceServices), govern or off (another controller runs them), or auto (govern while KServe is running, else own)"

// CheckMode rejects an invalid mode of the flag --of; "" means that none is set.
func CheckMode(of, mode string) error {
	if mode != "" && !slices.Contains(notebookModes, mode) {
		return term.Usagef("invalid --%s %q: must be own, govern, off, or auto", of, mode)
	}
	return nil
}

// NewController makes `berth controller`, which calls run.
func NewController(run ControllerFunc) *cobra.Command {
	var c ControllerOptions
	var words idle.Words
	var period, servingDomain, servingRoute string
	var verbosity int
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the controllers for notebooks, training jobs, and model services",
		Long: "Run the controllers for Kubeflow's Notebooks, TFJobs, PyTorchJobs, and TrainJobs, for KServe's InferenceServices, and for\n" +
			"stopping idle notebooks. They install their CustomResourceDefinitions. If Kubeflow's notebook-controller or\n" +
			"training-operator, or KServe, is running, they leave its kinds to it.\n" +
			"You can run several replicas: one leads, and another takes over if it stops.\n" +
			"\n" +
			"They use the cluster of --kubeconfig, else of $KUBECONFIG, else of the pod they run in. Their permissions\n" +
			"are in deploy/controller.yaml. The environment variables of Kubeflow's controllers (ADD_FSGROUP,\n" +
			"USE_ISTIO, ISTIO_GATEWAY, ISTIO_HOST, CLUSTER_DOMAIN, CUSTOM_CLUSTER_DOMAIN, ENABLE_CULLING, CULL_IDLE_TIME,\n" +
			"IDLENESS_CHECK_PERIOD, DEV) apply unless the corresponding flag is set.",
		Example: "  berth controller --kubeconfig ~/.kube/config\n" +
			"  berth controller --idle-after 8h --idle-warning 30m    stop unused notebooks\n" +
			"  berth controller --notebooks govern                    leave Notebooks to Kubeflow's controller",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(cmd.Flags(), words, period, os.LookupEnv); err != nil {
				return err
			}
			var err error
			if c.Outside, err = serving.ParseOutside(servingDomain, servingRoute); err != nil {
				return term.Usagef("%v", err)
			}
			return untilSignal(cmd.Context(), verbosity, func(ctx context.Context) error { return run(ctx, c) })
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, else the ServiceAccount of the pod)")
	f.BoolVar(&c.PrintDefinitions, "print-definitions", false, "print Berth's CustomResourceDefinitions for kubectl apply, and exit")
	f.StringVar(&c.Notebooks, "notebooks", "auto", NotebooksUsage)
	f.StringVar(&c.Training, "training", "auto", TrainingUsage)
	f.StringVar(&c.Serving, "serving", "auto", ServingUsage)
	f.StringVar(&c.FetchImage, "fetch-image", "", "image that downloads models for InferenceServices in place of KServe's storage initializer, such as one with berth-fetch")
	f.StringVar(&servingDomain, "serving-domain", "", "domain of InferenceServices outside of the cluster, as models.example.com or https://models.example.com: each has the host NAME-NAMESPACE.DOMAIN")
	f.StringVar(&servingRoute, "serving-route", "", "what leads there: gateway:NAMESPACE/NAME (HTTPRoutes of Gateway API), ingress:CLASS (Ingresses), or istio:NAMESPACE/NAME (VirtualServices)")
	f.StringVar(&c.JobDomain, "job-domain", "", "DNS domain to add to the names in TF_CONFIG, such as cluster.local ($CUSTOM_CLUSTER_DOMAIN)")
	f.StringVar(&words.After, "idle-after", "", "stop notebooks after this time without activity, such as 8h or 2d, or never; annotations of notebooks and namespaces override it ($CULL_IDLE_TIME minutes if $ENABLE_CULLING, default never)")
	f.StringVar(&words.Warning, "idle-warning", "", "time between the warning and the stop (default 10m)")
	f.StringVar(&words.By, "idle-by", "", "what counts as activity: activity (kernels, terminals, API calls, and GPUs) or gpu (GPUs; open browser tabs do not count) (default activity)")
	f.StringVar(&period, "idle-period", "", "time between two checks ($IDLENESS_CHECK_PERIOD minutes, default 1m)")
	f.BoolVar(&c.FSGroup, "fsgroup", true, "set fsGroup 100 for pods without a security context ($ADD_FSGROUP)")
	f.BoolVar(&c.Istio, "istio", true, "create VirtualServices if the cluster serves them ($USE_ISTIO)")
	f.StringVar(&c.IstioGateway, "istio-gateway", "kubeflow/kubeflow-gateway", "gateway of VirtualServices ($ISTIO_GATEWAY)")
	f.StringVar(&c.IstioHost, "istio-host", "*", "host of VirtualServices ($ISTIO_HOST)")
	f.StringVar(&c.Domain, "cluster-domain", "cluster.local", "DNS domain of the cluster ($CLUSTER_DOMAIN)")
	f.BoolVar(&c.Proxied, "through-api-server", false, "read the activity of notebooks through the API server, from outside the cluster's network ($DEV)")
	f.StringVar(&c.MetricsAddr, "metrics-addr", "127.0.0.1:10260", "address of /metrics, /healthz, /livez, and /readyz with TLS; http://127.0.0.1:PORT without TLS; \"\" to disable")
	f.StringVar(&c.CertFile, "tls-cert-file", "", "certificate for --metrics-addr (default: a new self-signed one)")
	f.StringVar(&c.KeyFile, "tls-private-key-file", "", "private key for --tls-cert-file")
	c.LeaseOptions.flags(f, "berth-controller", "run the controllers")
	f.IntVarP(&verbosity, "v", "v", 0, "log verbosity, as in Kubernetes")
	return cmd
}

// check refuses what cannot work, takes from the environment what no flag says, and
// finds the cluster. words and period are what flags say of idle notebooks.
func (c *ControllerOptions) check(f *pflag.FlagSet, words idle.Words, period string, lookup func(string) (string, bool)) error {
	if err := errors.Join(CheckMode("notebooks", c.Notebooks), CheckMode("training", c.Training), CheckMode("serving", c.Serving)); err != nil {
		return err
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return term.Usagef("set both --tls-cert-file and --tls-private-key-file, or neither")
	}
	if err := c.LeaseOptions.check(); err != nil {
		return err
	}
	if err := c.environment(f, lookup); err != nil {
		return err
	}
	if err := c.idle(words, period, lookup); err != nil {
		return err
	}
	found, err := oneCluster(c.Kubeconfig, "a controller")
	if err != nil && !c.PrintDefinitions {
		return err
	}
	c.Kubeconfig = found
	return nil
}

// environment reads Kubeflow's variables, but for those of idle notebooks. An empty
// one is not set.
func (c *ControllerOptions) environment(f *pflag.FlagSet, lookup func(string) (string, bool)) error {
	for _, v := range []struct {
		name, flag string
		text       *string
		yes        *bool
	}{
		{name: "ADD_FSGROUP", flag: "fsgroup", yes: &c.FSGroup},
		{name: "USE_ISTIO", flag: "istio", yes: &c.Istio},
		{name: "ISTIO_GATEWAY", flag: "istio-gateway", text: &c.IstioGateway},
		{name: "ISTIO_HOST", flag: "istio-host", text: &c.IstioHost},
		{name: "CLUSTER_DOMAIN", flag: "cluster-domain", text: &c.Domain},
		{name: "CUSTOM_CLUSTER_DOMAIN", flag: "job-domain", text: &c.JobDomain},
		{name: "DEV", flag: "through-api-server", yes: &c.Proxied},
	} {
		value, _ := lookup(v.name)
		switch {
		case value == "" || f.Changed(v.flag):
		case v.text != nil:
			*v.text = value
		case value != "true" && value != "false":
			return notTrueOrFalse(v.name, value)
		default:
			*v.yes = value == "true"
		}
	}
	return nil
}

// idle finds the policy for idle notebooks.
func (c *ControllerOptions) idle(words idle.Words, period string, lookup func(string) (string, bool)) error {
	enable, _ := lookup("ENABLE_CULLING")
	after, _ := lookup("CULL_IDLE_TIME")
	every, _ := lookup("IDLENESS_CHECK_PERIOD")
	if enable != "" && enable != "true" && enable != "false" {
		return notTrueOrFalse("ENABLE_CULLING", enable)
	}
	base, err := idle.FromKubeflow(enable, after, every)
	if err != nil {
		return &term.UsageError{Err: err}
	}
	if period != "" {
		if base.Period, err = positive(period); err != nil {
			return term.Usagef("invalid --idle-period %q: must be a duration such as 1m", period)
		}
	}
	policy, problems := base.With(words)
	if policy.Never && len(problems) > 0 {
		return term.Usagef("invalid --idle-after, --idle-warning, or --idle-by: %s", strings.Join(problems, "; "))
	}
	for _, p := range problems {
		klog.InfoS("Idle notebooks", "note", p)
	}
	c.Idle = policy
	return nil
}

func notTrueOrFalse(name, value string) error {
	return term.Usagef("invalid environment variable %s %q: must be true or false", name, value)
}

// positive reads a time above 0.
func positive(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = fmt.Errorf("%s must be greater than 0", text)
	}
	return d, err
}
