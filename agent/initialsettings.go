package agent

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/settings"
)

// loadInitialSettings sets the settings of a node without a label. Some are used for as
// long as the agent runs, even if a label selects another file: where the driver is, the
// directory of MPS, and which Xids count. It reports whether the settings are refused,
// which is reported when they are watched; then the defaults are used until
// waitForSettings ends.
func (a *agent) loadInitialSettings() (refused bool) {
	if a.late != nil {
		a.initial = *a.late
		return false
	}
	c := settings.Read(a.o.Settings, "")
	if a.initial = c.Settings; !c.InForce {
		a.initial = config.DefaultSettings()
	}
	return !c.InForce
}

// waitForSettings makes the agent start over with the first valid settings.
func (a *agent) waitForSettings(g *group) {
	valid := make(chan struct{})
	found := sync.OnceFunc(func() { close(valid) })
	listen := a.reconciler.listen
	a.reconciler.prepare = func(Status) {}
	a.reconciler.listen = func(s Status) {
		if !s.InForce {
			listen(s)
			return
		}
		a.status.Store(&s)
		found()
	}
	g.run(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-valid:
			return errLate
		}
	})
}

// unused returns the settings of NVIDIA's that have no effect here.
func unused(s config.Settings) []string {
	var out []string
	if s.GFD.Oneshot {
		out = append(out, "oneshot has no effect: labels follow the node")
	}
	if len(s.CDIFeatureFlags)+len(s.CDIDisableHooks) > 0 {
		out = append(out, "cdi-feature-flags and cdi-disable-hooks have no effect: the CDI generator's defaults are used")
	}
	if s.KubeletSocket != config.DefaultKubeletSocket {
		out = append(out, "kubelet-socket has no effect: use --kubelet-dir")
	}
	return out
}

// writeFeatures writes labels to a file for Node Feature Discovery, as GPU Feature
// Discovery's outputFile: a line each, sorted. The file is never half written.
func writeFeatures(path string, labels map[string]string) error {
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&b, "%s=%s\n", key, labels[key])
	}
	if old, err := os.ReadFile(filepath.Clean(path)); err == nil && bytes.Equal(old, b.Bytes()) {
		return nil
	}
	next := path + ".new"
	if err := os.WriteFile(next, b.Bytes(), 0o644); err != nil { //nolint:gosec // others read it
		return fmt.Errorf("write labels to %s: %w", path, err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("write labels to %s: %w", path, err)
	}
	return nil
}
