package serving

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
)

// portOf is where a container answers.
func portOf(container map[string]any) int64 {
	if ports, _ := container["ports"].([]any); len(ports) > 0 {
		if p, ok := ports[0].(map[string]any); ok {
			return number(p["containerPort"], httpPort)
		}
	}
	return httpPort
}

// probe is KServe's readiness probe, but asked each second: with ten, as there, the first answer after a start is late by as much.
func probe(port int64) map[string]any {
	return map[string]any{
		"tcpSocket": map[string]any{"port": port}, "timeoutSeconds": int64(1), "periodSeconds": int64(1), "successThreshold": int64(1), "failureThreshold": int64(3),
	}
}

// deployment makes the Deployment of a component.
func (w *Written) deployment(p *part, template map[string]any, above, below int) map[string]any {
	app := map[string]any{kserve.LabelApp: "isvc." + p.name}
	strategy, _ := p.spec["deploymentStrategy"].(map[string]any)
	if strategy == nil {
		strategy = map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": "25%", "maxUnavailable": "25%"}}
		if p.gpus {
			strategy["rollingUpdate"] = map[string]any{"maxSurge": int64(above), "maxUnavailable": int64(below)}
		}
	}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": w.childMeta(p.name, union(p.labels, app), p.notes),
		"spec": map[string]any{"selector": map[string]any{"matchLabels": app}, "strategy": strategy, "template": template},
	}
}

// service makes a Service in front of the pods of a component.
func (w *Written) service(name string, p *part) map[string]any {
	ports := []any{}
	declared, _ := p.container["ports"].([]any)
	for i, d := range declared {
		d, ok := d.(map[string]any)
		if !ok {
			continue
		}
		target := number(d["containerPort"], httpPort)
		out := map[string]any{"port": target, "targetPort": target, "protocol": "TCP"}
		if i == 0 {
			out["port"] = int64(servicePort)
		}
		if s := text(d["protocol"]); s != "" {
			out["protocol"] = s
		}
		if s := text(d["name"]); s != "" {
			out["name"] = s
			if strings.Contains(s, "grpc") || strings.Contains(s, "h2c") {
				out["appProtocol"] = "kubernetes.io/h2c"
			}
		}
		ports = append(ports, out)
	}
	if len(ports) == 0 {
		ports = append(ports, map[string]any{"name": p.name, "port": int64(servicePort), "targetPort": int64(httpPort), "protocol": "TCP"})
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": w.childMeta(name, p.labels, p.notes),
		"spec": map[string]any{"selector": map[string]any{kserve.LabelApp: "isvc." + p.name}, "ports": ports},
	}
}

// childMeta is the metadata of a child, which goes with the service.
func (w *Written) childMeta(name string, labels, notes map[string]any) map[string]any {
	return map[string]any{
		"name": name, "namespace": w.object.Namespace, "labels": labels, "annotations": union(notes),
		"ownerReferences": []any{map[string]any{
			"apiVersion": kserve.GroupVersion.String(), "kind": kserve.Kind, "name": w.object.Name, "uid": string(w.object.UID), "controller": true, "blockOwnerDeletion": true,
		}},
	}
}

// hash is of what a value says, whatever order its fields have.
func hash(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write an object of a service: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}

// Seal writes the number of replicas into the Deployment, and a hash of the whole object, which shows later changes.
func (c *Children) Seal(replicas int) error {
	c.Deployment["spec"].(map[string]any)["replicas"] = int64(replicas)
	return seal(c.Deployment)
}

// seal writes a hash of an object on it.
func seal(object map[string]any) error {
	mark, err := hash(object)
	if err == nil {
		object["metadata"].(map[string]any)["annotations"].(map[string]any)[api.AnnotationServingSpec] = mark
	}
	return err
}

// ThroughActivator reports whether all requests for a Service go through an activator, also while pods are ready: see api.SelectorActivator.
func ThroughActivator(s *v1.Service) bool {
	return s.Spec.Selector[api.SelectorActivator] == api.ByActivator
}

// Behind has all requests for the service go through an activator: see api.SelectorActivator.
func (c *Children) Behind() {
	for _, s := range c.Services {
		s["spec"].(map[string]any)["selector"].(map[string]any)[api.SelectorActivator] = api.ByActivator
	}
}

// Bound has a replica get no more than so many requests at once through the Services; 0 is any number.
func (c *Children) Bound(most int) {
	if most <= 0 {
		return
	}
	for _, s := range c.Services {
		s["metadata"].(map[string]any)["annotations"].(map[string]any)[api.AnnotationConcurrency] = strconv.Itoa(most)
	}
}

// BoundOf reads how many requests a replica gets at once at most through a Service; 0 is any number.
func BoundOf(s *v1.Service) int {
	n, err := strconv.Atoi(s.Annotations[api.AnnotationConcurrency])
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// SealServices does the same as Seal for the Services.
func (c *Children) SealServices() error {
	for _, s := range c.Services {
		if err := seal(s); err != nil {
			return err
		}
	}
	return nil
}

// URL is where a service is reached in the cluster.
func URL(name, namespace, domain string) string {
	if domain == "" {
		domain = "cluster.local"
	}
	return "http://" + name + "." + namespace + ".svc." + domain
}
