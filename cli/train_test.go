package cli_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/test/golden"
)

// trainingJob is a job with a Master or Chief and workers, of one GPU each, changed by edits.
func trainingJob(kind, namespace, name string, workers int, edits ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	field, first, container := "tfReplicaSpecs", "Chief", "tensorflow"
	if kind == kubeflow.KindPyTorchJob {
		field, first, container = "pytorchReplicaSpecs", "Master", "pytorch"
	}
	replica := func(n int) any {
		return map[string]any{"replicas": int64(n), "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
			"name": container, "image": "x/y:1", "resources": map[string]any{"limits": map[string]any{api.ResourceGPU: "1"}},
		}}}}}
	}
	specs := map[string]any{first: replica(1)}
	if workers > 0 {
		specs["Worker"] = replica(workers)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubeflow.org/v1", "kind": kind,
		"metadata": map[string]any{"namespace": namespace, "name": name, "uid": "uid-" + name, "creationTimestamp": at(3 * time.Hour)},
		"spec":     map[string]any{field: specs},
	}}
	for _, edit := range edits {
		edit(u)
	}
	return u
}

// states sets conditions of a job, as TYPE or TYPE=MESSAGE, which are True, and the last the newest.
func states(list ...string) func(*unstructured.Unstructured) {
	var out []any
	for i, text := range list {
		of, message, _ := strings.Cut(text, "=")
		out = append(out, map[string]any{
			"type": of, "status": "True", "reason": of, "message": message, "lastTransitionTime": at(time.Duration(len(list)-i) * time.Minute),
		})
	}
	return set(out, "status", "conditions")
}

// active sets how many workers run, beside the first replica.
func active(first string, workers int) func(*unstructured.Unstructured) {
	return set(map[string]any{first: map[string]any{"active": int64(1)}, "Worker": map[string]any{"active": int64(workers)}}, "status", "replicaStatuses")
}

// waits is why jobs of these tests wait.
const waits = "gang of 4: 3 of 4 pods have a place, and 1 more GPU is needed; 2nd of 2 that wait for nvidia.com/gpu"

// trainingJobs are jobs in every state.
func trainingJobs() []*unstructured.Unstructured {
	return []*unstructured.Unstructured{
		trainingJob("PyTorchJob", "vision", "bert", 3, states("Created", "Running=PyTorchJob vision/bert is running."), active("Master", 2)),
		trainingJob("TFJob", "vision", "mnist", 3, states("GPUQueued="+waits, "Created=TFJob mnist is created.")),
		trainingJob("PyTorchJob", "vision", "both", 0, states("Created", "Succeeded")),
		trainingJob("TFJob", "vision", "both", 0, states("Created", "Failed=TFJob vision/both has failed because 1 Chief replica(s) failed.")),
		trainingJob("PyTorchJob", "vision", "off", 1, states("Created", "Suspended"), set(true, "spec", "runPolicy", "suspend")),
		trainingJob("PyTorchJob", "vision", "elastic", 2, states("Created", "Running"), set(map[string]any{"minReplicas": int64(1), "maxReplicas": int64(4)}, "spec", "elasticPolicy")),
		trainingJob("TFJob", "vision", "wrong", 0, set(map[string]any{"Boss": map[string]any{}}, "spec", "tfReplicaSpecs")),
		trainingJob("TFJob", "speech", "asr", 0),
	}
}

// trainStage is a cluster with training jobs, and pods of bert of which one was started again.
func trainStage(t testing.TB, more ...runtime.Object) *stage {
	t.Helper()
	s := newStage(t, append(append(lab(), more...), bertPods()...)...)
	addJobs(t, s, func(*unstructured.Unstructured) {})
	return s
}

// addJobs adds the jobs to a cluster, changed by edit.
func addJobs(t testing.TB, s *stage, edit func(*unstructured.Unstructured)) {
	t.Helper()
	for _, u := range trainingJobs() {
		from := kubeflow.TFJobs
		if u.GetKind() == kubeflow.KindPyTorchJob {
			from = kubeflow.PyTorchJobs
		}
		edit(u)
		if err := s.dynamic.Tracker().Create(from, u, u.GetNamespace()); err != nil {
			t.Fatal(err)
		}
	}
}

