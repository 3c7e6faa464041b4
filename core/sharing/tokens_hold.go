package sharing

import (
	"slices"
)

// Hold notes that a pod has the tokens names, and with them the devices ids of
// that resource. Tokens that stand for one of these keep it; the others, in
// the order of their numbers, change places with the tokens of the devices that
// are left, in the order of ids. A name that is not there becomes a token: the
// kubelet remembers names that an earlier agent has given out.
//
// IDs that are not offered are left out. Tokens for which no device is left
// stand for nothing, and the devices that they stood for get new ones.
func (t *Tokens) Hold(resource string, names, ids []string) {
	n := t.byResource[resource]
	if n == nil {
		n = &numbering{short: TokenResource(resource), token: map[string]*Token{}, of: map[string]*Token{}}
		if t.byResource == nil {
			t.byResource = map[string]*numbering{}
		}
		t.byResource[resource] = n
	}
	names = slices.SortedFunc(slices.Values(names), func(a, b string) int {
		return order(&Token{Name: a, number: TokenNumber(n.short, a)}, &Token{Name: b, number: TokenNumber(n.short, b)})
	})
	names = slices.Compact(names)
	var left []string // of ids
	kept := map[string]bool{}
	for _, id := range ids {
		d := n.of[id]
		switch {
		case d == nil || kept[d.Name]:
		case slices.Contains(names, d.Name):
			kept[d.Name] = true
		default:
			left = append(left, id)
		}
	}
	for _, name := range names {
		token := n.token[name]
		if token == nil {
			token = &Token{Name: name, Gone: true, Device: Device{Resource: resource, NUMANode: -1}, number: TokenNumber(n.short, name)}
			n.token[name], n.list = token, nil
		}
		token.Held = true
		switch {
		case kept[name]:
		case len(left) > 0:
			n.swap(token, left[0])
			left = left[1:]
		case !token.Gone:
			d := token.Device
			n.leave(token)
			name, _ := n.fresh(0)
			n.put(name, d)
		}
	}
}

// swap gives token the device of an ID, and the token that stood for it what
// token stood for.
func (n *numbering) swap(token *Token, id string) {
	other := n.of[id]
	if other == token {
		return
	}
	gone := token.Gone
	token.Device, other.Device = other.Device, token.Device
	token.Gone = false
	if n.of[id] = token; gone {
		n.leave(other)
	} else {
		n.of[other.Device.ID] = other
	}
}

// HoldMemory is Hold for tokens of ResourceMemory and a share of one GPU: they
// come to stand for as many GiB of it as no other pod's tokens do.
func (t *Tokens) HoldMemory(names []string, uuid string) {
	var ids []string
	if n := t.byResource[ResourceMemory]; n != nil {
		mine := map[string]bool{}
		for _, name := range names {
			mine[name] = true
		}
		var free []string
		for _, token := range n.of {
			switch {
			case token.Device.UUID != uuid:
			case mine[token.Name]:
				ids = append(ids, token.Device.ID)
			case !token.Held:
				free = append(free, token.Device.ID)
			}
		}
		slices.Sort(free)
		ids = append(ids, free[:min(len(free), max(0, len(names)-len(ids)))]...)
	}
	t.Hold(ResourceMemory, names, ids)
}

// Release notes that no pod has the tokens names any more. Those whose device
// is not offered are forgotten, and so is a resource that is left with none.
func (t *Tokens) Release(resource string, names []string) {
	n := t.byResource[resource]
	if n == nil {
		return
	}
	for _, name := range names {
		if token := n.token[name]; token != nil {
			if token.Held = false; token.Gone {
				n.leave(token)
			}
		}
	}
	t.prune(resource)
}

func (t *Tokens) prune(resource string) {
	if len(t.byResource[resource].token) == 0 {
		delete(t.byResource, resource)
	}
}
