package sharing

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/core/gpu"
)

// Tokens gives the devices of one node opaque names, for a kubelet that chooses
// among names and knows nothing of commitments.
//
// Each device has one token. When a pod holds another device than its token's,
// the two change places: the tokens that the kubelet counts as free stand for
// free devices, and a device that fails makes exactly its present token
// unhealthy. A held token keeps its name for as long as it is held, whatever the
// node offers meanwhile: where its pod holds nothing that is offered, it stands
// for nothing.
//
// The devices of nvidia.com/gpu-memory are the whole GiB of unshared GPUs, one
// token each. Their tokens are good for a count and nothing else.
//
// The zero Tokens has none; Reset fills it. It is not safe for concurrent use.
type Tokens struct {
	byResource map[string]*numbering
}

// Token is one name and what it stands for.
type Token struct {
	Name   string
	Device Device // of a GiB only ID, Resource, UUID, GPU and Healthy are set, and NUMANode is -1
	Held   bool   // a pod has it
	Gone   bool   // it stands for nothing; then it is held, and Device has only its Resource

	number int // see TokenNumber
}

// numbering is the tokens of one resource.
type numbering struct {
	short string
	token map[string]*Token // by name
	of    map[string]*Token // by device ID, without those that are gone
	list  []*Token          // in order; nil after names have come or gone
}

// TokenResource is a resource's name as tokens begin: "nvidia.com/gpu" is "gpu".
func TokenResource(resource string) string { return resource[strings.LastIndexByte(resource, '/')+1:] }

// TokenNumber gives the number of a token of a resource, such as 3 of "gpu-3";
// -1 is a name of another form.
func TokenNumber(resource, name string) int {
	digits, ok := strings.CutPrefix(name, TokenResource(resource)+"-")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || strconv.Itoa(n) != digits {
		return -1
	}
	return n
}

// Reset changes what the node offers, as Ledger.Reset does. Devices that stay
// keep their tokens, new ones get the lowest free numbers in the order of
// Devices. A token whose device is not offered any more is forgotten unless it
// is held. Errors are those of Devices, and change nothing.
func (t *Tokens) Reset(gpus []gpu.GPU, s gpu.Sharing) error {
	devices, err := Devices(gpus, s)
	if err != nil {
		return err
	}
	devices = append(devices, gibs(gpus, s)...)
	if t.byResource == nil {
		t.byResource = map[string]*numbering{}
	}
	offered := map[string][]Device{}
	for _, d := range devices {
		offered[d.Resource] = append(offered[d.Resource], d)
	}
	for resource := range offered {
		if t.byResource[resource] == nil {
			t.byResource[resource] = &numbering{short: TokenResource(resource), token: map[string]*Token{}, of: map[string]*Token{}}
		}
	}
	for resource, n := range t.byResource {
		n.reset(offered[resource])
		t.prune(resource)
	}
	return nil
}

// gibs are the devices that tokens of ResourceMemory stand for.
func gibs(gpus []gpu.GPU, s gpu.Sharing) []Device {
	var out []Device
	for _, g := range gpus {
		if !unshared(g, s) {
			continue
		}
		for i := range g.MemoryBytes / GiB {
			out = append(out, Device{
				ID: g.UUID + "::gib-" + strconv.FormatInt(i, 10), Resource: ResourceMemory,
				UUID: g.UUID, GPU: g.Index, Healthy: g.Healthy, NUMANode: -1,
			})
		}
	}
	return out
}

func (n *numbering) reset(offered []Device) {
	before := n.of
	n.of = make(map[string]*Token, len(offered))
	var fresh []Device
	for _, d := range offered {
		if t := before[d.ID]; t != nil {
			t.Device = d
			n.of[d.ID] = t
		} else {
			fresh = append(fresh, d)
		}
	}
	for id, t := range before {
		if n.of[id] == nil {
			n.leave(t)
		}
	}
	next := 0
	for _, d := range fresh {
		var name string
		name, next = n.fresh(next)
		n.put(name, d)
	}
}

// put makes a token for a device that has none.
func (n *numbering) put(name string, d Device) {
	t := &Token{Name: name, Device: d, number: TokenNumber(n.short, name)}
	n.token[name], n.of[d.ID], n.list = t, t, nil
}

// leave is a token without a device: it is forgotten unless it is held.
func (n *numbering) leave(t *Token) {
	t.Gone, t.Device = true, Device{Resource: t.Device.Resource, NUMANode: -1}
	if !t.Held {
		delete(n.token, t.Name)
		n.list = nil
	}
}

// fresh is the lowest free name from a number on.
func (n *numbering) fresh(from int) (name string, number int) {
	for ; ; from++ {
		if name = n.short + "-" + strconv.Itoa(from); n.token[name] == nil {
			return name, from
		}
	}
}

// Has tells whether there is a token of that name.
func (t *Tokens) Has(resource, name string) bool {
	n := t.byResource[resource]
	return n != nil && n.token[name] != nil
}

// Resources lists the resources that have tokens or are offered, sorted.
func (t *Tokens) Resources() []string { return slices.Sorted(maps.Keys(t.byResource)) }

// List gives the tokens of a resource, in the order of their numbers; names of
// another form come last.
func (t *Tokens) List(resource string) []Token {
	n := t.byResource[resource]
	if n == nil {
		return nil
	}
	if n.list == nil {
		n.list = slices.SortedFunc(maps.Values(n.token), order)
	}
	out := make([]Token, len(n.list))
	for i, token := range n.list {
		out[i] = *token
	}
	return out
}

// order sorts tokens by number, then by name; those without a number come last.
func order(a, b *Token) int {
	if a.number < 0 != (b.number < 0) {
		return cmp.Compare(b.number, a.number)
	}
	return cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.Name, b.Name))
}

// Of gives the token of that name. ok is false for one that is not there.
func (t *Tokens) Of(resource, name string) (token Token, ok bool) {
	if n := t.byResource[resource]; n != nil && n.token[name] != nil {
		return *n.token[name], true
	}
	return Token{}, false
}

// For gives the token that stands for the device of an ID. ok is false for a
// device that is not offered.
func (t *Tokens) For(resource, id string) (token Token, ok bool) {
	if n := t.byResource[resource]; n != nil && n.of[id] != nil {
		return *n.of[id], true
	}
	return Token{}, false
}
