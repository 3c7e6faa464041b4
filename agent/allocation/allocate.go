package allocation

import (
	"context"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"berth.dev/berth/agent/allocation/cdi"
	"berth.dev/berth/agent/allocation/checkpoint"
)

// Prefer chooses count of the available IDs, among them all of must; see
// ledger.Prefer.
func (n *Node) Prefer(resource string, available, must []string, count int) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ledger.Prefer(resource, available, must, count)
}

// Allocate answers for containers that get the devices of ids: with one CDI name
// each and no device; PreStart decides what the name stands for. In mode kubelet
// the answer has the devices, as NVIDIA's plugin gives it.
//
// Errors are for IDs that the node never offers, and for several shares where
// failRequestsGreaterThanOne refuses them; the texts are those of NVIDIA's plugin.
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
	devices, err := n.ledger.Chosen(resource, ids)
	if err != nil {
		return nil, err
	}
	if n.o.Kubelet {
		return n.builder.Response(devices)
	}
	nonce, err := checkpoint.NewNonce()
	if err != nil {
		return nil, err
	}
	n.answers.Add(resource, ids, nonce)
	return cdi.Placeholder(nonce), nil
}