// bertPods are the pods of job bert: three that run, and one that is being started again.
func bertPods() []runtime.Object {
	var out []runtime.Object
	for i, name := range []string{"master-0", "worker-0", "worker-1", "worker-2"} {
		p := pod("vision", "bert-"+name, "gpu-a100-1", api.ResourceGPU, fmt.Sprintf("GPU-gpu-a100-1-%d", 4+i))
		kind, index, _ := strings.Cut(name, "-")
		p.UID = types.UID(p.Name)
		p.Labels = map[string]string{
			kubeflow.LabelJobName: "bert", kubeflow.LabelOperatorName: "pytorchjob-controller", kubeflow.LabelReplicaType: kind, kubeflow.LabelReplicaIndex: index,
		}
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubeflow.org/v1", Kind: "PyTorchJob", Name: "bert", UID: "uid-bert", Controller: &yes}}
		p.Spec.Containers[0].Name = "pytorch"
		p.Status.ContainerStatuses[0].Name = "pytorch"
		p.Status.ContainerStatuses[0].State.Running = &v1.ContainerStateRunning{}
		if i == 2 {
			p.Status.ContainerStatuses[0].RestartCount = 2
		}
		if i == 3 {
			p.Spec.NodeName, p.Status = "", v1.PodStatus{Phase: v1.PodPending}
		}
		out = append(out, p)
	}
	return out
}

func TestTrain(t *testing.T) {
	for _, tt := range []struct{ name, file, args string }{
		{"jobs of a namespace", "train_list.txt", "train list -n vision"},
		{"jobs of all, in full", "train_wide.txt", "training ls -A -o wide"},
		{"jobs as JSON", "train_list.json", "train list -n vision -o json"},
		{"a job that runs", "train_show.txt", "train show bert -n vision"},
		{"a job that runs, as JSON", "train_show.json", "train show bert -n vision -o json"},
		{"a job that waits and has no pods", "train_show_waits.txt", "train show tfjob/mnist -n vision"},
		{"a manifest for PyTorch", "train_create.yaml", "train create bert -n vision --image x/y:1 --replicas 4 --gpus 1 --cpu 4 --memory 16Gi --env A=b --volume data:/data --dry-run -o yaml -- python /data/train.py"},
		{"a manifest for TensorFlow", "train_create_tf.yaml", "train create mnist -n vision --image x/y:1 --framework tensorflow --dry-run=client -o yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			golden.File(t, tt.file, trainStage(t).ok(strings.Fields(tt.args)...))
		})
	}
}

func TestTrainNamesAndErrors(t *testing.T) {
	s := trainStage(t)
	if got, want := s.ok("train", "list", "-n", "speech", "-o", "name"), "tfjob.kubeflow.org/asr\n"; got != want {
		t.Errorf("names are %q, want %q", got, want)
	}
	for args, want := range map[string]string{
		"train show both -n vision":                                      "namespace vision has a PyTorchJob and a TFJob named both: write pytorchjob/both or tfjob/both",
		"train show brt -n vision":                                       "there is no training job brt in namespace vision; did you mean bert?",
		"train show zzzzzzzz -n speech":                                  "existing jobs: asr",
		"train show x -n empty":                                          "namespace empty, which has none; `berth train create` creates one",
		"train show job/x":                                               `invalid job "job/x": must be NAME, tfjob/NAME, pytorchjob/NAME, or trainjob/NAME`,
		"train shwo":                                                     "did you mean",
		"train why both -n vision":                                       "write pytorchjob/both or tfjob/both",
		"train why bert -n vision --for me":                              "invalid --for",
		"train logs bert -n vision --rank 4":                             "has no rank 4: it has 4 replicas, of ranks 0 to 3",
		"train logs bert -n vision --rank -2":                            "invalid --rank -2",
		"train logs mnist -n vision":                                     "no pod of tfjob vision/mnist has started, so there are no logs; `berth train why tfjob/mnist` explains",
		"train scale bert --replicas 8 -n vision":                        "pytorchjob vision/bert cannot have 8 replicas: its pods were started as 4 replicas",
		"train scale pytorchjob/both --replicas 2 -n vision":             "a job has one Master",
		"train scale elastic --replicas 6 -n vision":                     "allows 1 to 4 workers, so 2 to 5 replicas",
		"train scale bert --replicas 0 -n vision":                        "invalid --replicas 0",
		"train scale bert -n vision":                                     `required flag(s) "replicas" not set`,
		"train create bert -n vision":                                    "--image is missing",
		"train create bert --image x/y:1 -n vision":                      "it already exists; choose another name, or `berth train delete pytorchjob/bert`",
		"train create a b --image x/y:1":                                 "takes one name, and the command of the program after --",
		"train create Bert --image x/y:1 --dry-run":                      "Bert-master-0 cannot be the name of a pod and its Service",
		"train create a --image x/y:1 --framework jax":                   "must be torch or tensorflow",
		"train create a --image x/y:1 --replicas 0":                      "invalid --replicas 0",
		"train create a --image x/y:1 --gpus -1":                         "invalid --gpus -1",
		"train create a --image x/y:1 --memory lots":                     `invalid --memory "lots"`,
		"train create a --image x/y:1 --env A":                           `invalid --env "A"`,
		"train create a --image x/y:1 --volume data":                     `invalid --volume "data"`,
		"train create a --image x/y:1 --dry-run=maybe":                   "must be client or server",
		"train create a --image x/y:1 --dry-run -o table":                "must be yaml, json, or name",
		"train create a --image x/y:1 --dry-run --code /no/such":         "--code /no/such: no such file or directory",
		"notebook to-job off -n research":                                "the command of the program is missing",
		"notebook to-job nosuch -n research --framework jax -- python x": "must be torch or tensorflow",
	} {
		if _, stderr, code := s.run(append([]string{"berth"}, strings.Fields(args)...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("berth %s exits with %d and says %q, want %q", args, code, stderr, want)
		}
	}
	s.dynamic.PrependReactor("list", "tfjobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "kubeflow.org", Resource: "tfjobs"}, "", errors.New(`User "eve" cannot list resource "tfjobs"`))
	})
	if _, stderr, code := s.run("berth", "train", "list", "-n", "vision"); code != 1 || !strings.Contains(stderr, "kubectl create rolebinding training -n vision --clusterrole=berth-training-user --user=NAME") {
		t.Errorf("without the right to list them: %d, %q", code, stderr)
	}
	s.dynamic.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{}, "", "404 page not found", 0, true)
	})
	for _, args := range []string{"list", "show x", "delete x", "create x --image x/y:1"} {
		if _, stderr, code := s.run(append([]string{"berth", "train"}, strings.Fields(args)...)...); code != 1 || !strings.Contains(stderr, "this cluster does not serve training jobs; install `berth controller`") {
			t.Errorf("without the kinds berth train %s exits with %d and says %q", args, code, stderr)
		}
	}
}

