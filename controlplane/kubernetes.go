package controlplane

import (
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/internal/buildinfo"
)

// chooseKubernetes returns the version of Kubernetes whose API is served: the one that
// is asked for, else the one that the folder had. "" is the program's own, and the
// folder then follows the program.
func chooseKubernetes(asked, had string) (string, error) {
	minors := buildinfo.KubernetesMinors()
	if asked == minors[len(minors)-1] {
		return "", nil
	}
	if asked == "" {
		asked = had
	}
	if asked != "" && !slices.Contains(minors, asked) {
		return "", fmt.Errorf("Kubernetes %s is not supported: must be one of %s; set --kubernetes-version", asked, strings.Join(minors, ", "))
	}
	return asked, nil
}
