package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// holders is a kubelet's pod-resources API: every device of one resource is held by a
// container of a pod of its own.
type holders struct {
	podresources.UnimplementedPodResourcesListerServer
	resource string
	devices  []string
	server   *grpc.Server
}

// serveHolders answers at the kubelet's socket until stop.
func serveHolders(kubeletDir, resource string, devices []string) (*holders, error) {
	dir := filepath.Join(kubeletDir, "pod-resources")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", filepath.Join(dir, "kubelet.sock"))
	if err != nil {
		return nil, err
	}
	h := &holders{resource: resource, devices: devices, server: grpc.NewServer()}
	podresources.RegisterPodResourcesListerServer(h.server, h)
	go func() { _ = h.server.Serve(l) }()
	return h, nil
}

func (h *holders) stop() { h.server.Stop() }

// List tells of one pod a device.
func (h *holders) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	out := &podresources.ListPodResourcesResponse{}
	for i, id := range h.devices {
		out.PodResources = append(out.PodResources, &podresources.PodResources{
			Namespace: "default", Name: fmt.Sprintf("notebook-%d", i),
			Containers: []*podresources.ContainerResources{{
				Name:    "notebook",
				Devices: []*podresources.ContainerDevices{{ResourceName: h.resource, DeviceIds: []string{id}}},
			}},
		})
	}
	return out, nil
}

// start binds a pod to the node for every device, and starts its container as the
// kubelet does: Allocate, then PreStartContainer until it is let start.
func (h *holders) start(ctx context.Context, client kubernetes.Interface, k *kubelet) error {
	one := v1.ResourceList{v1.ResourceName(h.resource): resource.MustParse("1")}
	for i, id := range h.devices {
		pod := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("notebook-%d", i), Namespace: "default"},
			Spec: v1.PodSpec{NodeName: agentNode, Containers: []v1.Container{{
				Name: "notebook", Image: "example.com/notebook:1", Resources: v1.ResourceRequirements{Limits: one},
			}}},
		}
		if _, err := client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		if _, err := k.allocate(ctx, h.resource, i); err != nil {
			return err
		}
		for try := 0; ; try++ {
			err := k.preStart(ctx, h.resource, id)
			if err == nil {
				break
			}
			if try == 100 {
				return fmt.Errorf("container of pod %s does not start: %w", pod.Name, err)
			}
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// Get is not asked for.
func (h *holders) Get(context.Context, *podresources.GetPodResourcesRequest) (*podresources.GetPodResourcesResponse, error) {
	return nil, errors.ErrUnsupported
}
