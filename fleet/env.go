package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/fleet/kubelet"
	"berth.dev/berth/kube/request"
)

// environ returns a container's environment as it would see it. ConfigMaps and
// Secrets are read when it is asked for.
func (f *Fleet) environ(pod *v1.Pod, k *kubelet.Container) []string {
	spec := containerSpec(pod, k.Name)
	if spec == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	e := &env{fleet: f, ctx: ctx, pod: pod, container: spec, values: map[string]string{}}
	e.set("PATH", "/usr/local/nvidia/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	e.set("HOSTNAME", hostname(pod))
	e.set("HOME", "/root")
	e.set("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	e.set("KUBERNETES_SERVICE_PORT", "443")
	e.set("KUBERNETES_SERVICE_PORT_HTTPS", "443")
	if len(k.Devices) > 0 {
		var ids []string
		for _, d := range k.Devices {
			if !slices.Contains(ids, d.UUID) {
				ids = append(ids, d.UUID)
			}
		}
		e.set("NVIDIA_VISIBLE_DEVICES", strings.Join(ids, ","))
		e.set("NVIDIA_DRIVER_CAPABILITIES", "compute,utility")
	}
	for _, from := range spec.EnvFrom {
		e.from(from)
	}
	for _, v := range spec.Env {
		e.one(v)
	}
	var out []string
	for _, key := range e.order {
		out = append(out, key+"="+e.values[key])
	}
	return out
}

// hostname is the pod's own name for itself.
func hostname(pod *v1.Pod) string {
	if pod.Spec.Hostname != "" {
		return pod.Spec.Hostname
	}
	if pod.Spec.HostNetwork {
		return pod.Spec.NodeName
	}
	return pod.Name
}

func containerSpec(pod *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			c := v1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
			return &c
		}
	}
	return nil
}

// env collects a container's environment; what is set later wins.
type env struct {
	fleet     *Fleet
	ctx       context.Context //nolint:containedctx // lives for one call of environ
	pod       *v1.Pod
	container *v1.Container
	order     []string
	values    map[string]string
}

func (e *env) set(key, value string) {
	if _, ok := e.values[key]; !ok {
		e.order = append(e.order, key)
	}
	e.values[key] = value
}

// from adds all keys of a ConfigMap or Secret.
func (e *env) from(s v1.EnvFromSource) {
	key := objectKey{namespace: e.pod.Namespace}
	switch {
	case s.ConfigMapRef != nil:
		key.name = s.ConfigMapRef.Name
	case s.SecretRef != nil:
		key.name, key.secret = s.SecretRef.Name, true
	}
	values, err := e.fleet.objects.get(e.ctx, key)
	if err != nil {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		e.set(s.Prefix+k, values[k])
	}
}

// one adds one variable.
func (e *env) one(v v1.EnvVar) {
	from := v.ValueFrom
	switch {
	case from == nil:
		e.set(v.Name, expandWord(v.Value, e.values))
	case from.FieldRef != nil:
		e.set(v.Name, e.fleet.field(e.pod, from.FieldRef.FieldPath))
	case from.ResourceFieldRef != nil:
		e.set(v.Name, resourceField(e.pod, e.container, from.ResourceFieldRef))
	case from.ConfigMapKeyRef != nil:
		e.key(v.Name, objectKey{e.pod.Namespace, from.ConfigMapKeyRef.Name, false}, from.ConfigMapKeyRef.Key)
	case from.SecretKeyRef != nil:
		e.key(v.Name, objectKey{e.pod.Namespace, from.SecretKeyRef.Name, true}, from.SecretKeyRef.Key)
	}
}

func (e *env) key(name string, object objectKey, key string) {
	if values, err := e.fleet.objects.get(e.ctx, object); err == nil {
		if value, ok := values[key]; ok {
			e.set(name, value)
		}
	}
}

// field returns what the downward API gives for a field path.
func (f *Fleet) field(pod *v1.Pod, path string) string {
	for prefix, values := range map[string]map[string]string{"metadata.labels['": pod.Labels, "metadata.annotations['": pod.Annotations} {
		if key, ok := strings.CutPrefix(path, prefix); ok {
			return values[strings.TrimSuffix(key, "']")]
		}
	}
	switch path {
	case "metadata.name":
		return pod.Name
	case "metadata.namespace":
		return pod.Namespace
	case "metadata.uid":
		return string(pod.UID)
	case "spec.nodeName":
		return pod.Spec.NodeName
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName
	case "status.podIP", "status.podIPs":
		return pod.Status.PodIP
	case "status.hostIP", "status.hostIPs":
		return pod.Status.HostIP
	}
	return ""
}

// resourceField returns what the downward API gives for a request or limit, in
// units of its divisor, rounded up.
func resourceField(pod *v1.Pod, c *v1.Container, ref *v1.ResourceFieldSelector) string {
	if ref.ContainerName != "" && ref.ContainerName != c.Name {
		if c = containerSpec(pod, ref.ContainerName); c == nil {
			return ""
		}
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	list := c.Resources.Requests
	if kind == "limits" {
		list = c.Resources.Limits
	}
	q := list[v1.ResourceName(name)]
	divisor := ref.Divisor.MilliValue()
	if divisor == 0 {
		divisor = 1000
	}
	return fmt.Sprint((request.MilliAmount(&q, 1000*request.MostBytes) + divisor - 1) / divisor)
}
