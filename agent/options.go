package agent

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"berth.dev/berth/agent/access"
	"berth.dev/berth/agent/exporter"
	"berth.dev/berth/agent/settings"
	"berth.dev/berth/api"
)

// Where an agent learns of the pods of its node.
const (
	PodsAPI     = "api"     // from the API server, by a watch
	PodsKubelet = "kubelet" // from the kubelet's own API: a node without an API server
)

// Options say how an agent serves its node.
type Options struct {
	NodeName   string // of the Node object; needed
	Kubeconfig string // file; "" is the ServiceAccount of the pod that it runs in
	// Pods is PodsAPI or PodsKubelet. With PodsKubelet nothing is written to any API
	// server: no labels, no events.
	Pods       string
	KubeletURL string // of the kubelet's API, for PodsKubelet, such as https://127.0.0.1:10250

	// Child is the program that owns the driver, with its arguments: berth-nvml.
	Child []string
	// FakeFile is the text file of GPUs that do not exist and that Child serves; the
	// node is labeled so. "" is real ones.
	FakeFile string
	// FakeDevices are devices of the node that FakeFile may give to containers, as
	// fakegpu.CheckDevices has them.
	FakeDevices []string

	KubeletDir string // the kubelet's folder, with device-plugins and pod-resources below it
	CDIDir     string // for CDI specs, where the container runtime reads them
	DevRoot    string // the folder that has the node's dev, as the agent sees it

	// Allocation is api.AllocationCommitted or api.AllocationKubelet.
	Allocation string
	// SchedulerNames are the schedulers whose pods must have committed devices.
	SchedulerNames []string
	// Required refuses every pod without committed devices.
	Required bool
	// Observe touches nothing: no registration, no labels, no MIG, no MPS. Metrics
	// attribute devices by what the kubelet says.
	Observe bool

	// TakeLabels writes NVIDIA's labels also where another writes them.
	TakeLabels bool

	// Settings is where the configuration of NVIDIA's device plugin is.
	Settings settings.Options
	// MIGFile is a file in mig-parted's format; "" leaves MIG as it is.
	MIGFile string
	// MPSProgram is nvidia-cuda-mps-control; "" finds it on the PATH.
	MPSProgram string

	// RecordDir is a folder for the record of pods that held GPUs and are gone, which is served beside the metrics; "" keeps none.
	RecordDir string

	Listen            string // of the metrics, as access.Options.Address; "" is none
	WebConfig         string // file of who may read them, as access.Options.WebConfig; "" is none
	CertFile, KeyFile string // of their certificate; "" is a new self-signed certificate

	MetricsFile string             // CSV of metrics in dcgm-exporter's format; "" is its default set
	PodLabels   exporter.PodLabels // which labels of pods the series of their devices carry
	// MetricsWarnings are what is wrong with settings of the metrics that come from
	// the environment; they are logged.
	MetricsWarnings []string
	Interval        time.Duration // a scrape younger than this is given again
	OldHostname     bool          // label metrics with Hostname, as dcgm-exporter did before 4.5
	OldLabels       bool          // pod_name, pod_namespace, container_name and uuid, as dcgm-exporter's --use-old-namespace
	Resources       []string      // beside nvidia.com/..., whose devices are GPUs in what the kubelet tells
	Duplicate       bool          // every sharer of a GPU gets the GPU's own values, as upstream's exporter gives them

	Log *slog.Logger
}

// DefaultInterval lets two Prometheuses that scrape at once share a reading.
const DefaultInterval = time.Second

// DefaultAllocation gives pods the devices that were committed to them.
const DefaultAllocation = api.AllocationCommitted

// Validate says what is wrong with o, naming the flag.
func (o Options) Validate() error {
	switch {
	case o.NodeName == "":
		return fmt.Errorf("--node-name is empty: give the name of this node's Node object, in a pod by the downward API (spec.nodeName)")
	case o.Pods != PodsAPI && o.Pods != PodsKubelet:
		return fmt.Errorf("invalid --pods %q: must be %s or %s", o.Pods, PodsAPI, PodsKubelet)
	case o.Pods == PodsKubelet && o.KubeletURL == "":
		return fmt.Errorf("--kubelet-url is empty: with --pods kubelet give the kubelet's address, such as https://127.0.0.1:10250")
	case !slices.Contains([]string{api.AllocationCommitted, api.AllocationKubelet}, o.Allocation):
		return fmt.Errorf("invalid --allocation %q: must be %s or %s", o.Allocation, api.AllocationCommitted, api.AllocationKubelet)
	case o.Allocation == api.AllocationKubelet && o.Required:
		return fmt.Errorf("--commitments-required needs --allocation %s: otherwise the kubelet chooses devices", api.AllocationCommitted)
	case len(o.Child) == 0:
		return fmt.Errorf("no program to read the driver: set --nvml-program")
	case o.Interval < 0:
		return fmt.Errorf("invalid --interval %s: must be 0 or more", o.Interval)
	case o.Pods == PodsKubelet && o.MIGFile != "":
		return fmt.Errorf("--mig-config-file needs the node's label, which --pods kubelet does not read")
	}
	if o.Listen == "" {
		return nil
	}
	return o.access().Check(o.Pods == PodsAPI)
}

// access says who may read the metrics, but for the API server that is asked.
func (o Options) access() access.Options {
	return access.Options{Address: o.Listen, WebConfig: o.WebConfig, CertFile: o.CertFile, KeyFile: o.KeyFile}
}

func (o Options) deviceDir() string { return filepath.Join(o.KubeletDir, "device-plugins") }

func (o Options) podResources() string {
	return filepath.Join(o.KubeletDir, "pod-resources", "kubelet.sock")
}
