package agent

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/settings"
)

// first gives the settings of a node without a label. Where the driver is, where MPS
// has its folder and which Xids count is theirs to say for as long as the agent runs:
// a label may choose another file, but not move these. Settings that are refused are
// told of when they are watched; here the defaults stand for them.
func first(o settings.Options) config.Settings {
	if c := settings.Read(o, ""); c.InForce {
		return c.Settings
	}
	return config.DefaultSettings()
}

// codes writes a set of Xids as DP_DISABLE_HEALTHCHECKS has it.
func codes(x config.Xids) string {
	if x.All {
		return "all"
	}
	var out []string
	for _, code := range x.Some {
		out = append(out, strconv.Itoa(code))
	}
	return strings.Join(out, ",")
}

// unused names settings of NVIDIA's that have no effect here.
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
