package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli"
	"berth.dev/berth/kube/devices"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test}}]
clusters: [{name: test, cluster: {server: "https://cluster.test:6443"}}]
users: [{name: test, user: {token: t}}]
`

// stage is a home folder with a kubeconfig, and a cluster behind it.
type stage struct {
	t       testing.TB
	client  kubernetes.Interface
	dynamic *dynamicfake.FakeDynamicClient
	connect func(*rest.Config) (kubernetes.Interface, error)
}

func newStage(t testing.TB, objects ...runtime.Object) *stage {
	t.Helper()
	home := t.TempDir()
	path := filepath.Join(home, "kubeconfig")
	if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_DATA_HOME", filepath.Join(home, "data"))
	t.Setenv("KUBECONFIG", path)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	s := &stage{t: t, client: fake.NewClientset(objects...)}
	s.dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		kserve.InferenceServices: "InferenceServiceList", kubeflow.Resource: "NotebookList", kubeflow.TFJobs: "TFJobList", kubeflow.PyTorchJobs: "PyTorchJobList", trainer.TrainJobs: "TrainJobList", v1alpha1.NotebookProfiles: "NotebookProfileList", v1alpha1.Queues: "QueueList", v1alpha1.PriceBooks: "PriceBookList",
		{Group: "batch", Version: "v1", Resource: "jobs"}:                                  "JobList",
		{Group: "kueue.x-k8s.io", Version: "v1beta1", Resource: "workloads"}:               "WorkloadList",
		{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}:               "WorkloadList",
		{Group: "kueue.x-k8s.io", Version: "v1beta1", Resource: "workloadpriorityclasses"}: "WorkloadPriorityClassList",
		{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloadpriorityclasses"}: "WorkloadPriorityClassList",
	})
	s.connect = func(*rest.Config) (kubernetes.Interface, error) { return s.client, nil }
	return s
}

// run calls the program under a name and gives what it wrote and its exit code.
func (s *stage) run(args ...string) (stdout, stderr string, code int) {
	var out, err bytes.Buffer
	code = cli.Main(args, cli.Options{
		In: &bytes.Buffer{}, Out: &out, Err: &err, Connect: s.connect, Now: func() time.Time { return now },
		Dynamic:      func(*rest.Config) (dynamic.Interface, error) { return s.dynamic, nil },
		BusyPatience: time.Minute,
	})
	return out.String(), err.String(), code
}

// ok is run for a command that must succeed.
func (s *stage) ok(args ...string) string {
	s.t.Helper()
	stdout, stderr, code := s.run(append([]string{"berth"}, args...)...)
	if code != 0 {
		s.t.Fatalf("berth %v: exit code %d, stderr:\n%s", args, code, stderr)
	}
	return stdout
}

func amounts(pairs ...any) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i].(string))] = *resource.NewQuantity(int64(pairs[i+1].(int)), resource.DecimalSI)
	}
	return out
}

// node is Ready and simulated, with GPUs "GPU-<name>-<index>".
func node(name, product string, count int, price string, offers ...any) *v1.Node {
	var gpus []devices.InventoryGPU
	for i := range count {
		gpus = append(gpus, devices.InventoryGPU{
			Index: i, UUID: fmt.Sprintf("GPU-%s-%d", name, i), Product: product, MemoryBytes: 16 << 30, Healthy: true,
		})
	}
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{api.LabelSimulated: "true", "topology.kubernetes.io/zone": "eu-1a"},
			Annotations: map[string]string{},
		},
		Status: v1.NodeStatus{
			Capacity: amounts(offers...), Allocatable: amounts(offers...),
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
	if price != "" {
		n.Annotations[api.AnnotationPrice] = price
	}
	if count > 0 {
		publish(n, gpus)
	}
	return n
}

func publish(n *v1.Node, gpus []devices.InventoryGPU) {
	raw, err := json.Marshal(gpus)
	if err != nil {
		panic(err)
	}
	n.Annotations[api.AnnotationInventory] = string(raw)
}

func inventoryOf(n *v1.Node) []devices.InventoryGPU {
	gpus, err := devices.Inventory(n)
	if err != nil {
		panic(err)
	}
	return gpus
}

// pod runs on a node with the given devices of one resource, each asked for.
func pod(namespace, name, node, resourceName string, ids ...string) *v1.Pod {
	status := v1.ResourceStatus{Name: v1.ResourceName(resourceName)}
	for _, id := range ids {
		status.Resources = append(status.Resources, v1.ResourceHealth{ResourceID: v1.ResourceID(id)})
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: v1.PodSpec{NodeName: node, Containers: []v1.Container{{
			Name: "main", Resources: v1.ResourceRequirements{Limits: amounts(resourceName, max(1, len(ids)))},
		}}},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, StartTime: &metav1.Time{Time: now.Add(-3 * time.Hour)},
			ContainerStatuses: []v1.ContainerStatus{{Name: "main", AllocatedResourcesStatus: []v1.ResourceStatus{status}}},
		},
	}
}

func owned(p *v1.Pod, kind, name string) *v1.Pod {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: &yes}}
	return p
}

// lab is a small cluster with a bit of everything.
func lab() []runtime.Object {
	const gpu, mig = api.ResourceGPU, "nvidia.com/mig-1g.5gb"
	whole := node("gpu-a100-1", "NVIDIA A100-SXM4-40GB", 8, "21.96", gpu, 8)
	sliced := node("gpu-a100-2", "NVIDIA A100-SXM4-40GB", 2, "5.49", mig, 14)
	gpus := inventoryOf(sliced)
	for i := range gpus {
		gpus[i].ComputeSlices = 7
		for j := range 7 {
			gpus[i].MIG = append(gpus[i].MIG, devices.InventoryMIG{
				UUID: fmt.Sprintf("MIG-%d-%d", i, j), Profile: "1g.5gb", Start: j, Slices: 1, MemoryBytes: 5 << 30,
			})
		}
	}
	publish(sliced, gpus)
	shared := node("gpu-t4-1", "Tesla T4", 2, "1.96", gpu, 8)
	gpus = inventoryOf(shared)
	for i := range gpus {
		gpus[i].Shares = 4
	}
	publish(shared, gpus)
	broken := node("gpu-t4-2", "Tesla T4", 2, "1.96", gpu, 2)
	gpus = inventoryOf(broken)
	gpus[1].Healthy, gpus[1].Xid = false, 79
	publish(broken, gpus)
	broken.Status.Allocatable = amounts(gpu, 1)
	cordoned := node("gpu-v100-1", "Tesla V100-SXM2-16GB", 2, "", gpu, 2)
	cordoned.Spec.Unschedulable = true

	book := owned(pod("research", "nb-ada-0", "gpu-t4-1", gpu, "GPU-gpu-t4-1-0::2"), "StatefulSet", "nb-ada")
	book.Labels["notebook-name"] = "nb-ada"
	book.Annotations[api.AnnotationCreator] = "ada"
	waiting := owned(pod("vision", "resnet-9", "", gpu), "Job", "resnet")
	waiting.Status.Phase = v1.PodPending
	done := pod("vision", "old", "gpu-a100-1", gpu, "GPU-gpu-a100-1-7")
	done.Status.Phase = v1.PodSucceeded
	return []runtime.Object{
		whole, sliced, shared, broken, cordoned, node("cpu-1", "", 0, "0.40"),
		owned(pod("vision", "resnet-0", "gpu-a100-1", gpu, "GPU-gpu-a100-1-0", "GPU-gpu-a100-1-1"), "Job", "resnet"),
		owned(pod("vision", "resnet-1", "gpu-a100-1", gpu, "GPU-gpu-a100-1-2", "GPU-gpu-a100-1-3"), "Job", "resnet"),
		pod("nlp", "tokenizer-experiment", "gpu-a100-1", gpu, "GPU-gpu-a100-1-4"),
		pod("speech", "whisper-finetune", "gpu-a100-1", gpu, "GPU-gpu-a100-1-5"),
		pod("nlp", "slice", "gpu-a100-2", mig, "MIG-0-3"),
		book, waiting, done,
		pod("vision", "serve", "gpu-t4-2", gpu, "GPU-gpu-t4-2-1"),
	}
}
