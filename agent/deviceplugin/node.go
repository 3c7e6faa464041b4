package deviceplugin

import (
	"context"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Device is one device that the node offers to the kubelet under a resource
// name.
type Device struct {
	ID       string // at most 63 characters; opaque to the kubelet, which remembers it over restarts
	Healthy  bool   // false: counts in the node's capacity, not in what pods can get
	NUMANode int    // where it sits; below 0: not known, and the kubelet aligns nothing by it
}

// Node is what Run asks: it knows the devices and who holds them.
//
// Its methods are called from many goroutines at once. Errors reach users in
// pod statuses and events, so they are sentences that say what to do.
type Node interface {
	// Offers returns the devices by resource name, such as nvidia.com/gpu. A
	// resource without devices stays registered with capacity 0; one that is
	// missing is withdrawn from the kubelet.
	Offers() map[string][]Device
	// Prefer chooses count of the available IDs, among them all of must. The
	// kubelet may choose otherwise.
	Prefer(resource string, available, must []string, count int) ([]string, error)
	// Allocate answers for containers, each with the IDs that the kubelet
	// chose; the answer has one response for each, in their order. It does
	// not say which pod they are of.
	Allocate(ctx context.Context, resource string, containers [][]string) (*v1beta1.AllocateResponse, error)
	// PreStart is called before every start of a container that holds the
	// IDs. An error keeps the container from starting until a later call,
	// which the kubelet makes by itself, gives none.
	PreStart(ctx context.Context, resource string, ids []string) error
	// Changed has a value after Offers has begun to give something else.
	// Run is its only reader; values are coalesced.
	Changed() <-chan struct{}
}
