package fleet_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestResolve holds which addresses the names of Services have for a pod of namespace default.
func TestResolve(t *testing.T) {
	inWorld(t, func(w *world) {
		for i, name := range []string{"rank-0", "rank-1"} {
			p := named(bare("x", "sleep", "infinity"), name, 0)
			p.Labels = map[string]string{"job": "bert", "index": fmt.Sprint(i)}
			p.Spec.Subdomain = "bert"
			w.bind(p, "n")
		}
		for name, spec := range map[string]v1.ServiceSpec{
			"bert":   {ClusterIP: v1.ClusterIPNone, Selector: map[string]string{"job": "bert"}},
			"first":  {ClusterIP: v1.ClusterIPNone, Selector: map[string]string{"index": "0"}},
			"front":  {ClusterIP: "10.96.0.9", Selector: map[string]string{"job": "bert"}},
			"manual": {ClusterIP: v1.ClusterIPNone},
		} {
			s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec}
			if _, err := w.client.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		w.after(5 * time.Second)
		ips := [2]string{w.pod("rank-0").Status.PodIP, w.pod("rank-1").Status.PodIP}
		for name, want := range map[string]string{
			"first":                              fmt.Sprint("first.default.svc.cluster.local ", ips[:1]),
			"bert":                               fmt.Sprint("bert.default.svc.cluster.local ", ips),
			"rank-1.bert":                        fmt.Sprint("rank-1.bert.default.svc.cluster.local ", ips[1:]),
			"front.default":                      "front.default.svc.cluster.local [10.96.0.9]",
			"Front.default.svc.cluster.local.":   "front.default.svc.cluster.local [10.96.0.9]",
			"rank-0.front":                       " []",
			"rank-2.bert":                        " []",
			"manual":                             " []",
			"other":                              " []",
			"first.elsewhere":                    " []",
			"a.first.default.svc.cluster.local.": " []",
		} {
			full, got := w.fleet.Resolve(context.Background(), "default", name)
			if text := fmt.Sprint(full, " ", got); text != want {
				t.Errorf("%s: %s, want %s", name, text, want)
			}
		}
	}, a100("n", 1))
}
