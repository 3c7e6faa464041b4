package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"berth.dev/berth/agent"
	"berth.dev/berth/agent/exporter"
	"berth.dev/berth/agent/settings"
)

// nvmlProgram owns the driver; it stands beside this program.
const nvmlProgram = "berth-nvml"

type flags struct {
	set       *pflag.FlagSet
	o         agent.Options
	nvml      string
	podLabels []string
	verbosity int
}

func newFlags() *flags {
	f := &flags{set: pflag.NewFlagSet("berth agent", pflag.ContinueOnError)}
	s, o := f.set, &f.o
	s.SortFlags = false
	s.StringVar(&o.NodeName, "node-name", "", "name of this node's Node object ($NODE_NAME, else the host's name)")
	s.StringVar(&o.FakeFile, "fake", "", "serve the fake GPUs of this text file, and label the node as fake")
	s.StringSliceVar(&o.FakeDevices, "fake-devices", nil, "devices of the node that --fake's file may add to containers besides /dev/null, /dev/zero and /dev/full, such as /dev/nvidia*")
	s.BoolVar(&o.Observe, "observe", false, "serve only metrics: no registration, labels, MIG, or MPS")
	s.StringVar(&o.Allocation, "allocation", agent.DefaultAllocation, "committed (pods get the devices that Berth's scheduler chose; needs a runtime with CDI) or kubelet (the kubelet chooses, as with NVIDIA's plugin)")
	s.StringSliceVar(&o.SchedulerNames, "scheduler-names", []string{"berth-scheduler"}, "schedulers whose pods do not start without committed devices")
	s.BoolVar(&o.Required, "commitments-required", false, "refuse every pod without committed devices, whichever scheduler bound it")
	s.BoolVar(&o.TakeLabels, "take-labels", false, "write NVIDIA's labels even if GPU Feature Discovery or another component writes them")
	s.StringVar(&o.Kubeconfig, "kubeconfig", "", "cluster and identity (default: the ServiceAccount of this pod)")
	s.StringVar(&o.Pods, "pods", agent.PodsAPI, "where to read pods: api, or kubelet for a node without an API server")
	s.StringVar(&o.KubeletURL, "kubelet-url", "", "the kubelet's API, for --pods kubelet")
	s.StringVar(&o.KubeletDir, "kubelet-dir", "/var/lib/kubelet", "the kubelet's directory")
	s.StringVar(&o.CDIDir, "cdi-dir", "/var/run/cdi", "directory in which the container runtime reads CDI specs")
	s.StringVar(&o.DevRoot, "dev-root", "/", "directory that contains the node's dev, as this process sees it")
	s.StringVar(&o.MIGFile, "mig-config-file", "", "MIG configurations in mig-parted's format; the label nvidia.com/mig.config picks one ($MIG_CONFIG_FILE)")
	s.StringVar(&o.MPSProgram, "mps-program", "", "nvidia-cuda-mps-control (default: from the PATH)")
	s.StringVar(&o.RecordDir, "record-dir", "", "directory for a record of pods that held GPUs of this node and are gone, from which berth meter makes up what it missed (default: none is kept)")
	s.StringVar(&o.Listen, "listen", ":9400", "address of the metrics, with TLS, for clients that the API server lets get /metrics; http://:9400, or a loopback address without https://, serves everyone without TLS; \"\" serves none ($DCGM_EXPORTER_LISTEN)")
	s.StringVar(&o.WebConfig, "web-config-file", "", "TLS and passwords for --listen in the format of Prometheus' exporters, instead of asking the API server ($DCGM_EXPORTER_WEB_CONFIG_FILE)")
	s.StringVar(&o.CertFile, "tls-cert-file", "", "certificate for --listen (default: one created at startup)")
	s.StringVar(&o.KeyFile, "tls-private-key-file", "", "key of --tls-cert-file")
	s.StringVar(&o.MetricsFile, "metrics-file", "", "metrics to serve, as CSV in dcgm-exporter's format (default: dcgm-exporter's default set) ($DCGM_EXPORTER_COLLECTORS)")
	s.DurationVar(&o.Interval, "interval", agent.DefaultInterval, "serve the previous scrape again if it is younger than this")
	s.BoolVar(&o.OldHostname, "old-hostname-label", false, "label metrics with Hostname, as dcgm-exporter did before 4.5, instead of hostname")
	s.BoolVar(&o.OldLabels, "old-labels", false, "label metrics with pod_name, pod_namespace, container_name and uuid, as dcgm-exporter's --use-old-namespace ($DCGM_EXPORTER_USE_OLD_NAMESPACE)")
	s.BoolVar(&o.PodLabels.On, "pod-labels", false, "add the labels of pods to the series of their devices ($DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS)")
	s.StringSliceVar(&f.podLabels, "pod-label-allowlist-regex", nil, "with --pod-labels, add only labels whose keys match one of these ($DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX)")
	s.StringSliceVar(&o.Resources, "resource-names", nil, "resources besides nvidia.com/... whose devices are GPUs, for pods that another plugin serves ($NVIDIA_RESOURCE_NAMES)")
	s.BoolVar(&o.Duplicate, "duplicate-shared", false, "report the GPU's own values for every container that shares it, as dcgm-exporter does; sums over pods then count them several times ($KUBERNETES_VIRTUAL_GPUS)")
	s.StringVar(&f.nvml, "nvml-program", "", "the program that reads the driver (default: "+nvmlProgram+" next to this one)")
	for _, own := range settings.Flags() {
		s.String(own.Name, "", own.Usage)
		if own.Bool {
			s.Lookup(own.Name).NoOptDefVal = "true"
		}
	}
	s.IntVarP(&f.verbosity, "v", "v", 0, "1 logs more")
	s.Usage = func() {
		fmt.Fprintf(os.Stdout, "Serve the GPUs of this node to its kubelet: device plugin, labels, health and metrics in one process.\n\nUsage:\n  berth agent [flags]\n\nFlags:\n%s", s.FlagUsages())
	}
	return f
}

