// Package buildinfo says which version of Berth this is, and of which
// Kubernetes it carries the control plane.
package buildinfo

import (
	"fmt"
	"runtime/debug"
)

const (
	// Version is Berth's own version.
	Version = "0.1.0"
	// Kubernetes is the version of the embedded control plane; it is the
	// version of k8s.io/kubernetes in go.mod (a test holds the two together).
	Kubernetes = "v1.36.3"
	// newestMinor is the minor version of Kubernetes, and oldestMinor that of the
	// oldest Kubernetes 1 whose API Kubernetes' own code can emulate and Berth
	// supports: three before.
	newestMinor = 36
	oldestMinor = newestMinor - 3
)

// KubernetesMinors are the versions of Kubernetes that Berth supports, "1.33" and
// so on, oldest first. The last one is that of the embedded control plane.
func KubernetesMinors() []string {
	var out []string
	for minor := oldestMinor; minor <= newestMinor; minor++ {
		out = append(out, fmt.Sprintf("1.%d", minor))
	}
	return out
}

// Revision is the commit the program was built from, or "unknown".
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "unknown"
}
