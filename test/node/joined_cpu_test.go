//go:build linux

package node_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// python3 is that of Debian, which its packages are for.
const python3 = "/usr/bin/python3"

// withoutGPUs is a joined node that has no GPUs and no agent, with the files of the lab.
type withoutGPUs struct {
	joined
	files map[string]string
}

// TestLabWithoutGPUs runs the lab of seed 002 on a real node without GPUs, by Berth's controllers alone: a notebook, a job that trains a model of
// scikit-learn and writes it to a volume, and a service that loads it from there, answers, scales to zero, and answers again. Then a command
// makes services of what the job has written: a model, and weights that the server cannot read.
//
// rows: ML-68 ML-74
func TestLabWithoutGPUs(t *testing.T) {
	if exec.Command(python3, "-c", "import sklearn").Run() != nil {
		t.Skip("left out: it needs Debian's python3-sklearn (apt-get install python3-sklearn)")
	}
	if !isolated(t) {
		return
	}
	l := &withoutGPUs{joinBare(t, "none"), map[string]string{}}
	l.prepare(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"a notebook of the hub's profile for CPUs is ready", l.notebook},
		{"a TFJob trains a model with two ranks, and writes it to its volume", l.train},
		{"a service loads the model from the volume, and answers", l.serve},
		{"a service without requests has no replica, and answers the next one", l.wake},
		{"the job's volume becomes a service, and its wrong folder one that says so", l.convert},
	} {
		if !t.Run(c.name, c.run) {
			return
		}
	}
}

// prepare reads the files, gives the node the images that they name, and waits until it is ready.
func (l *withoutGPUs) prepare(t *testing.T) {
	lab, err := txtar.ParseFile("testdata/without-gpus.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var mounts, volumes strings.Builder
	for i, path := range []string{"/usr", "/lib", "/lib64", "/etc/alternatives"} {
		if _, err := os.Stat(path); err == nil {
			fmt.Fprintf(&mounts, "            - {name: v%d, mountPath: %s, readOnly: true}\n", i, path)
			fmt.Fprintf(&volumes, "          - {name: v%d, hostPath: {path: %s}}\n", i, path)
		}
	}
	for _, f := range lab.Files {
		text := string(f.Data)
		if strings.HasSuffix(f.Name, ".yaml") {
			var out strings.Builder
			if err := template.Must(template.New(f.Name).Parse(text)).Execute(&out, map[string]any{
				"IP": nodeIP, "Mounts": mounts.String(), "Volumes": volumes.String(), "Replicas": map[string]int{"Chief": 23456, "Worker": 23457},
			}); err != nil {
				t.Fatal(err)
			}
			text = out.String()
		}
		l.files[f.Name] = text
		l.write(f.Name, text)
	}
	l.images(t)
	eventually(t, patience, "the node is ready, without GPUs", func() error {
		n, err := l.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status != v1.ConditionTrue {
				return &notYet{c.Message}
			}
		}
		if gpus, ok := n.Status.Capacity[gpuResource]; ok || len(n.Spec.Taints) > 0 {
			return fmt.Errorf("the node has %s GPUs, and the taints %v", gpus.String(), n.Spec.Taints)
		}
		return nil
	})
	l.run(t, "kubectl", "create", "namespace", "ml-training")
}

// images brings to the node what a registry has in other clusters, under the names that the manifests have.
func (l *withoutGPUs) images(t *testing.T) {
	t.Helper()
	app, err := os.ReadFile(program("gpuapp"))
	if err != nil {
		t.Fatal(err)
	}
	jupyter, err := layer(map[string][]byte{"gpuapp": app})
	if err != nil {
		t.Fatal(err)
	}
	python, err := layer(map[string][]byte{"bin/python": []byte(l.files["python"]), "sklearnserver.py": []byte(l.files["sklearnserver.py"])})
	if err != nil {
		t.Fatal(err)
	}
	path, env := workDir+"/lab.tar", []string{"PATH=/bin:/usr/bin"}
	if err := writeArchive(path,
		image{name: "docker.io/jupyter/tensorflow-notebook:2023-11-19", rootfs: jupyter, entrypoint: []string{"/gpuapp", "jupyter", "0.0.0.0:8888"}, env: env, user: "1000"},
		image{name: "docker.io/tensorflow/tensorflow:2.14.0", rootfs: python, entrypoint: []string{"/bin/python"}, env: env},
		image{name: "docker.io/kserve/sklearnserver:v0.15.2", rootfs: python, entrypoint: []string{"/bin/python", "/sklearnserver.py"}, env: env, user: "1000"},
	); err != nil {
		t.Fatal(err)
	}
	if err := l.ctr("-n", "k8s.io", "images", "import", "--digests=false", "--local", path); err != nil {
		t.Fatal(err)
	}
}

// notebook makes a notebook of the hub's values, and stops it.
func (l *withoutGPUs) notebook(t *testing.T) {
	l.home(t, "claim-ada")
	l.run(t, "berth", "profiles", "import", workDir+"/hub.yaml")
	began := time.Now()
	l.run(t, "berth", "notebook", "create", "ada", "--profile", "cpu", "--for", "ada", "--wait", "--timeout", patience.String())
	t.Logf("figure: from berth notebook create to a notebook that is ready, without GPUs: %v", time.Since(began).Round(time.Millisecond))
	if r := l.reports(t, "ada-0"); len(r.Nodes) > 0 {
		t.Errorf("the notebook sees device nodes of GPUs: %v", r.Nodes)
	}
	l.run(t, "berth", "notebook", "delete", "ada")
	l.clear(t)
}

