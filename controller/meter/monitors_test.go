package meter

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"

	"berth.dev/berth/api"
)

// monitor is a PodMonitor or a ServiceMonitor of monitoring.coreos.com/v1: the fields that we use, by the names that the CRDs of prometheus-operator 0.91 have.
// A PodMonitor has no bearerTokenFile, and a ServiceMonitor's is deprecated.
type monitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector            metav1.LabelSelector `json:"selector"`
		PodMetricsEndpoints []scraped            `json:"podMetricsEndpoints"` // of a PodMonitor
		Endpoints           []scraped            `json:"endpoints"`           // of a ServiceMonitor
	} `json:"spec"`
}

type scraped struct {
	Port, Scheme, Path, Interval string
	Params                       map[string][]string
	HonorLabels                  bool
	Authorization                struct{ Credentials struct{ Name, Key string } }
	TLSConfig                    struct{ InsecureSkipVerify bool }
	MetricRelabelings            []struct {
		SourceLabels  []string
		Regex, Action string
	}
}

// objects reads a manifest of deploy, and hands on each object in it.
func objects(t *testing.T, name string, each func(kind string, raw json.RawMessage)) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var kind metav1.TypeMeta
		if err := json.Unmarshal(raw, &kind); err != nil {
			t.Fatal(err)
		}
		each(kind.Kind, raw)
	}
}

// into reads an object, and refuses fields that its kind does not have.
func into[T any](t *testing.T, raw json.RawMessage) (o T) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return o
}

// ports are those of what deploy runs: by kind of monitor the labels, and the names of ports.
func ports(t *testing.T) map[string]map[string]labels.Set {
	out := map[string]map[string]labels.Set{"PodMonitor": {}, "ServiceMonitor": {}}
	pods := func(p *v1.PodTemplateSpec) {
		for _, port := range p.Spec.Containers[0].Ports {
			out["PodMonitor"][p.Labels["app"]+" "+port.Name] = p.Labels
		}
	}
	for _, file := range []string{"agent-daemonset.yaml", "agent-daemonset-privileged.yaml", "scheduler-deployment.yaml", "controller-deployment.yaml", "meter-deployment.yaml"} {
		objects(t, file, func(kind string, raw json.RawMessage) {
			switch kind {
			case "DaemonSet":
				pods(&into[*appsv1.DaemonSet](t, raw).Spec.Template)
			case "Deployment":
				pods(&into[*appsv1.Deployment](t, raw).Spec.Template)
			case "Service":
				s := into[*v1.Service](t, raw)
				for _, port := range s.Spec.Ports {
					out["ServiceMonitor"][s.Labels["app"]+" "+port.Name] = s.Labels
				}
			}
		})
	}
	return out
}

// TestMonitorsFindWhatIsDeployed holds deploy/prometheus-operator.yaml to the manifests beside it, and to the paths that there are.
func TestMonitorsFindWhatIsDeployed(t *testing.T) {
	var list []*monitor
	var may []rbacv1.PolicyRule
	tokens := map[string]bool{}
	objects(t, "prometheus-operator.yaml", func(kind string, raw json.RawMessage) {
		switch kind {
		case "PodMonitor", "ServiceMonitor":
			list = append(list, into[*monitor](t, raw))
		case "ClusterRole":
			may = into[*rbacv1.ClusterRole](t, raw).Rules
		case "Secret":
			s := into[*v1.Secret](t, raw)
			tokens[s.Namespace+"/"+s.Name] = s.Type == v1.SecretTypeServiceAccountToken
		}
	})
	there, found := ports(t), map[string]bool{}
	for _, m := range list {
		selector, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range append(m.Spec.PodMetricsEndpoints, m.Spec.Endpoints...) {
			finds := false
			for at, set := range there[m.Kind] {
				if selector.Matches(set) && at == set["app"]+" "+e.Port {
					finds, found[at] = true, true
				}
			}
			path := e.Path
			if path == "" {
				path = "/metrics"
			}
			switch {
			case !finds:
				t.Errorf("%s: nothing that deploy runs has its labels and the port %s", m.Name, e.Port)
			case len(may) != 1 || !slices.Contains(may[0].NonResourceURLs, path) || !slices.Contains(may[0].Verbs, "get"):
				t.Errorf("%s: its token may not get %s", m.Name, path)
			case !tokens[m.Namespace+"/"+e.Authorization.Credentials.Name] || e.Authorization.Credentials.Key != v1.ServiceAccountTokenKey:
				t.Errorf("%s: it has no token", m.Name)
			case e.Scheme != "https" || !e.TLSConfig.InsecureSkipVerify: // they sign their own certificates
				t.Errorf("%s is not read by TLS", m.Name)
			case path == api.PrometheusPath+"federate" && (len(e.Params["match[]"]) == 0 || !e.HonorLabels):
				t.Errorf("%s: federation needs match[], and honorLabels to keep the labels of holders", m.Name)
			}
		}
	}
	for _, at := range []string{"berth-agent metrics", "berth-scheduler metrics", "berth-controller metrics", "berth-meter ledger"} {
		if !found[at] {
			t.Errorf("no monitor finds %s", at)
		}
	}
}
