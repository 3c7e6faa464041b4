package agent

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/agent/allocation"
	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/agent/pods"
	"berth.dev/berth/agent/record"
	"berth.dev/berth/internal/listen"
)

// tokenFile is where a pod finds the token of its ServiceAccount.
const tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // a path

// keepRecord has the pods recorded that are gone. Devices do not depend on it, so the agent goes on without.
func (a *agent) keepRecord(source *pods.API) {
	if a.o.RecordDir == "" {
		return
	}
	r, err := record.Open(a.o.RecordDir, a.o.Log)
	if err != nil {
		a.o.Log.Warn("no record of pods that are gone is kept", "error", err)
		return
	}
	a.record = r
	source.OnGone(func(p *v1.Pod) { r.Gone(p, time.Now()) })
}

// pods begins to follow the pods of the node.
func (a *agent) pods(g *group) (allocation.PodSource, error) {
	if a.cluster != nil {
		source := pods.FromAPI(a.cluster.client.CoreV1().RESTClient(), a.o.NodeName)
		a.keepRecord(source)
		g.run(source.Run)
		return source, nil
	}
	o := pods.KubeletOptions{URL: a.o.KubeletURL, Dir: filepath.Join(a.o.KubeletDir, "pods"), Log: a.o.Log}
	if _, err := os.Stat(tokenFile); err == nil {
		o.TokenFile = tokenFile
	}
	var err error
	if o.Client, err = kubeletClient(a.o.KubeletURL); err != nil {
		return nil, err
	}
	source := pods.FromKubelet(o)
	g.run(source.Run)
	return source, nil
}

// kubeletClient speaks to the kubelet of this machine. Its certificate is one that
// it has signed itself, so it is believed on loopback alone, where no other machine can
// have the port of a running kubelet.
func kubeletClient(address string) (*http.Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("--kubelet-url %q: %w", address, err)
	}
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: listen.Local(u.Hostname()), MinVersion: tls.VersionTLS12}, //nolint:gosec // on loopback alone
		},
	}, nil
}

// DriverFlags tell the child where the driver is: in this process's own view, and on
// the host, whose paths go into CDI specs.
func DriverFlags(s config.Settings) []string {
	own := s.Plugin.ContainerDriverRoot
	if info, err := os.Stat(own); err != nil || !info.IsDir() {
		own = s.DriverRoot
	}
	dev := own
	if s.DevRoot != s.DriverRoot {
		dev = s.DevRoot
	}
	return []string{"--driver-root", own, "--host-driver-root", s.DriverRoot, "--dev-root", dev, "--host-dev-root", s.DevRoot, "--hook", s.Plugin.CTKPath}
}

// SetGPUs does nothing.
func (nowhere) SetGPUs(_ nvml.Snapshot, _ map[string]bool, _ config.Settings) error { return nil }
