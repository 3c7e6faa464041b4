package cli_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/test/golden"
)

// claim is a PersistentVolumeClaim of a namespace.
func claim(namespace, name string, modes ...v1.PersistentVolumeAccessMode) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1.PersistentVolumeClaimSpec{AccessModes: modes}}
}

// richBook is a notebook with all that a job takes over, and all that it leaves out.
func richBook(edits ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	spec := map[string]any{
		"nodeSelector":       map[string]any{"gpu": "a100"},
		"serviceAccountName": "ada",
		"initContainers": []any{
			map[string]any{"name": "sync", "image": "git:1", "restartPolicy": "Always"},
			map[string]any{"name": "prepare", "image": "git:1"},
		},
		"containers": []any{
			map[string]any{"name": "proxy", "image": "proxy:1"},
			map[string]any{
				"name": "rich", "image": "jupyter/pytorch:v1", "command": []any{"start.sh"}, "args": []any{"--port", "8888"}, "workingDir": "/home/jovyan",
				"env": []any{map[string]any{"name": "HF_HOME", "value": "/data"}}, "ports": []any{map[string]any{"containerPort": int64(8888)}},
				"resources":      map[string]any{"limits": map[string]any{api.ResourceGPU: "2"}, "requests": map[string]any{"cpu": "4"}},
				"readinessProbe": map[string]any{"httpGet": map[string]any{"port": int64(8888)}},
				"volumeMounts":   []any{map[string]any{"name": "home", "mountPath": "/home/jovyan"}, map[string]any{"name": "data", "mountPath": "/data"}},
			},
		},
		"volumes": []any{
			map[string]any{"name": "home", "persistentVolumeClaim": map[string]any{"claimName": "home"}},
			map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "data"}},
		},
	}
	all := append([]func(*unstructured.Unstructured){
		set(spec, "spec", "template", "spec"), told("Bound", "gpu-a100-1", "Ready", "on node gpu-a100-1"),
		annotated(api.AnnotationSharesDo, "true"), annotated(api.AnnotationServerType, "jupyter"),
	}, edits...)
	return book("research", "rich", all...)
}

// rows: ML-73
func TestNotebookToJob(t *testing.T) {
	for _, tt := range []struct {
		name, args string
		modes      []v1.PersistentVolumeAccessMode // of its volume home
		edits      []func(*unstructured.Unstructured)
		warns      string // contained in what is said; "" stands for none
	}{
		{
			"a volume that only one node has, where the notebook is", "",
			[]v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			nil,
			"volume home is ReadWriteOnce, and the notebook uses it on gpu-a100-1, so the job can only run on that node; `berth notebook stop rich` frees it",
		},
		{"a volume that only one pod has", "", []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}, nil, "so the job cannot start"},
		{
			"a volume of one node, of a notebook that is stopped", "",
			[]v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			[]func(*unstructured.Unstructured){annotated(api.AnnotationStopped, "x")},
			"",
		},
		{
			"a volume of one node, for several replicas", "--replicas 3 ",
			[]v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			[]func(*unstructured.Unstructured){annotated(api.AnnotationStopped, "x")},
			"volume home is not ReadWriteMany, so all 3 replicas have to run on one node",
		},
		{"a volume that all nodes have", "--replicas 3 ", []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := toJobStage(t, richBook(tt.edits...), claim("research", "home", tt.modes...), claim("research", "data", v1.ReadWriteMany))
			_, stderr, code := s.run(append([]string{"berth"}, strings.Fields("notebook to-job rich -n research --dry-run "+tt.args+"-- python train.py")...)...)
			if code != 0 || strings.Contains(stderr, "warning: ") != (tt.warns != "") || !strings.Contains(stderr, tt.warns) {
				t.Errorf("exit code %d, want 0; it says\n%s\nwant %q", code, stderr, tt.warns)
			}
		})
	}
	s := toJobStage(t, richBook(), claim("research", "home", v1.ReadWriteMany), claim("research", "data", v1.ReadWriteMany))
	stdout, stderr, code := s.run(strings.Fields("berth notebook to-job rich -n research --replicas 2 --framework tensorflow --name large --dry-run -o yaml -- python train.py")...)
	if code != 0 {
		t.Fatal(stderr)
	}
	golden.File(t, "notebook_to_job.yaml", stdout)
	golden.File(t, "notebook_to_job.txt", stderr)
	if got, want := s.ok(strings.Fields("nb to-job rich -n research -- python train.py")...), "pytorchjob.kubeflow.org/rich created\n"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if _, err := s.dynamic.Resource(kubeflow.PyTorchJobs).Namespace("research").Get(t.Context(), "rich", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// toJobStage is a cluster with one notebook.
func toJobStage(t *testing.T, nb *unstructured.Unstructured, objects ...runtime.Object) *stage {
	t.Helper()
	s := newStage(t, append(lab(), objects...)...)
	if err := s.dynamic.Tracker().Create(kubeflow.Resource, nb, nb.GetNamespace()); err != nil {
		t.Fatal(err)
	}
	return s
}
