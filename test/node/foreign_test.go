//go:build linux

package node_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// foreign is a device plugin of somebody else, in the place of NVIDIA's: on its
// socket, with GPUs named by UUID, told of by the environment.
type foreign struct {
	v1beta1.UnimplementedDevicePluginServer
	gpus   int
	server *grpc.Server
}

// foreignSocket is the name of NVIDIA's.
const foreignSocket = "nvidia-gpu.sock"

// startForeign starts one and registers it.
func startForeign(t *testing.T, gpus int) *foreign {
	t.Helper()
	dir := filepath.Join(kubeletDir, "device-plugins")
	eventually(t, patience, "the kubelet takes plugins", func() error {
		_, err := os.Stat(filepath.Join(dir, "kubelet.sock"))
		return err
	})
	listener, err := net.Listen("unix", filepath.Join(dir, foreignSocket))
	if err != nil {
		t.Fatal(err)
	}
	f := &foreign{gpus: gpus, server: grpc.NewServer()}
	v1beta1.RegisterDevicePluginServer(f.server, f)
	go func() { _ = f.server.Serve(listener) }() // until Stop
	t.Cleanup(f.server.Stop)
	conn, err := grpc.NewClient("unix:"+filepath.Join(dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// The socket's file is there a moment before the kubelet listens on it.
	_, err = v1beta1.NewRegistrationClient(conn).Register(ctx, &v1beta1.RegisterRequest{
		Version: v1beta1.Version, Endpoint: foreignSocket, ResourceName: gpuResource, Options: &v1beta1.DevicePluginOptions{},
	}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatalf("register a foreign plugin with the kubelet: %v", err)
	}
	return f
}

// GetDevicePluginOptions asks for nothing.
func (f *foreign) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{}, nil
}

// ListAndWatch offers its GPUs until it ends.
func (f *foreign) ListAndWatch(_ *v1beta1.Empty, stream v1beta1.DevicePlugin_ListAndWatchServer) error {
	var devices []*v1beta1.Device
	for i := range f.gpus {
		devices = append(devices, &v1beta1.Device{ID: uuid(i), Health: v1beta1.Healthy})
	}
	if err := stream.Send(&v1beta1.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate names the GPUs.
func (f *foreign) Allocate(_ context.Context, r *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	out := &v1beta1.AllocateResponse{}
	for _, c := range r.ContainerRequests {
		out.ContainerResponses = append(out.ContainerResponses, &v1beta1.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(c.DevicesIds, ","), "GPU_FOREIGN": "yes"},
		})
	}
	return out, nil
}

// TestForeignPlugin has another device plugin on the node: the agent that only
// observes changes nothing and tells who holds what, one that serves leaves the
// resource to the other plugin and takes it back when that has gone.
//
// rows: GS-04
func TestForeignPlugin(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := newNode(t)
	n.startKubelet()
	makeNodes(t, 4)
	f := startForeign(t, 4)
	dir := filepath.Join(kubeletDir, "device-plugins")
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	n.startAgent(t, wholeGPUs(4), "--observe")
	n.offers(t, gpuResource, 4)
	n.apply(uncommitted("held", gpuResource, 1))
	r := n.sees(t, "held", "c")
	if r.Env["GPU_FOREIGN"] != "yes" {
		t.Errorf("the other plugin was not asked: %v", r.Env)
	}
	has := visible(r)[0]
	n.attributed(t, "held-"+nodeName, has)
	n.leavesAlone(t, before)
	n.agent.stop(t, syscall.SIGTERM)
	n.remove(t, "held")

	t.Log("the agent serves beside the other plugin")
	n.agentArgs = slices.DeleteFunc(n.agentArgs, func(a string) bool { return a == "--observe" })
	n.runAgent(t)
	scrape(t)
	n.offers(t, gpuResource, 4)
	f.server.Stop()
	eventually(t, patience, "the agent has the resource when the other plugin has gone", func() error {
		name := "mine"
		n.apply(pod(name, commit("c", uuid(2)), 1))
		if r, err := reported(name, "c"); err == nil {
			return only(r, 2)
		}
		if s := n.state(name); strings.Contains(s, "UnexpectedAdmissionError") {
			n.remove(t, name)
		}
		return &notYet{n.state(name)}
	})
	n.offers(t, gpuResource, 4)
}

// leavesAlone compares the kubelet's folder with what was there before, and asks
// that no CDI spec has been written.
func (n *node) leavesAlone(t *testing.T, before []os.DirEntry) {
	t.Helper()
	after, err := os.ReadDir(filepath.Join(kubeletDir, "device-plugins"))
	if err != nil {
		t.Fatal(err)
	}
	names := func(entries []os.DirEntry) (out []string) {
		for _, e := range entries {
			if e.Name() != "kubelet_internal_checkpoint" && e.Name()[0] != '.' { // with a dot while it is written
				out = append(out, e.Name())
			}
		}
		return out
	}
	if a, b := names(after), names(before); !slices.Equal(a, b) {
		t.Errorf("the plugins' folder held %v, and with an agent that observes %v", b, a)
	}
	specs, err := os.ReadDir(cdiDir)
	if err != nil || len(specs) > 0 {
		t.Errorf("%v; an agent that observes has written %v", err, specs)
	}
}

// notYet is an answer that is not the one that is waited for.
type notYet struct{ got string }

// Error returns the answer.
func (n *notYet) Error() string { return n.got }