// TestTrainChanges holds what is said and written when jobs are stopped, resumed, scaled, and deleted.
func TestTrainChanges(t *testing.T) {
	for _, tt := range []struct{ name, args, want, field, value string }{
		{"stop frees the GPUs", "stop bert", "pytorchjob vision/bert stopped; its GPUs (4) become free when its pods have ended\n  `berth train resume bert` resumes it\n", "bert spec runPolicy suspend", "true"},
		{"stop twice", "stop off", "pytorchjob vision/off is already stopped\n", "off spec runPolicy suspend", "true"},
		{"resume", "resume off", "pytorchjob vision/off resumed; its pods are created again when there are GPUs for them\n", "off spec runPolicy suspend", "false"},
		{"resume what is not stopped", "resume bert", "pytorchjob vision/bert is not stopped\n", "", ""},
		{"stop what has ended", "stop pytorchjob/both", "pytorchjob vision/both has ended (Succeeded); there is nothing to stop\n", "", ""},
		{"scale a job that is stopped", "scale off --replicas 4", "pytorchjob vision/off scaled to 4 replicas: Worker 1 -> 3\n", "off spec pytorchReplicaSpecs Worker replicas", "3"},
		{"scale an elastic job", "scale elastic --replicas 4", "pytorchjob vision/elastic scaled to 4 replicas: Worker 2 -> 3\n", "elastic spec pytorchReplicaSpecs Worker replicas", "3"},
		{"scale to what it is", "scale off --replicas 2", "pytorchjob vision/off has 2 replicas already\n", "", ""},
		{"delete one of a name", "delete pytorchjob/both", "pytorchjob vision/both deleted\n", "both", "gone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := trainStage(t)
			if got := s.ok(append(append([]string{"train"}, strings.Fields(tt.args)...), "-n", "vision")...); got != tt.want {
				t.Errorf("it says %q, want %q", got, tt.want)
			}
			path := strings.Fields(tt.field)
			if len(path) == 0 {
				return
			}
			u, err := s.dynamic.Resource(kubeflow.PyTorchJobs).Namespace("vision").Get(t.Context(), path[0], metav1.GetOptions{})
			got := "gone"
			if err == nil {
				v, _, _ := unstructured.NestedFieldNoCopy(u.Object, path[1:]...)
				got = fmt.Sprint(v)
			}
			if got != tt.value {
				t.Errorf("%s is %s, want %s", tt.field, got, tt.value)
			}
		})
	}
	s := trainStage(t)
	if out, stderr, code := s.run("berth", "train", "delete", "no-1", "off", "no-2", "-n", "vision"); code != 1 || out != "pytorchjob vision/off deleted\n" ||
		!strings.Contains(stderr, "training job no-1 ") || !strings.Contains(stderr, "training job no-2 ") {
		t.Errorf("of three jobs of which two do not exist: %d, %q, %q", code, out, stderr)
	}
}

