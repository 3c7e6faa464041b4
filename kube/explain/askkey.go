package explain

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
)

// askAnnotations are what a pod says of its GPUs in annotations.
var askAnnotations = [...]string{api.AnnotationKAIFraction, api.AnnotationKAIMemory, api.AnnotationKAIDevices, api.AnnotationKAIContainer, api.AnnotationSharesDo}

// askKey is equal for pods that every node answers in the same way. With labeled their
// labels count: other pods may select them by those.
func askKey(p *v1.Pod, labeled bool) string {
	var b strings.Builder
	b.Grow(256)
	s := &p.Spec
	for i := range s.InitContainers {
		c := &s.InitContainers[i]
		b.WriteString("init " + c.Name + " ")
		if c.RestartPolicy != nil {
			b.WriteString(string(*c.RestartPolicy))
		}
		writeAsk(&b, c, p.Namespace)
	}
	for i := range s.Containers {
		b.WriteString("main ")
		writeAsk(&b, &s.Containers[i], p.Namespace)
	}
	writeAmounts(&b, s.Overhead)
	writeMap(&b, s.NodeSelector)
	for i := range s.Tolerations {
		t := &s.Tolerations[i]
		for _, part := range []string{t.Key, string(t.Operator), t.Value, string(t.Effect)} {
			b.WriteString(part)
			b.WriteByte('|')
		}
	}
	for _, name := range askAnnotations {
		b.WriteString(p.Annotations[name])
		b.WriteByte('|')
	}
	if ranks(p) {
		fmt.Fprintf(&b, "%d %t %s|", request.Priority(p), request.NeverPreempts(p), s.PriorityClassName)
	}
	if labeled = labeled || s.Affinity != nil || len(s.TopologySpreadConstraints) > 0; labeled {
		b.WriteString(p.Namespace)
		writeMap(&b, p.Labels)
	}
	if s.Affinity != nil || len(s.TopologySpreadConstraints) > 0 {
		rest, err := json.Marshal([]any{s.Affinity, s.TopologySpreadConstraints})
		if err != nil {
			return p.Namespace + "/" + p.Name // not reached: all of it came as JSON
		}
		b.Write(rest)
	}
	return b.String()
}

// writeAsk writes what a container asks of a node.
func writeAsk(b *strings.Builder, c *v1.Container, namespace string) {
	writeAmounts(b, c.Resources.Requests)
	writeAmounts(b, c.Resources.Limits)
	for i := range c.Ports {
		if p := &c.Ports[i]; p.HostPort > 0 {
			b.WriteString(p.HostIP)
			b.WriteString(string(p.Protocol))
			b.WriteString(strconv.Itoa(int(p.HostPort)))
			b.WriteString(namespace) // who has the port is named to the same namespace alone
			b.WriteByte(' ')
		}
	}
}

func writeAmounts(b *strings.Builder, list v1.ResourceList) {
	b.WriteByte('{')
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		b.WriteString(string(name))
		b.WriteByte('=')
		b.WriteString(q.String())
		b.WriteByte(' ')
	}
	b.WriteByte('}')
}

func writeMap(b *strings.Builder, m map[string]string) {
	b.WriteByte('{')
	for _, key := range slices.Sorted(maps.Keys(m)) {
		b.WriteString(key)
		b.WriteByte('=')
		b.WriteString(m[key])
		b.WriteByte(' ')
	}
	b.WriteByte('}')
}
