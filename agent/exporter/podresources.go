package exporter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/sharing"
)

// mostAnswer bounds what the kubelet may answer: 16 MiB, as its own clients.
const mostAnswer = 16 << 20

// Kubelet asks a kubelet over its pod-resources socket which container holds
// which devices. It is safe for concurrent use.
type Kubelet struct {
	socket    string
	resources []string

	mu   sync.Mutex
	conn *grpc.ClientConn
}

// NewKubelet makes a Kubelet that connects when it is first asked. resources are
// names beside nvidia.com/... whose devices are GPUs, as dcgm-exporter's
// NVIDIA_RESOURCE_NAMES.
func NewKubelet(socket string, resources []string) *Kubelet {
	return &Kubelet{socket: socket, resources: resources}
}

// Close ends the connection.
func (k *Kubelet) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == nil {
		return nil
	}
	err := k.conn.Close()
	k.conn = nil
	return err
}

func (k *Kubelet) client() (podresources.PodResourcesListerClient, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == nil {
		if _, err := os.Stat(k.socket); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no socket at %s; mount the kubelet's pod-resources directory there", k.socket)
		}
		conn, err := grpc.NewClient("unix://"+k.socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostAnswer)), grpc.WithDisableServiceConfig(),
			grpc.WithIdleTimeout(10*time.Minute))
		if err != nil {
			return nil, err
		}
		k.conn = conn
	}
	return podresources.NewPodResourcesListerClient(k.conn), nil
}

// Holders asks who holds the GPUs of a snapshot. Devices of other plugins, and
// names that stand for no device of the node, are left out; the kubelet's several
// entries of one container are put together.
func (k *Kubelet) Holders(ctx context.Context, s nvml.Snapshot) ([]Holder, error) {
	client, err := k.client()
	if err != nil {
		return nil, fmt.Errorf("ask the kubelet for pod resources: %w", err)
	}
	answer, err := client.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask the kubelet for pod resources at %s: %w", k.socket, err)
	}
	var out []Holder
	for _, pod := range answer.GetPodResources() {
		for _, c := range pod.GetContainers() {
			h := Holder{Namespace: pod.GetNamespace(), Pod: pod.GetName(), Container: c.GetName()}
			for _, entry := range c.GetDevices() {
				if !gpuResource(entry.GetResourceName(), k.resources) {
					continue
				}
				for _, id := range entry.GetDeviceIds() {
					if uuid, share, ok := resolve(&s, id); ok {
						d := sharing.Device{ID: id, Resource: entry.GetResourceName(), UUID: uuid}
						if !share {
							d.ID = uuid
						}
						h.Devices = append(h.Devices, d)
					}
				}
			}
			if len(h.Devices) > 0 {
				out = append(out, h)
			}
		}
	}
	return out, nil
}
