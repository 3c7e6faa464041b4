package kubelettest

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// entry and data have the kubelet's names, in its
// pkg/kubelet/cm/devicemanager/checkpoint.
type entry struct {
	PodUID        string
	ContainerName string
	ResourceName  string
	DeviceIDs     map[int64][]string // by NUMA node; -1: not known
	AllocResp     []byte             // ContainerAllocateResponse
}

type data struct {
	PodDeviceEntries  []entry
	RegisteredDevices map[string][]string // healthy ones
}

// file is the checkpoint. The sum is not the kubelet's, which is over Go's
// notation of the data.
type file struct {
	Data     data
	Checksum uint64
}

// writeCheckpoint writes the file as the kubelet does: beside, and renamed.
// Errors are dropped, as a kubelet only logs them. It needs k.mu.
func (k *Kubelet) writeCheckpoint() {
	d := data{RegisteredDevices: make(map[string][]string)}
	for h, g := range k.held {
		raw, err := proto.Marshal(g.resp)
		if err != nil {
			continue
		}
		d.PodDeviceEntries = append(d.PodDeviceEntries, entry{PodUID: h.pod, ContainerName: h.container, ResourceName: h.resource, DeviceIDs: g.numa, AllocResp: raw})
	}
	for resource, ids := range k.healthy {
		list := []string{}
		for id := range ids {
			list = append(list, id)
		}
		d.RegisteredDevices[resource] = list
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return
	}
	sum := fnv.New32a()
	sum.Write(raw)
	raw, err = json.Marshal(file{Data: d, Checksum: uint64(sum.Sum32())})
	if err != nil {
		return
	}
	path := filepath.Join(k.dir, CheckpointName)
	tmp := filepath.Join(k.dir, "."+CheckpointName)
	if os.WriteFile(tmp, raw, 0o600) == nil {
		_ = os.Rename(tmp, path)
	}
}

// readCheckpoint restores who holds what. Resources have capacity 0 until
// their plugins register again. It needs k.mu.
func (k *Kubelet) readCheckpoint() error {
	raw, err := os.ReadFile(filepath.Join(k.dir, CheckpointName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var f file
	if err := json.Unmarshal(raw, &f); err != nil {
		return fmt.Errorf("parse %s: %w", CheckpointName, err)
	}
	for _, e := range f.Data.PodDeviceEntries {
		resp := new(v1beta1.ContainerAllocateResponse)
		if err := proto.Unmarshal(e.AllocResp, resp); err != nil {
			return fmt.Errorf("parse %s: %w", CheckpointName, err)
		}
		var ids []string
		for _, some := range e.DeviceIDs {
			ids = append(ids, some...)
		}
		slices.Sort(ids)
		k.held[holder{e.PodUID, e.ContainerName, e.ResourceName}] = grant{ids: slices.Compact(ids), numa: e.DeviceIDs, resp: resp}
	}
	for resource := range f.Data.RegisteredDevices {
		k.healthy[resource], k.sick[resource] = make(set), make(set)
		k.ends[resource] = &endpoint{stopped: k.Now()}
	}
	return nil
}
