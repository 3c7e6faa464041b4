package exporter

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// PodLabels says which labels of pods the series of their devices carry. The zero
// value is none.
type PodLabels struct {
	On bool
	// Allowed are patterns of keys as Kubernetes has them, such as
	// "^app.kubernetes.io/"; none allows all.
	Allowed []*regexp.Regexp
}

type label struct{ name, value string }

// ours are labels that series have of their own. Prometheus refuses a scrape in which
// one series has a label twice.
var ours = map[string]bool{
	"gpu": true, "UUID": true, "uuid": true, "pci_bus_id": true, "device": true, "modelName": true, "GPU_I_PROFILE": true, "GPU_I_ID": true,
	"hostname": true, "Hostname": true, driverVersion: true, "container": true, "namespace": true, "pod": true, "pod_uid": true,
	"container_name": true, "pod_namespace": true, "pod_name": true, "err_code": true, "err_msg": true,
}

// of returns the labels of a pod under names that Prometheus takes, in their order: what
// is neither letter nor digit becomes an underscore, as with dcgm-exporter. Labels
// whose names are taken are left out; of two that become one, the first key is it.
func (l PodLabels) of(labels map[string]string) []label {
	if !l.On {
		return nil
	}
	type entry struct {
		key string
		label
	}
	var all []entry
	for key, value := range labels {
		if len(l.Allowed) > 0 && !slices.ContainsFunc(l.Allowed, func(r *regexp.Regexp) bool { return r.MatchString(key) }) {
			continue
		}
		if name := labelName(key); !ours[name] && !strings.HasPrefix(name, "__") {
			all = append(all, entry{key, label{name, value}})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.key, b.key)) })
	var out []label
	for _, e := range all {
		if len(out) == 0 || out[len(out)-1].name != e.name {
			out = append(out, e.label)
		}
	}
	return out
}

func labelName(key string) string {
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, key)
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	return name
}

// labeled puts the labels of pods on holders, of the pods that are known.
func (c *Collector) labeled(by map[string][]Pod) {
	if !c.o.PodLabels.On || c.s.PodLabels == nil {
		return
	}
	find := c.s.PodLabels()
	known := map[string][]label{}
	for _, pods := range by {
		for i := range pods {
			p := &pods[i]
			if p.UID == "" {
				continue
			}
			list, ok := known[p.UID]
			if !ok {
				list = c.o.PodLabels.of(find(p.UID))
				known[p.UID] = list
			}
			p.labels = list
		}
	}
}
