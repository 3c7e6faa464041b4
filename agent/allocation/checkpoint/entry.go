package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Entry is what the kubelet has allocated to one container of one resource. The
// JSON form is that of the records in CDI specs.
type Entry struct {
	PodUID    string   `json:"-"`
	Container string   `json:"-"`
	Resource  string   `json:"resource"`
	DeviceIDs []string `json:"tokens"`          // sorted; placeholder IDs, or the devices' own where another plugin allocated them
	Nonce     string   `json:"nonce,omitempty"` // of our answer; "" if another plugin answered

	answer []byte // as the kubelet keeps it, not decoded yet; the nonce is in it
}

// Has reports whether an entry is for these IDs of a resource. ids are sorted.
func (e *Entry) Has(resource string, ids []string) bool {
	return e.Resource == resource && slices.Equal(e.DeviceIDs, ids)
}

// Ours reports whether the node itself answered for an entry. Placeholder IDs may
// be the names of another plugin's devices, so the IDs alone do not say it.
func (e *Entry) Ours() bool {
	nonce, err := nonceOf(e.answer)
	return e.Nonce != "" || err == nil && nonce != ""
}

// SortEntries sorts the entries of one pod by container and resource.
func SortEntries(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.Container, b.Container), strings.Compare(a.Resource, b.Resource))
	})
}

// ReadNonces sets the nonces of entries that Reader.Read returned, from the
// answers that the kubelet has kept.
func ReadNonces(entries []Entry) error {
	for i := range entries {
		nonce, err := nonceOf(entries[i].answer)
		if err != nil {
			return fmt.Errorf("%w: the answer to container %s of pod %s: %w", ErrFormat, entries[i].Container, entries[i].PodUID, err)
		}
		entries[i].Nonce, entries[i].answer = nonce, nil
	}
	return nil
}

// nonceOf returns the nonce of a serialized answer, "" if the answer is not ours.
func nonceOf(raw []byte) (string, error) {
	var answer v1beta1.ContainerAllocateResponse
	if err := proto.Unmarshal(raw, &answer); err != nil {
		return "", err
	}
	for _, d := range answer.CdiDevices {
		if nonce, ok := strings.CutPrefix(d.GetName(), CDIName("")); ok {
			return nonce, nil
		}
	}
	return "", nil
}