// TestTrainStopInTurn has a job that waits for its turn leave the line, and one that runs stay stopped.
func TestTrainStopInTurn(t *testing.T) {
	s := newStage(t, append(lab(), bertPods()...)...)
	addJobs(t, s, func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{api.AnnotationResume: api.ResumeInTurn})
	})
	for name, want := range map[string]string{
		"off":  "pytorchjob vision/off no longer waits for its turn\n  `berth train resume off` resumes it at once\n",
		"bert": "pytorchjob vision/bert stopped; its GPUs (4) become free when its pods have ended\n  `berth train resume bert` resumes it\n",
	} {
		if got := s.ok("train", "stop", name, "-n", "vision"); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
		u, err := s.dynamic.Resource(kubeflow.PyTorchJobs).Namespace("vision").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if at := u.GetAnnotations()[api.AnnotationResumed]; at == "" {
			t.Errorf("%s has no annotation %s, so the scheduler would resume it", name, api.AnnotationResumed)
		}
	}
	if got := s.ok("train", "stop", "off", "-n", "vision"); got != "pytorchjob vision/off is already stopped\n" {
		t.Errorf("the second time it says %q", got)
	}
}

// TestTrainLogs reads the logs that the stand-in has, "fake logs", of the three pods that have started.
func TestTrainLogs(t *testing.T) {
	for args, want := range map[string]string{
		"train logs bert":              "[0] fake logs\n[1] fake logs\n[2] fake logs\n",
		"train logs bert --rank 2":     "fake logs\n",
		"train logs pytorchjob/bert":   "[0] fake logs\n[1] fake logs\n[2] fake logs\n",
		"train logs both -f --rank -2": "",
	} {
		stdout, stderr, code := trainStage(t).run(append([]string{"berth"}, append(strings.Fields(args), "-n", "vision")...)...)
		if stdout != want || (code != 0) != (want == "") {
			t.Errorf("berth %s prints %q, want %q; it says %q", args, stdout, want, stderr)
		}
	}
}

// TestTrainLogsFollow follows a job whose pods end one by one, until it has ended.
func TestTrainLogsFollow(t *testing.T) {
	s := trainStage(t)
	pods, jobs := watch.NewFake(), watch.NewFake()
	s.client.(*fake.Clientset).PrependWatchReactor("pods", clienttesting.DefaultWatchReactor(pods, nil))
	s.dynamic.PrependWatchReactor("pytorchjobs", clienttesting.DefaultWatchReactor(jobs, nil))
	go func() { // the command reads what is sent
		for _, o := range bertPods() {
			p := o.(*v1.Pod).DeepCopy()
			p.Status.Phase = v1.PodSucceeded
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "pytorch", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}}
			pods.Modify(p)
		}
		jobs.Modify(trainingJob("PyTorchJob", "vision", "bert", 3, states("Created", "Succeeded")))
	}()
	stdout := s.ok("train", "logs", "bert", "-f", "-n", "vision")
	for rank, want := range []int{1, 1, 2, 1} { // rank 2 had restarted twice: these are two runs
		if got := strings.Count(stdout, fmt.Sprintf("[%d] fake logs\n", rank)); got != want {
			t.Errorf("rank %d has %d lines, want %d:\n%s", rank, got, want, stdout)
		}
	}
}

// TestTrainShowsHowBusyRanksAre reads exporters on the nodes of the job, and names the slowest rank.
func TestTrainShowsHowBusyRanksAre(t *testing.T) {
	agent := exporter("dcgm-1")
	agent.Spec.NodeName = "gpu-a100-1"
	s := trainStage(t, agent)
	server := apiServer(t, nil, map[string]string{"dcgm-1": `DCGM_FI_DEV_GPU_UTIL{gpu="4",UUID="GPU-gpu-a100-1-4"} 90
DCGM_FI_DEV_GPU_UTIL{gpu="5",UUID="GPU-gpu-a100-1-5"} 30
DCGM_FI_DEV_GPU_UTIL{gpu="6",UUID="GPU-gpu-a100-1-6"} 90
`})
	nodes, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	s.connect = func(*rest.Config) (kubernetes.Interface, error) { return scraped{s.client, nodes}, nil }
	golden.File(t, "train_show_busy.txt", s.ok("train", "show", "bert", "-n", "vision"))
}

// scraped is a client whose proxy to pods is another one's.
type scraped struct {
	kubernetes.Interface
	to kubernetes.Interface
}

