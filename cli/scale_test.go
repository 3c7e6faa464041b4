package cli_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"

	"berth.dev/berth/api"
	"berth.dev/berth/cli"
	"berth.dev/berth/kube/kubetest"
)

// The cluster of the figures: 1,000 nodes with 8,000 GPUs, and 20,000 pods, of which 2,000
// wait, with 16 kinds of requests. Each pod is about as large as those of a real cluster.
const (
	scaleNodes   = 1000
	scaleWaiting = 2000
	scaleOthers  = 17 // on each node, beside the pod that holds its GPUs
)

// scaleCluster is that cluster, or the same with all GPUs free and no pod that waits.
func scaleCluster(free bool) (nodes []v1.Node, pods []v1.Pod) {
	for i := range scaleNodes {
		name := fmt.Sprintf("n-%04d", i)
		n := kubetest.Inventory(name, kubetest.A100s(name, 8), "cpu", 96, "memory", 1<<40, "pods", 110, api.ResourceGPU, 8)
		n.Labels[api.LabelProduct], n.Labels["kubernetes.io/hostname"] = "NVIDIA-A100-SXM4-40GB", name
		for k := range 40 {
			n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/team/image-%d@sha256:%064d", k, i)}, SizeBytes: 1 << 30})
		}
		nodes = append(nodes, *n)
		var ids []string
		for k := range 8 {
			ids = append(ids, fmt.Sprintf("GPU-%s-%d", name, k))
		}
		if !free {
			pods = append(pods, *lifelike(kubetest.Observed(kubetest.Pod("h-"+name, name, "cpu", 8, api.ResourceGPU, 8), api.ResourceGPU, ids...), i))
		}
		for k := range scaleOthers {
			pods = append(pods, *lifelike(kubetest.Pod(fmt.Sprintf("p-%s-%d", name, k), name, "cpu", 1), k))
		}
		ofPlugin(&pods[len(pods)-1])
	}
	if free {
		return nodes, pods
	}
	for i := range scaleWaiting {
		p := lifelike(kubetest.Unplaced(fmt.Sprintf("w-%04d", i), time.Duration(i)*time.Second, 1+i%8), i)
		if i%2 == 1 {
			p.Spec.NodeSelector = map[string]string{api.LabelProduct: "NVIDIA-A100-SXM4-40GB"}
		}
		p.CreationTimestamp = metav1.NewTime(kubetest.Started.Add(time.Duration(i) * time.Second))
		pods = append(pods, *p)
	}
	return nodes, pods
}

// pluginLabels are those of the device plugin's pods.
var pluginLabels = map[string]string{"name": "nvidia-device-plugin-ds"}

// ofPlugin makes a pod one of the DaemonSet that scaleDaemonSet returns.
func ofPlugin(p *v1.Pod) {
	p.Namespace, p.Labels = "kube-system", pluginLabels
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "nvidia-device-plugin-daemonset", UID: "plugin", Controller: new(true)}}
}

// scaleDaemonSet is the device plugin on all nodes.
func scaleDaemonSet() appsv1.DaemonSet {
	d := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "nvidia-device-plugin-daemonset", Namespace: "kube-system", UID: "plugin"}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: pluginLabels}
	d.Spec.Template.Labels = pluginLabels
	d.Spec.Template.Spec.Containers = []v1.Container{{Name: "nvidia-device-plugin-ctr", Image: "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"}}
	d.Status.DesiredNumberScheduled, d.Status.NumberReady = scaleNodes, scaleNodes
	return d
}

