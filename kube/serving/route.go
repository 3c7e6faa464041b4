package serving

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/core/gpu"
)

// The ways from outside of the cluster to services, as the flag --serving-route names them.
const (
	RouteGateway = "gateway" // Gateway API: an HTTPRoute for a Gateway
	RouteIngress = "ingress" // an Ingress, of a class
	RouteIstio   = "istio"   // a VirtualService for a Gateway of Istio
)

// Outside is how services are reached from outside of the cluster. The zero value is that they are not.
type Outside struct {
	Scheme, Domain string // http or https, and the DNS domain below which their hosts are
	Way            string // RouteGateway, RouteIngress, or RouteIstio
	Of             string // NAMESPACE/NAME of the gateway, or the class, which may be ""
}

// ParseOutside reads the flags --serving-domain, as DOMAIN or https://DOMAIN, and --serving-route, as WAY or WAY:OF. Both "" is the zero value.
func ParseOutside(domain, route string) (o Outside, err error) {
	if domain == "" && route == "" {
		return o, nil
	}
	if o.Scheme, o.Domain = "http", domain; strings.Contains(domain, "://") {
		o.Scheme, o.Domain, _ = strings.Cut(domain, "://")
	}
	o.Way, o.Of, _ = strings.Cut(route, ":")
	namespace, name, both := strings.Cut(o.Of, "/")
	ways := []string{RouteGateway, RouteIngress, RouteIstio}
	switch {
	case domain == "":
		return Outside{}, fmt.Errorf("--serving-route %s needs --serving-domain, such as models.example.com", route)
	case route == "":
		return Outside{}, fmt.Errorf("--serving-domain %s needs --serving-route: gateway:NAMESPACE/NAME, ingress:CLASS, or istio:NAMESPACE/NAME", domain)
	case o.Scheme != "http" && o.Scheme != "https" || len(validation.IsDNS1123Subdomain(o.Domain)) > 0:
		return Outside{}, fmt.Errorf("invalid --serving-domain %q: must be a domain such as models.example.com, or https://models.example.com", domain)
	case o.Way == RouteIngress && both:
		return Outside{}, fmt.Errorf("invalid --serving-route %q: must be ingress, or ingress:CLASS with the name of an IngressClass", route)
	case o.Way == RouteIngress:
	case o.Way != RouteGateway && o.Way != RouteIstio:
		if near := gpu.NearestWord(o.Way, ways); near != "" {
			return Outside{}, fmt.Errorf("invalid --serving-route %q: did you mean %s?", route, near)
		}
		return Outside{}, fmt.Errorf("invalid --serving-route %q: must be gateway:NAMESPACE/NAME, ingress:CLASS, or istio:NAMESPACE/NAME", route)
	case namespace == "" || name == "" || strings.Contains(name, "/"):
		return Outside{}, fmt.Errorf("invalid --serving-route %q: must name the gateway, as %s:NAMESPACE/NAME", route, o.Way)
	}
	return o, nil
}

// Kind returns the kind of the objects by which services are reached.
func (o *Outside) Kind() schema.GroupVersionKind {
	switch o.Way {
	case RouteGateway:
		return schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}
	case RouteIstio:
		return schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1", Kind: "VirtualService"}
	}
	return schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}
}

// Hidden reports whether a service is not to be reached from outside, by KServe's label.
func (w *Written) Hidden() bool {
	return w.object.Labels[kserve.LabelVisibility] == kserve.VisibilityClusterLocal
}

// URL is where a service is reached from outside: its host is that of KServe's default template.
func (o *Outside) URL(name, namespace string) string {
	return o.Scheme + "://" + o.host(name, namespace)
}

func (o *Outside) host(name, namespace string) string { return name + "-" + namespace + "." + o.Domain }

// Route makes the object by which a service is reached from outside: all requests for its host go to the Service with its name, for as long as its
// timeout says, if it says so (without one, an answer may stream for as long as the gateway lets it). why is why there can be none; "" is that there is.
func (w *Written) Route(o *Outside) (route map[string]any, why string) {
	kind, name := o.Kind(), w.object.Name
	host := o.host(name, w.object.Namespace)
	if len(validation.IsDNS1123Subdomain(host)) > 0 || len(name)+len(w.object.Namespace)+1 > validation.DNS1123LabelMaxLength {
		return nil, fmt.Sprintf("%s is not a host name: the names of the service and its namespace are together longer than 62 bytes; rename the service", host)
	}
	timeout := ""
	if n := number(w.predictor["timeout"], 0); n > 0 {
		timeout = fmt.Sprintf("%ds", n)
	}
	out := map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "spec": o.spec(w, host, timeout),
		"metadata": w.childMeta(name, map[string]any{api.LabelInferenceService: name}, nil),
	}
	if err := seal(out); err != nil {
		return nil, err.Error()
	}
	return out, ""
}

// spec is that of a route for a host.
func (o *Outside) spec(w *Written, host, timeout string) map[string]any {
	name := w.object.Name
	namespace, gateway, _ := strings.Cut(o.Of, "/")
	switch o.Way {
	case RouteGateway:
		rule := map[string]any{
			"matches":     []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/"}}},
			"backendRefs": []any{map[string]any{"group": "", "kind": "Service", "name": name, "port": int64(servicePort), "weight": int64(1)}},
		}
		if timeout != "" {
			rule["timeouts"] = map[string]any{"request": timeout}
		}
		return map[string]any{
			"hostnames": []any{host}, "rules": []any{rule},
			"parentRefs": []any{map[string]any{"group": o.Kind().Group, "kind": "Gateway", "namespace": namespace, "name": gateway}},
		}
	case RouteIstio:
		rule := map[string]any{"route": []any{map[string]any{"destination": map[string]any{
			"host": name + "." + w.object.Namespace + ".svc", "port": map[string]any{"number": int64(servicePort)},
		}}}}
		if timeout != "" {
			rule["timeout"] = timeout
		}
		return map[string]any{"hosts": []any{host}, "gateways": []any{o.Of}, "http": []any{rule}}
	}
	out := map[string]any{"rules": []any{map[string]any{"host": host, "http": map[string]any{"paths": []any{map[string]any{
		"path": "/", "pathType": "Prefix", "backend": map[string]any{"service": map[string]any{"name": name, "port": map[string]any{"number": int64(servicePort)}}},
	}}}}}}
	if o.Of != "" {
		out["ingressClassName"] = o.Of
	}
	return out
}

// Accepted reads in the status of a route whether its gateway takes it, and if not, why. Only an HTTPRoute has such a status.
func (o *Outside) Accepted(route map[string]any) (bool, string) {
	if o.Way != RouteGateway {
		return true, ""
	}
	status, _ := route["status"].(map[string]any)
	parents, _ := status["parents"].([]any)
	taken := false
	for _, p := range parents {
		p, _ := p.(map[string]any)
		conditions, _ := p["conditions"].([]any)
		for _, c := range conditions {
			c, _ := c.(map[string]any)
			switch is := text(c["status"]); {
			case is == "False" && (c["type"] == "Accepted" || c["type"] == "ResolvedRefs"):
				return false, fmt.Sprintf("Gateway %s does not take HTTPRoute %s: %s", o.Of, text(route["metadata"].(map[string]any)["name"]), text(c["message"]))
			case is == "True" && c["type"] == "Accepted":
				taken = true
			}
		}
	}
	if !taken {
		return false, fmt.Sprintf("no controller has taken the HTTPRoute for Gateway %s yet", o.Of)
	}
	return true, ""
}