func (s scraped) CoreV1() corev1.CoreV1Interface { return scrapedCore{s.Interface.CoreV1(), s.to} }

type scrapedCore struct {
	corev1.CoreV1Interface
	to kubernetes.Interface
}

func (s scrapedCore) RESTClient() rest.Interface { return s.to.CoreV1().RESTClient() }

// TestTrainWhyWithoutPods explains jobs that have no pods.
func TestTrainWhyWithoutPods(t *testing.T) {
	for args, want := range map[string]string{
		"train why off":           "vision/off: Suspended\n\nWHY      the job is suspended, so it has no pods; berth train resume -n vision off resumes it\n",
		"why pytorchjob/off":      "vision/off: Suspended\n",
		"train why tfjob/both":    "vision/both: Failed\n\nWHY      the Job failed: TFJob vision/both has failed because 1 Chief replica(s) failed.",
		"why pytorchjobs/both":    "vision/both: Succeeded\n",
		"train why bert":          "vision/bert-worker-2: ",
		"why pytorchjob/bert":     "vision/bert-worker-2: ",
		"train why bert -o name":  "pod/bert-worker-2\n",
		"train why mnist -o name": "pod/mnist\n",
	} {
		if got := trainStage(t).ok(append(strings.Fields(args), "-n", "vision")...); !strings.HasPrefix(got, want) {
			t.Errorf("berth %s prints\n%s\nwant\n%s", args, got, want)
		}
	}
}

// TestTrainCode holds what --code puts into the ConfigMap, and what it refuses.
func TestTrainCode(t *testing.T) {
	write := func(t *testing.T, files map[string]string) string {
		t.Helper()
		dir := t.TempDir()
		for name, content := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	create := func(s *stage, dir string, more ...string) (string, string, int) {
		return s.run(append([]string{"berth", "train", "create", "new", "-n", "vision", "--image", "x/y:1", "--code", dir}, more...)...)
	}
	t.Run("files and folders, without what is hidden", func(t *testing.T) {
		dir := write(t, map[string]string{"train.py": "print(1)\n", "lib/a b.py": "x", "raw": "\xff\xfe", ".git/config": "secret", ".env": "secret", "__pycache__/x.pyc": "secret"})
		if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		out, stderr, code := create(trainStage(t), dir, "--dry-run", "-o", "yaml")
		if code != 0 {
			t.Fatal(stderr)
		}
		golden.File(t, "train_code.yaml", out)
	})
	t.Run("the job owns the ConfigMap", func(t *testing.T) {
		s := trainStage(t)
		if out, stderr, code := create(s, write(t, map[string]string{"train.py": "x"})); code != 0 || out != "pytorchjob.kubeflow.org/new created\n" {
			t.Fatal(code, out, stderr)
		}
		m, err := s.client.CoreV1().ConfigMaps("vision").Get(t.Context(), "new-code", metav1.GetOptions{})
		if err != nil || len(m.OwnerReferences) != 1 || m.OwnerReferences[0].Name != "new" || m.OwnerReferences[0].Kind != "PyTorchJob" {
			t.Errorf("%v, owned by %v", err, m.OwnerReferences)
		}
	})
	t.Run("a job that is refused leaves no ConfigMap", func(t *testing.T) {
		s := trainStage(t)
		s.dynamic.PrependReactor("create", "pytorchjobs", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pytorchjobs"}, "new", nil)
		})
		if _, _, code := create(s, write(t, map[string]string{"train.py": "x"})); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		if _, err := s.client.CoreV1().ConfigMaps("vision").Get(t.Context(), "new-code", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the ConfigMap is still there: %v", err)
		}
	})
	taken := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "new-code"}}
	for _, tt := range []struct {
		name  string
		files map[string]string
		more  []runtime.Object
		want  string
	}{
		{"more than a ConfigMap holds", map[string]string{"train.py": "x", "weights.bin": strings.Repeat("w", 1<<20)}, nil, "its files are more than 1 MiB, the most that a ConfigMap holds; build them into the image, or copy them to a volume"},
		{"a folder without files", map[string]string{".git/config": "x"}, nil, "the folder has no files"},
		{"two files of one key", map[string]string{"a/b": "x", "a.b": "y"}, nil, "would both be a.b in the ConfigMap; rename one"},
		{"a ConfigMap of that name", map[string]string{"train.py": "x"}, []runtime.Object{taken}, "create ConfigMap new-code: it already exists in namespace vision"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, stderr, code := create(trainStage(t, tt.more...), write(t, tt.files)); code == 0 || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, %q; want %q", code, stderr, tt.want)
			}
		})
	}
}
