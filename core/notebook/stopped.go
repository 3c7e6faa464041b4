package notebook

import "strings"

// StoppedMessage says why a notebook is stopped, what is kept of it, and how to start
// it. why is what Berth noted when it stopped the notebook; "" means its user did.
func StoppedMessage(namespace, name, why string, claims []string) string {
	out := "stopped by annotation kubeflow-resource-stopped"
	if why != "" {
		out = "stopped: " + strings.TrimSuffix(why, ".")
	}
	if len(claims) > 0 {
		out += "; kept: volume claim " + strings.Join(claims, ", ")
	}
	return out + "; to start it: kubectl annotate notebook " + name + " -n " + namespace + " kubeflow-resource-stopped-"
}

// Returns begins what is said of a notebook that gave way to a workload, and was started again.
const Returns = "the notebook gave way to a workload that waited, and starts again by itself in its turn: "
