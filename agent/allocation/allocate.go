package allocation

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"berth.dev/berth/core/sharing"
)

// Prefer chooses count of the available IDs, among them all of must: as
// sharing.Prefer does it, from devices that are free by the node's own books
// where there are enough of those.
//
// Source: GetPreferredAllocation of NVIDIA's device plugin 0.20, and its error.
func (n *Node) Prefer(resource string, available, must []string, count int) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(available) < count || len(must) > count {
		return nil, errors.New("not enough available devices to satisfy allocation")
	}
	if n.ledger == nil {
		return nil, errors.New("the node's GPUs are not known yet; the kubelet asks again")
	}
	name := map[string]string{} // of a token, by device ID
	for _, t := range n.tokens.List(resource) {
		if n.o.Kubelet || resource == sharing.ResourceMemory {
			break // named by their own IDs; alike
		}
		name[t.Device.ID] = t.Name
	}
	var all, open, required []sharing.Device
	var busy []sharing.Device
	for _, d := range n.ledger.Devices() {
		if d.Resource != resource {
			continue
		}
		id := d.ID
		if !n.o.Kubelet {
			id = name[d.ID]
		}
		switch {
		case slices.Contains(must, id):
			required = append(required, d)
		case !slices.Contains(available, id):
			busy = append(busy, d)
			continue
		}
		all = append(all, d)
		if n.ledger.Free(d.ID) == nil {
			open = append(open, d)
		}
	}
	if len(open)+len(required) >= count {
		all = open
	}
	var out []string
	for _, d := range sharing.Prefer(all, required, busy, count, n.settings.Packed) {
		if n.o.Kubelet {
			out = append(out, d.ID)
		} else {
			out = append(out, name[d.ID])
		}
	}
	return fill(out, must, available, count), nil
}

// fill adds to a choice what it lacks of must, then of available in its order.
func fill(out, must, available []string, count int) []string {
	for _, list := range [][]string{must, available} {
		for _, id := range list {
			if len(out) < count && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}

// Allocate answers for containers that get the devices of ids: of no devices,
// but of one CDI name each, which PreStart gives its meaning. In mode kubelet the
// answer has the devices, as NVIDIA's plugin gives it.
//
// Errors are for IDs that cannot be ours, and for several shares where
// failRequestsGreaterThanOne refuses them; the texts are those of NVIDIA's
// plugin.
func (n *Node) Allocate(ctx context.Context, resource string, containers [][]string) (*v1beta1.AllocateResponse, error) {
	out := &v1beta1.AllocateResponse{}
	for _, ids := range containers {
		answer, err := n.allocate(resource, ids)
		if err != nil {
			return nil, err
		}
		out.ContainerResponses = append(out.ContainerResponses, answer)
	}
	return out, ctx.Err()
}

func (n *Node) allocate(resource string, ids []string) (*v1beta1.ContainerAllocateResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ledger == nil {
		return nil, errors.New("the node's GPUs are not known yet")
	}
	devices, err := n.chosen(resource, ids)
	if err != nil {
		return nil, err
	}
	if n.settings.FailRequestsGreaterThanOne && len(ids) > 1 && resource != sharing.ResourceMemory &&
		slices.ContainsFunc(devices, func(d sharing.Device) bool { return d.ID != d.UUID }) {
		return nil, fmt.Errorf("invalid request: maximum request size for shared resources is 1; found %d", len(ids))
	}
	if n.o.Kubelet {
		return n.upstream(n.keep(devices))
	}
	nonce, err := newNonce()
	if err != nil {
		return nil, err
	}
	n.remember(resource, ids, nonce)
	return &v1beta1.ContainerAllocateResponse{
		Envs:       map[string]string{visibleDevices: visibleNone},
		CdiDevices: []*v1beta1.CDIDevice{{Name: cdiName(nonce)}},
	}, nil
}

// chosen are the devices that IDs stand for now. A token that an earlier agent
// has offered stands for none, and is good all the same.
func (n *Node) chosen(resource string, ids []string) ([]sharing.Device, error) {
	var out []sharing.Device
	if n.o.Kubelet {
		all := n.ledger.Devices()
		for _, id := range ids {
			i := slices.IndexFunc(all, func(d sharing.Device) bool { return d.ID == id && d.Resource == resource })
			if i < 0 {
				return nil, fmt.Errorf("invalid request: unknown device: %s", id)
			}
			out = append(out, all[i])
		}
		return out, nil
	}
	for _, id := range ids {
		t, ok := n.tokens.Of(resource, id)
		switch {
		case ok && !t.Gone:
			out = append(out, t.Device)
		case !ok && sharing.TokenNumber(resource, id) < 0:
			return nil, fmt.Errorf("invalid request: unknown device: %s", id)
		}
	}
	return out, nil
}

// newNonce makes a name that has never been and cannot be guessed.
func newNonce() (string, error) {
	var b [12]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("make a name for an allocation: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// Answers of this process are remembered for when the kubelet's checkpoint cannot
// be read: for one set of tokens those of an init container and of the ones that
// use its devices again, and not more sets than a node has containers.
const (
	mostAnswers = 8
	mostSets    = 4096
)

func (n *Node) remember(resource string, ids []string, nonce string) {
	if len(n.nonces) >= mostSets {
		clear(n.nonces)
	}
	key := tokenKey(resource, ids)
	list := append(n.nonces[key], nonce)
	n.nonces[key] = list[max(0, len(list)-mostAnswers):]
}

// tokenKey names a set of tokens.
func tokenKey(resource string, ids []string) string {
	return resource + " " + strings.Join(slices.Sorted(slices.Values(ids)), " ")
}