// train applies the lab's volume and job.
func (l *withoutGPUs) train(t *testing.T) {
	l.volume(t, "models", "standard", "ml-training", "model-storage")
	l.plane.apply(t, workDir+"/storage.yaml")
	l.run(t, "kubectl", "create", "configmap", "training-script", "-n", "ml-training", "--from-file="+workDir+"/train.py")
	began := time.Now()
	l.plane.apply(t, workDir+"/job.yaml")
	l.run(t, "kubectl", "wait", "-n", "ml-training", "--for=condition=Succeeded", "tfjob/mnist-dist-training", "--timeout="+patience.String())
	t.Logf("figure: a TFJob with two ranks on a real node without GPUs: from kubectl apply to Succeeded: %v", time.Since(began).Round(time.Millisecond))
	logs := l.run(t, "berth", "train", "logs", "-n", "ml-training", "tfjob/mnist-dist-training")
	for _, want := range []string{"[0] rank 0 of 2: 849 digits", "[1] rank 1 of 2: 848 digits", "[0] Test accuracy: 0.", "[0] Model saved to /output/model.joblib"} {
		if !strings.Contains(logs, want) {
			t.Errorf("the ranks have printed\n%swant %q", logs, want)
		}
	}
}

// serve applies the lab's service, and asks it what the digit of the payload is.
func (l *withoutGPUs) serve(t *testing.T) {
	began := time.Now()
	l.plane.apply(t, workDir+"/service.yaml")
	l.run(t, "kubectl", "wait", "-n", "ml-training", "--for=condition=Ready", "inferenceservice/mnist-model", "--timeout="+patience.String())
	t.Logf("figure: from kubectl apply to a service that is Ready with its model: %v", time.Since(began).Round(time.Millisecond))
	l.predicts(t, "mnist-model")
	if out := l.run(t, "kubectl", "get", "isvc", "mnist-model", "-n", "ml-training"); !strings.Contains(out, "http://mnist-model.ml-training.svc.cluster.local") {
		t.Errorf("its URL is not shown:\n%s", out)
	}
}

// wake waits until the service has no pod, and asks it again.
func (l *withoutGPUs) wake(t *testing.T) {
	eventually(t, patience, "the service has scaled to zero", func() error {
		pods, err := l.client.CoreV1().Pods("ml-training").List(t.Context(), metav1.ListOptions{LabelSelector: "serving.kserve.io/inferenceservice=mnist-model"})
		if err != nil || len(pods.Items) > 0 {
			return fmt.Errorf("pods are left: %w %s", err, l.run(t, "berth", "service", "list", "-n", "ml-training"))
		}
		return nil
	})
	began := time.Now()
	l.predicts(t, "mnist-model")
	t.Logf("figure: the first answer of a service that has scaled to zero, on a real node: %v", time.Since(began).Round(time.Millisecond))
	for line := range strings.Lines(l.run(t, "berth", "service", "show", "mnist-model", "-n", "ml-training")) {
		if starts, ok := strings.CutPrefix(line, "STARTS "); ok {
			t.Logf("figure: its replica was ready %s", strings.TrimSpace(starts))
		}
	}
	l.run(t, "berth", "service", "delete", "mnist-model", "-n", "ml-training")
}

// convert makes services of folders of the job's volume.
func (l *withoutGPUs) convert(t *testing.T) {
	l.plane.apply(t, workDir+"/runtime.yaml")
	l.toService(t, "weights", "/output/weights")
	const wrong = "the server finds no model in pvc://model-storage/weights: there is no file of its format"
	eventually(t, patience, "the service says that the folder has no model", func() error {
		if out := l.run(t, "berth", "service", "show", "weights", "-n", "ml-training"); !strings.Contains(out, wrong) {
			return &notYet{out}
		}
		return nil
	})
	l.run(t, "berth", "service", "delete", "weights", "-n", "ml-training")
	l.toService(t, "digits", "/output")
	l.run(t, "kubectl", "wait", "-n", "ml-training", "--for=condition=Ready", "inferenceservice/digits", "--timeout="+patience.String())
	l.predicts(t, "digits")
	l.run(t, "berth", "service", "delete", "digits", "-n", "ml-training")
}

// toService has berth make a service of a folder that the job has written, and puts its pods on the network of the node.
func (l *withoutGPUs) toService(t *testing.T, name, path string) {
	t.Helper()
	out := l.run(t, "berth", "train", "to-service", "mnist-dist-training", "-n", "ml-training", "--format", "sklearn", "--runtime", "lab-sklearn", "--path", path, "--name", name, "--dry-run", "-o", "json")
	var service unstructured.Unstructured
	if err := service.UnmarshalJSON([]byte(out)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for field, value := range map[string]any{"hostNetwork": true, "terminationGracePeriodSeconds": int64(1)} {
		if err := unstructured.SetNestedField(service.Object, value, "spec", "predictor", field); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := service.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	l.write(name+".json", string(raw))
	l.plane.apply(t, workDir+"/"+name+".json")
}

// predicts sends the payload, which is a seven.
func (l *withoutGPUs) predicts(t *testing.T, service string) {
	t.Helper()
	if out := l.run(t, "berth", "service", "predict", service, "-n", "ml-training", "-f", workDir+"/payload.json"); !strings.Contains(out, `"predictions": [7]`) {
		t.Errorf("the answer is %q", out)
	}
}
