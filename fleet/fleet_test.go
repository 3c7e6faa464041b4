package fleet_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/fleet"
	"berth.dev/berth/fleet/host"
	"berth.dev/berth/fleet/spec"
)

// world is a fleet in a bubble of virtual time, at a fake API server.
type world struct {
	t      *testing.T
	client *fake.Clientset
	fleet  *fleet.Fleet
	spec   spec.Fleet
	stop   context.CancelFunc
	done   chan error
	// commitments is fleet.Options.Commitments of the fleet that is started next.
	commitments bool
	// host and rules are those of the fleet that is started next.
	host  fleet.HostRunner
	rules host.Rules
}

// inWorld runs a test in a bubble. nodes are those of the fleet.
func inWorld(t *testing.T, test func(*world), nodes ...spec.Node) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, client: fakeAPI(), spec: spec.Fleet{Name: "test", Nodes: nodes}}
		w.start()
		defer w.kill()
		test(w)
	})
}

func (w *world) build() *fleet.Fleet {
	w.t.Helper()
	f, err := fleet.New(fleet.Options{Client: w.client, Fleet: w.spec, Log: slog.New(slog.DiscardHandler), Commitments: w.commitments, Host: w.host, HostRules: w.rules})
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

func (w *world) start() {
	w.t.Helper()
	f := w.build()
	ctx, cancel := context.WithCancel(w.t.Context())
	w.fleet, w.stop, w.done = f, cancel, make(chan error, 1)
	go func() { w.done <- f.Run(ctx) }()
	synctest.Wait()
	select {
	case <-f.Ready():
	default:
		w.t.Fatal("the fleet is not ready")
	}
}

func (w *world) kill() {
	w.t.Helper()
	if w.done == nil {
		return
	}
	defer func() { w.done = nil }()
	w.stop()
	if err := <-w.done; err != nil {
		w.t.Errorf("Run: %v", err)
	}
}

// after lets virtual time pass and everything settle.
func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// bind creates a pod that is bound to a node already.
func (w *world) bind(pod *v1.Pod, node string) *v1.Pod {
	w.t.Helper()
	pod.Spec.NodeName = node
	pod.UID = types.UID("uid-" + pod.Name)
	made, err := w.client.CoreV1().Pods(pod.Namespace).Create(w.t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	return made
}

// remove asks for deletion as the API server would note it.
func (w *world) remove(name string, grace int64) {
	w.t.Helper()
	p := w.pod(name)
	at := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second))
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	if _, err := w.client.CoreV1().Pods(p.Namespace).Update(w.t.Context(), p, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) pod(name string) *v1.Pod {
	w.t.Helper()
	p, err := w.client.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return p.DeepCopy()
}

func (w *world) storageClass(name string) {
	w.t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "berth.dev/simulated"}
	if _, err := w.client.StorageV1().StorageClasses().Create(w.t.Context(), class, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) node(name string) *v1.Node {
	w.t.Helper()
	n, err := w.client.CoreV1().Nodes().Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// annotate sets an annotation of a node.
func (w *world) annotate(node, key, value string) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if _, err := w.client.CoreV1().Nodes().Patch(w.t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// events returns the reasons and messages of all events so far.
func (w *world) events() string {
	list, err := w.client.CoreV1().Events("").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range list.Items {
		fmt.Fprintf(&b, "%s %s: %s\n", e.InvolvedObject.Name, e.Reason, e.Message)
	}
	return b.String()
}

// line sums a pod's status up: phase, reason, and each container.
func line(p *v1.Pod) string {
	var b strings.Builder
	b.WriteString(string(p.Status.Phase))
	if p.Status.Reason != "" {
		b.WriteString(" " + p.Status.Reason)
	}
	for _, s := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		fmt.Fprintf(&b, " %s:", s.Name)
		switch st := s.State; {
		case st.Waiting != nil:
			b.WriteString(st.Waiting.Reason)
		case st.Running != nil && s.Ready:
			b.WriteString("ready")
		case st.Running != nil:
			b.WriteString("running")
		case st.Terminated != nil:
			fmt.Fprintf(&b, "%s(%d)", st.Terminated.Reason, st.Terminated.ExitCode)
		}
		if s.RestartCount > 0 {
			fmt.Fprintf(&b, "x%d", s.RestartCount)
		}
	}
	return b.String()
}

func (w *world) want(name, want string) {
	w.t.Helper()
	if got := line(w.pod(name)); got != want {
		w.t.Errorf("pod %s is %q, want %q", name, got, want)
	}
}

// a100 is a node with n A100 of 40 GB.
func a100(name string, n int) spec.Node {
	p, _ := gpu.Find("NVIDIA A100-SXM4-40GB")
	return spec.Node{
		Name: name, Zone: "us-east-1a", CPU: 64, MemoryGiB: 512, Pods: 110, Driver: "570.124.06", CUDA: "12.8", GPUs: gpu.New(name, p, n),
	}
}

// named gives a pod a name and GPUs.
func named(pod *v1.Pod, name string, gpus int64) *v1.Pod {
	pod.Name = name
	if gpus > 0 {
		pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	}
	return pod
}

// ids returns the devices in a pod's status.
func ids(p *v1.Pod) []string {
	var out []string
	for _, s := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		for _, r := range s.AllocatedResourcesStatus {
			for _, d := range r.Resources {
				out = append(out, string(d.ResourceID))
			}
		}
	}
	return out
}
