package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/exporter"
)

// otherPrometheus asks a Prometheus of the cluster, with the rights of the user, where nothing of Berth keeps readings. It is not asked for alerts: whether it has
// those of Berth is not known. found is false if there is none, or it may not be asked.
func (c *Cluster) otherPrometheus(ctx context.Context, path string, params map[string]string) (raw []byte, found bool, err error) {
	question, ok := strings.CutPrefix(path, api.PrometheusPath)
	if !ok || !slices.Contains([]string{"api/v1/query", "api/v1/query_range", "federate"}, question) {
		return nil, false, nil
	}
	var pods []*v1.Pod
	for _, selector := range exporter.PrometheusSelectors {
		list, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, false, nil //nolint:nilerr // without the right to list pods, there is none to ask
		}
		for i := range list.Items {
			pods = append(pods, &list.Items[i])
		}
	}
	for _, p := range exporter.Prometheuses(pods) {
		raw, err = c.call(ctx, "GET", fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%s/proxy/%s", p.Namespace, p.Name, exporter.PrometheusPort(p), question), params)
		if err == nil || strings.HasPrefix(string(raw), `{"status":"error"`) { // it has answered
			c.note("asked: Prometheus " + p.Namespace + "/" + p.Name + ", as nothing of Berth keeps readings in this cluster")
			return raw, true, err
		}
	}
	return nil, false, nil
}

// note tells people something beside the output of a command.
func (c *Cluster) note(text string) {
	if c.notes != nil {
		term.PrintLine(c.notes, text)
	}
}
