package filters

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Barred returns the first pod that a plugin refuses whatever node it would go to, and
// the refusal; nil is none. most is how many may be so refused.
func (t *Filters) Barred(most int) (*v1.Pod, *fwk.Status) {
	if t == nil {
		return nil, nil
	}
	first, n := -1, 0
	for i, k := range t.of {
		if t.kinds[k].refused == nil {
			continue
		}
		if n++; first < 0 {
			first = i
		}
	}
	if n <= most {
		return nil, nil
	}
	return t.pods[first], t.kinds[t.of[first]].refused
}

// Ordered reports whether the filters may answer otherwise where the pods come in
// another order than that in which they were placed.
func (t *Filters) Ordered() bool {
	if t == nil {
		return false
	}
	for _, k := range t.kinds {
		if k.far {
			return true
		}
	}
	return false
}

// Kind implements gang.Filters.
func (t *Filters) Kind(member int) int { return t.of[member] }

// Refuses implements gang.Filters.
func (t *Filters) Refuses(member, node int) string {
	k, name := t.kinds[t.of[member]], t.pl.NodeName(node)
	switch {
	case k.refused != nil:
		return k.refused.Message()
	case k.only != nil && !k.only.Has(name):
		return "node(s) are left out by a plugin"
	}
	for key := range k.keys {
		if value, ok := t.pl.Object(node).Labels[key]; ok && k.forbids[domain{key, value}] > 0 {
			return whyForbidden
		}
	}
	at := t.changed[name]
	if k.far {
		at = t.changes
	}
	if a, ok := k.answers[name]; ok && a.changes == at {
		return a.why
	}
	why := t.filter(k, name)
	k.answers[name] = answer{why, at}
	return why
}

// filter asks the filters of a node about a kind of pod.
func (t *Filters) filter(k *kind, node string) string {
	if k.stale {
		if err := t.ask(k); err != nil {
			return err.Error()
		}
		if k.refused != nil {
			return k.refused.Message()
		}
	}
	info, err := t.info(node)
	if err != nil {
		return err.Error()
	}
	status := t.pl.P.Handle.RunFilterPlugins(t.ctx, k.state, k.pod, info)
	if status.IsSuccess() {
		return ""
	}
	return strings.Join(status.Reasons(), ", ")
}

// Place implements gang.Filters.
func (t *Filters) Place(member, node int) { t.enter(placedPod{t.infos[member], t.pl.NodeName(node)}) }

// Placed implements gang.Filters.
func (t *Filters) Placed() int { return len(t.placed) - t.others }

// KeepFirst implements gang.Filters.
func (t *Filters) KeepFirst(n int) {
	for len(t.placed) > t.others+n {
		t.leave()
	}
}
