package exporter

import (
	"encoding/json"
	"net/url"

	"k8s.io/apimachinery/pkg/api/resource"
)

// PodMetricsPath is the path at the API server under which the metrics API
// (metrics.k8s.io/v1beta1) has its readings of a pod.
func PodMetricsPath(namespace, name string) string {
	return "/apis/metrics.k8s.io/v1beta1/namespaces/" + url.PathEscape(namespace) + "/pods/" + url.PathEscape(name)
}

// ContainerCPU reads from a PodMetrics in JSON how much CPU each container uses, by its name.
// It returns an error if raw is not JSON of that form.
func ContainerCPU(raw []byte) (map[string]resource.Quantity, error) {
	var pod struct {
		Containers []struct {
			Name  string `json:"name"`
			Usage struct {
				CPU resource.Quantity `json:"cpu"`
			} `json:"usage"`
		} `json:"containers"`
	}
	if err := json.Unmarshal(raw, &pod); err != nil {
		return nil, err
	}
	out := make(map[string]resource.Quantity, len(pod.Containers))
	for _, c := range pod.Containers {
		out[c.Name] = c.Usage.CPU
	}
	return out, nil
}