// options are what the flags, and the environment where they say nothing, ask for.
func (f *flags) options(env func(string) string) (agent.Options, error) {
	o := f.o
	given := map[string]string{}
	ours := map[string]bool{}
	for _, own := range settings.Flags() {
		ours[own.Name] = true
	}
	f.set.Visit(func(flag *pflag.Flag) {
		if ours[flag.Name] {
			given[flag.Name] = flag.Value.String()
		}
	})
	var err error
	if o.Settings, err = settings.New(given, env); err != nil {
		return o, err
	}
	or := func(flag string, to *string, name string) {
		if v := env(name); v != "" && !f.set.Changed(flag) {
			*to = v
		}
	}
	or("node-name", &o.NodeName, "NODE_NAME")
	or("mig-config-file", &o.MIGFile, "MIG_CONFIG_FILE")
	f.exporterOptions(&o, env)
	if err := f.podLabelOptions(&o, env); err != nil {
		return o, err
	}
	if o.NodeName == "" {
		host, err := os.Hostname()
		if err != nil {
			return o, fmt.Errorf("find this node's name: %w; give --node-name", err)
		}
		o.NodeName = strings.ToLower(host)
	}
	program, err := nvmlPath(f.nvml)
	if err != nil {
		return o, err
	}
	o.Child = []string{program}
	if o.FakeFile != "" {
		o.Child = append(o.Child, "--fake", o.FakeFile, "--node", o.NodeName, "--fake-devices", strings.Join(o.FakeDevices, ","))
		if !o.Observe { // what is cut stays cut when the agent restarts, until the node is
			o.Child = append(o.Child, "--fake-state", filepath.Join(o.CDIDir, "berth-fake-gpus.state"))
		}
	}
	return o, nil
}

// exporterOptions reads the environment variables of dcgm-exporter that have a flag
// here, where the flag is not given. One that cannot be read is left out, and told of:
// it is not worth a node's GPUs.
func (f *flags) exporterOptions(o *agent.Options, env func(string) string) {
	for _, v := range []struct{ flag, name string }{
		{"listen", "DCGM_EXPORTER_LISTEN"},
		{"web-config-file", "DCGM_EXPORTER_WEB_CONFIG_FILE"},
		{"metrics-file", "DCGM_EXPORTER_COLLECTORS"},
		{"old-labels", "DCGM_EXPORTER_USE_OLD_NAMESPACE"},
		{"duplicate-shared", "KUBERNETES_VIRTUAL_GPUS"},
		{"resource-names", "NVIDIA_RESOURCE_NAMES"},
		{"pod-labels", "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS"},
	} {
		text := env(v.name)
		if text == "" || f.set.Changed(v.flag) {
			continue
		}
		if err := f.set.Set(v.flag, text); err != nil {
			o.MetricsWarnings = append(o.MetricsWarnings, fmt.Sprintf("%s is left out: %v", v.name, err))
		}
	}
	o.WebConfig = f.o.WebConfig
	o.Listen, o.MetricsFile, o.OldLabels, o.Duplicate, o.Resources = f.o.Listen, f.o.MetricsFile, f.o.OldLabels, f.o.Duplicate, f.o.Resources
}

// podLabelOptions reads which labels of pods may be shown. A variable that cannot be
// read shows none: to show all instead would tell more than was wanted.
func (f *flags) podLabelOptions(o *agent.Options, env func(string) string) error {
	const name = "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX"
	given := f.set.Changed("pod-label-allowlist-regex")
	o.PodLabels.On = f.o.PodLabels.On
	patterns := f.podLabels
	if text := env(name); text != "" && !given {
		patterns = strings.Split(text, ",")
	}
	for _, text := range patterns {
		r, err := regexp.Compile(text)
		switch {
		case err != nil && given:
			return fmt.Errorf("--pod-label-allowlist-regex %q: %w", text, err)
		case err != nil:
			o.PodLabels = exporter.PodLabels{}
			o.MetricsWarnings = append(o.MetricsWarnings, fmt.Sprintf("%s %q: %v; no labels of pods are shown", name, text, err))
			return nil
		}
		o.PodLabels.Allowed = append(o.PodLabels.Allowed, r)
	}
	return nil
}

// nvmlPath finds the program that reads the driver.
func nvmlPath(given string) (string, error) {
	if given != "" {
		if _, err := exec.LookPath(given); err != nil {
			return "", fmt.Errorf("--nvml-program: %w", err)
		}
		return given, nil
	}
	self, err := os.Executable()
	if err == nil {
		beside := filepath.Join(filepath.Dir(self), nvmlProgram)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(nvmlProgram)
	if err != nil {
		return "", fmt.Errorf("find %s: it is neither next to %s nor on the PATH; build it with `make agent`, or set --nvml-program", nvmlProgram, self)
	}
	return path, nil
}
