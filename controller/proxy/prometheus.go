package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/kube/exporter"
)

// answerSize is how many bytes of an answer of a Prometheus are read.
const answerSize = 64 << 20

// Prometheus is one that runs in the cluster.
type Prometheus struct {
	Name string // namespace/name of its pod
	// Get gets a path of its HTTP API, through the API server.
	Get func(ctx context.Context, path string, params url.Values) ([]byte, error)
}

// Prometheuses lists those that run in the cluster.
func (g *Gauges) Prometheuses(ctx context.Context) ([]Prometheus, error) {
	ctx, cancel := context.WithTimeout(ctx, g.Longest)
	defer cancel()
	var all []*corev1.Pod
	for _, text := range exporter.PrometheusSelectors {
		selector, err := labels.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("selector %s: %w", text, err)
		}
		var list corev1.PodList
		if err := g.Pods.List(ctx, &list, &client.ListOptions{LabelSelector: selector, Raw: &metav1.ListOptions{ResourceVersion: "0"}}); err != nil {
			return nil, fmt.Errorf("look for a Prometheus: %w", err)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	var out []Prometheus
	for _, p := range exporter.Prometheuses(all) {
		root := g.Root + p.Namespace + "/pods/" + p.Name + ":" + exporter.PrometheusPort(p) + "/proxy"
		out = append(out, Prometheus{Name: p.Namespace + "/" + p.Name, Get: PrometheusAt(g.Client, root)})
	}
	return out, nil
}

// PrometheusAt gets paths of the HTTP API of a Prometheus below a URL.
func PrometheusAt(web *http.Client, root string) func(ctx context.Context, path string, params url.Values) ([]byte, error) {
	return func(ctx context.Context, path string, params url.Values) ([]byte, error) {
		raw, status, err := Fetch(ctx, web, root+"/"+path+"?"+params.Encode(), answerSize, nil)
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // without the URL, which has the question and may have a password
		}
		var answer struct{ Status, Error string }
		switch {
		case err != nil:
			return nil, err
		case status == http.StatusOK:
			return raw, nil
		case json.Unmarshal(raw, &answer) == nil && answer.Status == "error":
			return nil, errors.New(answer.Error)
		}
		return nil, fmt.Errorf("it responds with status %d", status)
	}
}
