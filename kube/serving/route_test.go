package serving_test

import (
	"encoding/json"
	"strings"
	"testing"

	"berth.dev/berth/kube/serving"
)

func TestHowServicesAreReachedFromOutside(t *testing.T) {
	for _, tt := range []struct{ name, domain, route, want, says string }{
		{"not at all", "", "", "", ""},
		{"by Gateway API", "models.example.com", "gateway:kserve/gate", "gateway.networking.k8s.io/v1 HTTPRoute at http://a-ml.models.example.com", ""},
		{"by an Ingress", "https://models.example.com", "ingress", "networking.k8s.io/v1 Ingress at https://a-ml.models.example.com", ""},
		{"by an Ingress of a class", "models.example.com", "ingress:nginx", "networking.k8s.io/v1 Ingress at http://a-ml.models.example.com", ""},
		{"by Istio", "models.example.com", "istio:kubeflow/gate", "networking.istio.io/v1 VirtualService at http://a-ml.models.example.com", ""},
		{"a way without a domain", "", "ingress", "", "--serving-route ingress needs --serving-domain"},
		{"a domain without a way", "models.example.com", "", "", "--serving-domain models.example.com needs --serving-route"},
		{"a domain with a path", "models.example.com/a", "ingress", "", `invalid --serving-domain "models.example.com/a"`},
		{"another scheme", "ftp://models.example.com", "ingress", "", `invalid --serving-domain "ftp://models.example.com"`},
		{"a misspelled way", "models.example.com", "gatway:a/b", "", "did you mean gateway?"},
		{"a way that is none", "models.example.com", "-", "", "must be gateway:NAMESPACE/NAME, ingress:CLASS, or istio:NAMESPACE/NAME"},
		{"a gateway without a namespace", "models.example.com", "gateway:gate", "", "must name the gateway, as gateway:NAMESPACE/NAME"},
		{"a class with a namespace", "models.example.com", "ingress:a/b", "", "must be ingress, or ingress:CLASS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, err := serving.ParseOutside(tt.domain, tt.route)
			got, says := "", ""
			if err != nil {
				says = err.Error()
			} else if o.Way != "" {
				got = o.Kind().GroupVersion().String() + " " + o.Kind().Kind + " at " + o.URL("a", "ml")
			}
			if got != tt.want || !strings.Contains(says, tt.says) || (says == "") != (tt.says == "") {
				t.Errorf("%q, %q; want %q, %q", got, says, tt.want, tt.says)
			}
		})
	}
}

func TestTheRouteOfAService(t *testing.T) {
	const text = "{metadata: {name: NAME, labels: {a: b}}, spec: {predictor: {timeout: 90, sklearn: {}}}}"
	for _, tt := range []struct{ name, of, route, want string }{
		{
			"an HTTPRoute", "iris", "gateway:kserve/gate",
			`{"hostnames":["iris-ml-training.example.com"],"parentRefs":[{"group":"gateway.networking.k8s.io","kind":"Gateway","name":"gate","namespace":"kserve"}],"rules":[{"backendRefs":[{"group":"","kind":"Service","name":"iris","port":80,"weight":1}],"matches":[{"path":{"type":"PathPrefix","value":"/"}}],"timeouts":{"request":"90s"}}]}`,
		},
		{
			"an Ingress", "iris", "ingress:nginx",
			`{"ingressClassName":"nginx","rules":[{"host":"iris-ml-training.example.com","http":{"paths":[{"backend":{"service":{"name":"iris","port":{"number":80}}},"path":"/","pathType":"Prefix"}]}}]}`,
		},
		{
			"a VirtualService", "iris", "istio:kubeflow/gate",
			`{"gateways":["kubeflow/gate"],"hosts":["iris-ml-training.example.com"],"http":[{"route":[{"destination":{"host":"iris.ml-training.svc","port":{"number":80}}}],"timeout":"90s"}]}`,
		},
		{"a name that is too long for a host", strings.Repeat("a", 52), "ingress", "together longer than 62 bytes; rename the service"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, err := serving.ParseOutside("example.com", tt.route)
			if err != nil {
				t.Fatal(err)
			}
			w, fault := serving.Of(service(t, strings.ReplaceAll(text, "NAME", tt.of)))
			if fault != nil || w.Hidden() {
				t.Fatal(fault)
			}
			route, why := w.Route(&o)
			if why != "" {
				if !strings.Contains(why, tt.want) {
					t.Errorf("there is none, as %s", why)
				}
				return
			}
			if raw, _ := json.Marshal(route["spec"]); string(raw) != tt.want {
				t.Errorf("the route is\n%s, want\n%s", raw, tt.want)
			}
		})
	}
	w, _ := serving.Of(service(t, "{metadata: {labels: {networking.kserve.io/visibility: cluster-local}}, spec: {predictor: {sklearn: {}}}}"))
	if !w.Hidden() {
		t.Error("a service that is local to the cluster is not")
	}
}