// lifelike adds to a pod what pods of real clusters have beside what Berth reads.
func lifelike(p *v1.Pod, i int) *v1.Pod {
	p.Namespace = fmt.Sprintf("team-%d", i%40)
	p.UID = "5f2b8a34-8e0c-4b8e-9a53-1c2d3e4f5a6b"
	p.GenerateName, p.Labels["app.kubernetes.io/name"], p.Labels["pod-template-hash"] = "train-", "train", "7d4b9c6f5d"
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: p.Name, UID: p.UID, Controller: new(true)}}
	for _, manager := range []string{"kube-controller-manager", "kubelet", "scheduler"} {
		p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", APIVersion: "v1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{` + strings.Repeat(`"f:labels":{".":{},"f:app":{}},`, 20) + `"f:x":{}}}`)})
	}
	c := &p.Spec.Containers[0]
	c.Image, c.Command = "registry.example.com/team/train@sha256:"+strings.Repeat("0", 64), []string{"python", "-m", "train", "--config", "/etc/train/config.yaml"}
	for k := range 20 {
		c.Env = append(c.Env, v1.EnvVar{Name: fmt.Sprintf("SETTING_%d", k), Value: strings.Repeat("v", 24)})
	}
	c.VolumeMounts = []v1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}, {Name: "config", MountPath: "/etc/train"}}
	p.Spec.Volumes = []v1.Volume{
		{Name: "config", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "config"}}}},
		{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}}}}},
	}
	p.Spec.Tolerations = []v1.Toleration{
		{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
		{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
	}
	if p.Spec.NodeName != "" {
		for _, kind := range []v1.PodConditionType{v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled} {
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: kind, Status: v1.ConditionTrue})
		}
	}
	return p
}

// scaleServer serves a cluster until the test ends.
func scaleServer(t testing.TB, nodes []v1.Node, pods []v1.Pod) *httptest.Server {
	s := httptest.NewServer(scaleHandler(nodes, pods))
	t.Cleanup(s.Close)
	return s
}

// scaleHandler serves a cluster in protobuf, in pages, as an API server does; of all else
// it has none.
func scaleHandler(nodes []v1.Node, pods []v1.Pod) http.Handler {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), protobuf)
	encoder := scheme.Codecs.EncoderForVersion(info.Serializer, schema.GroupVersions{v1.SchemeGroupVersion, appsv1.SchemeGroupVersion})
	answer := func(w http.ResponseWriter, o runtime.Object) {
		raw, err := runtime.Encode(encoder, o)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", protobuf)
		_, _ = w.Write(raw)
	}
	bounds := func(r *http.Request, total int) (from, to int, next string) {
		q := r.URL.Query()
		from, _ = strconv.Atoi(q.Get("continue"))
		to = total
		if limit, err := strconv.Atoi(q.Get("limit")); err == nil && limit > 0 && from+limit < total {
			to = from + limit
			next = strconv.Itoa(to)
		}
		return from, to, next
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		from, to, next := bounds(r, len(nodes))
		answer(w, &v1.NodeList{ListMeta: metav1.ListMeta{Continue: next}, Items: nodes[from:to]})
	})
	mux.HandleFunc("/api/v1/pods", func(w http.ResponseWriter, r *http.Request) {
		from, to, next := bounds(r, len(pods))
		answer(w, &v1.PodList{ListMeta: metav1.ListMeta{Continue: next}, Items: pods[from:to]})
	})
	mux.HandleFunc("/api/v1/namespaces/{namespace}/pods", func(w http.ResponseWriter, r *http.Request) {
		var mine []v1.Pod
		for i := range pods {
			if pods[i].Namespace == r.PathValue("namespace") {
				mine = append(mine, pods[i])
			}
		}
		from, to, next := bounds(r, len(mine))
		answer(w, &v1.PodList{ListMeta: metav1.ListMeta{Continue: next}, Items: mine[from:to]})
	})
	mux.HandleFunc("/api/v1/namespaces/{namespace}/events", func(w http.ResponseWriter, _ *http.Request) { answer(w, &v1.EventList{}) })
	mux.HandleFunc("/apis/apps/v1/daemonsets", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, &appsv1.DaemonSetList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSetList"}, Items: []appsv1.DaemonSet{scaleDaemonSet()}})
	})
	scaleDryRun(mux)
	return mux
}

// asProcess is the variable with which this test program is berth, and serveCluster the one
// with which it serves the cluster of the figures to others, which test/bench does: it writes a
// kubeconfig to that file and manifests beside it, and ends when its standard input does.
const (
	asProcess    = "BERTH_TEST_AS_PROCESS"
	serveCluster = "BERTH_TEST_SERVE_CLUSTER"
)

// yardstick is the value of asProcess with which this test program only reads the nodes and pods.
const yardstick = "yardstick"

// readCluster reads all nodes and pods in pages with client-go and does nothing with them.
func readCluster() (code int) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return 1
	}
	config.ContentType = protobuf
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 1
	}
	for page := (metav1.ListOptions{Limit: 500}); ; {
		nodes, err := api.CoreV1().Nodes().List(context.Background(), page)
		if err != nil {
			return 1
		}
		if page.Continue = nodes.Continue; page.Continue == "" {
			break
		}
	}
	for page := (metav1.ListOptions{Limit: 500}); ; {
		pods, err := api.CoreV1().Pods("").List(context.Background(), page)
		if err != nil {
			return 1
		}
		if page.Continue = pods.Continue; page.Continue == "" {
			return 0
		}
	}
}

func TestMain(m *testing.M) {
	if path := os.Getenv(serveCluster); path != "" {
		s, free := httptest.NewServer(scaleHandler(scaleCluster(false))), httptest.NewServer(scaleHandler(scaleCluster(true)))
		text := strings.Replace(kubeconfig, "https://cluster.test:6443", s.URL, 1)
		for name, text := range map[string]string{
			".manifests.yaml": scaleManifests(false), ".distinct.yaml": scaleManifests(true), ".free": strings.Replace(kubeconfig, "https://cluster.test:6443", free.URL, 1),
		} {
			if os.WriteFile(path+name, []byte(text), 0o600) != nil {
				os.Exit(1)
			}
		}
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil || os.Rename(path+".new", path) != nil {
			os.Exit(1)
		}
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends when its parent wants that, or is gone
		s.Close()
		os.Exit(0)
	}
	if args := os.Getenv(asProcess); args == yardstick {
		os.Exit(readCluster())
	} else if args != "" {
		code := cli.Main(strings.Fields(args), cli.Options{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
		status, _ := os.ReadFile("/proc/self/status")
		_ = os.WriteFile(filepath.Join(os.Getenv("HOME"), "status"), status, 0o600)
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// TestLargeClustersAreReadInPages runs commands as processes on a cluster of 1,000 nodes,
// 8,000 GPUs, and 20,000 pods, and logs the CPU and the memory of each. Their CPU is compared with that of
// reading all nodes and pods alone, as the machine may be slow or busy; test/bench writes the figures.
//
// rows: GS-82
func TestLargeClustersAreReadInPages(t *testing.T) {
	if underRace {
		t.Skip("under the race detector the CPU and the memory of a command say nothing")
	}
	home := t.TempDir()
	path, free := filepath.Join(home, "kubeconfig"), filepath.Join(home, "free")
	nodes, pods := scaleCluster(false)
	write(t, path, strings.Replace(kubeconfig, "https://cluster.test:6443", scaleServer(t, nodes, pods).URL, 1))
	nodes, pods = scaleCluster(true)
	write(t, free, strings.Replace(kubeconfig, "https://cluster.test:6443", scaleServer(t, nodes, pods).URL, 1))
	manifests, distinct := filepath.Join(home, "manifests.yaml"), filepath.Join(home, "distinct.yaml")
	write(t, manifests, scaleManifests(false))
	write(t, distinct, scaleManifests(true))
	run := func(args string) (*exec.Cmd, string, error) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{asProcess + "=" + args, "KUBECONFIG=" + path, "HOME=" + home, "PATH=" + os.Getenv("PATH")}
		out, err := cmd.Output()
		return cmd, string(out), err
	}
	used := func(cmd *exec.Cmd) time.Duration { return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() }
	var least time.Duration // of reading alone
	for _, c := range []struct {
		args   string
		cpu    float64 // at most, of reading alone
		rssMiB int64   // at most
		has    string
		code   int
	}{
		{"berth why w-1001 -n team-1", 2.5, 190, "WHY ", 0},
		{"berth why -A", 2.5, 190, "BERTH-C03", 0},
		{"berth nodes --no-headers", 1.7, 190, "n-0999 ", 0},
		{"berth gpus --no-headers", 1.7, 190, "n-0999  7 ", 0},
		{"berth doctor", 3.5, 330, "1000 of 1000 ready", 0},
		{"berth can -f " + manifests, 3.5, 330, "100 objects: 0 start now, 100 do not", 3},
		{"berth can -f " + distinct, 4.5, 420, "100 objects: 0 start now, 100 do not", 3},
		{"berth can --kubeconfig " + free + " -f " + distinct, 3.5, 330, "100 objects: 100 start now", 0},
		{"berth lint -f " + manifests, 1, 190, "1 file: 0 ok, ", 0},
	} {
		reads, _, err := run(yardstick)
		if err != nil {
			t.Fatalf("read nodes and pods: %v", err)
		}
		least = max(least, used(reads))
		from := time.Now()
		cmd, out, err := run(c.args)
		wall := time.Since(from)
		if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(out, c.has) {
			t.Errorf("%s: %v: %.2000s", c.args, err, out)
			continue
		}
		cpu := used(cmd)
		rss := peakMiB(t, filepath.Join(home, "status"))
		t.Logf("%s: %.2f s of CPU, %.2f times that of reading alone, %d MiB, in %.2f s", c.args, cpu.Seconds(), cpu.Seconds()/least.Seconds(), rss, wall.Seconds())
		if cpu.Seconds() > c.cpu*least.Seconds() || rss > c.rssMiB {
			t.Errorf("%s: want at most %.1f times the CPU of reading alone, %.2f s, and %d MiB", c.args, c.cpu, least.Seconds(), c.rssMiB)
		}
	}
}

// peakMiB is the most memory that a process had, by its /proc/self/status. That which wait4
// gives counts the process that started it, too.
func peakMiB(t *testing.T, file string) int64 {
	t.Helper()
	text, err := os.ReadFile(file)
	_, after, found := strings.Cut(string(text), "VmHWM:")
	var kib int64
	if _, scanErr := fmt.Sscan(after, &kib); err != nil || !found || scanErr != nil {
		t.Fatalf("no VmHWM in %q (%v)", text, err)
	}
	return kib >> 10
}
