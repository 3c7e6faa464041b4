// Package buildinfo says which version of Berth this is, and of which
// Kubernetes it carries the control plane.
package buildinfo

import "runtime/debug"

const (
	// Version is Berth's own version.
	Version = "0.1.0"
	// Kubernetes is the version of the embedded control plane; it is the
	// version of k8s.io/kubernetes in go.mod (a test holds the two together).
	Kubernetes = "v1.36.3"
)

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
