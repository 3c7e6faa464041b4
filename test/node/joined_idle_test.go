//go:build linux

package node_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// idleAfter is when the notebook of these tests is stopped, idleWarning how long
// before that it is warned. They are short, and nothing that is tested is lost where
// a machine is slow: a look that fails or is late stops nothing.
const (
	idleAfter   = 8 * time.Second
	idleWarning = 3 * time.Second
)

// idling is a joined node with one notebook, in whose kernel nothing happens.
type idling struct {
	joined
	gpu int // the index of the GPU that the notebook holds
}

// TestIdleNotebook has a notebook on a real node whose kernel is quiet all the time:
// whether it is stopped is for the exporter of the node to say, if there is one.
//
// rows: AS-29 GS-38
func TestIdleNotebook(t *testing.T) {
	if !isolated(t) {
		return
	}
	j := &idling{joined: join(t)}
	j.serve(t, wholeGPUs(4), "--record-dir", workDir+"/record")
	j.ready(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"a notebook of a profile says how far it is, and is ready", j.spawned},
		{"the names of an old exporter are read: its busy GPU keeps the notebook", j.oldExporter},
		{"the agent is the node's exporter: its busy GPU keeps the notebook", j.agentExporter},
		{"a ledger that was not there asks the agent which pods came and went", j.recorded},
		{"when its GPU is idle, too, the notebook is warned and stopped, and the GPU is free", j.idle},
		{"where no exporter is found that is said, and what the notebook does counts alone", j.noExporter},
	} {
		if !t.Run(c.name, c.run) {
			return
		}
	}
}

// spawned makes the notebook, and shows what its user sees meanwhile.
func (j *idling) spawned(t *testing.T) {
	text := strings.Replace(fmt.Sprintf(hubValues, major), "[keep, /home/jovyan/starts]", `[jupyter, "0.0.0.0:8888"]`, 1)
	j.write("values.yaml", text)
	j.home(t, "claim-ada")
	j.run(t, "berth", "profiles", "import", workDir+"/values.yaml")
	began := time.Now()
	out, err := j.command("berth", "notebook", "create", "ada", "--profile", "one-gpu", "--for", "ada", "--wait", "--timeout", patience.String()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("figure: from berth notebook create to a notebook that is ready: %v; its user saw: %q", time.Since(began).Round(time.Millisecond), out)
	for _, want := range []string{"created", "Ready on " + nodeName} {
		if !strings.Contains(string(out), want) {
			t.Errorf("nothing of %q is said:\n%s", want, out)
		}
	}
	j.holds(t)
}

// holds notes the GPU of the notebook.
func (j *idling) holds(t *testing.T) {
	t.Helper()
	gpus := j.committed(t, "ada-0")
	if len(gpus) != 1 {
		t.Fatalf("the notebook was bound with GPUs %v", gpus)
	}
	j.gpu = gpus[0]
}

// oldExporter runs a container that serves what dcgm-exporter 3.1.8 does where it is
// asked for the names of version 1, of metrics and of labels.
// Source: its file etc/1.x-compatibility-metrics.csv, and its option
// --use-old-namespace.
func (j *idling) oldExporter(t *testing.T) {
	dir := workDir + "/exporter"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	labels := fmt.Sprintf(`{gpu="%d",uuid="%s",device="nvidia%d",modelName="%s",Hostname="%s",DCGM_FI_DRIVER_VERSION="525.85.12",container_name="ada",pod_name="ada-0",pod_namespace="default"} `,
		j.gpu, uuid(j.gpu), j.gpu, a100, nodeName)
	j.write("exporter/metrics", "# HELP dcgm_gpu_utilization GPU utilization (in %).\n# TYPE dcgm_gpu_utilization gauge\n"+
		"dcgm_gpu_utilization"+labels+"87\n# HELP dcgm_fb_used Framebuffer memory used (in MiB).\n# TYPE dcgm_fb_used gauge\ndcgm_fb_used"+labels+"4096\n")
	e := asking("dcgm-exporter", gpuResource, 0)
	e.Labels = map[string]string{"app": "dcgm-exporter"}
	e.Spec.NodeName = nodeName
	c := &e.Spec.Containers[0]
	c.Args = []string{"exporter", "/exporter/metrics", nodeIP + ":9400"}
	c.VolumeMounts = []v1.VolumeMount{{Name: "text", MountPath: "/exporter", ReadOnly: true}}
	e.Spec.Volumes = []v1.Volume{{Name: "text", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}}}
	pods := j.client.CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), e, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	j.serves(t, "default/pods/http:dcgm-exporter", "app=dcgm-exporter", "dcgm_gpu_utilization")
	j.follow(t)
	j.kept(t)

	j.unfollow(t)
	if err := pods.Delete(t.Context(), "dcgm-exporter", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "the old exporter is gone", func() error {
		_, err := pods.Get(t.Context(), "dcgm-exporter", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("asking for it is answered with %s", fmt.Sprint(err))
		}
		return nil
	})
}

// agentExporter has the agent serve its metrics to others, found by the label of its
// manifest.
func (j *idling) agentExporter(t *testing.T) {
	j.setGPUs(t, j.busy(0.8))
	j.listen(t, ":9400")
	metricsToken = j.token(t)
	j.run(t, "kubectl", "annotate", "pod", "berth-agent", "-n", "kube-system", "prometheus.io/scheme=https")
	j.run(t, "kubectl", "label", "pod", "berth-agent", "-n", "kube-system", "app=berth-agent")
	j.serves(t, "kube-system/pods/https:berth-agent", "app=berth-agent", "DCGM_FI_DEV_GPU_UTIL")
	j.shows(t, "DCGM_FI_DEV_GPU_UTIL", 80, "UUID", uuid(j.gpu))
	j.follow(t)
	j.kept(t)
}

// idle takes the process from the GPU.
func (j *idling) idle(t *testing.T) {
	j.setGPUs(t, wholeGPUs(4))
	j.stopped(t)
	eventually(t, patience, "its events tell of the warning and of the stop", func() error {
		out := j.run(t, "kubectl", "get", "events", "--field-selector", "involvedObject.kind=Notebook,involvedObject.name=ada")
		if !strings.Contains(out, "IdleWarning ") || !strings.Contains(out, "StoppedIdle ") {
			return &notYet{out}
		}
		return nil
	})
	eventually(t, patience, "its GPU is free", func() error {
		if out := j.run(t, "berth", "gpus"); strings.Contains(out, "default/ada") {
			return &notYet{out}
		}
		return nil
	})
}

// noExporter starts the notebook again on a node whose exporter nobody finds: its GPU
// is busy, and it is stopped.
func (j *idling) noExporter(t *testing.T) {
	j.run(t, "kubectl", "label", "pod", "berth-agent", "-n", "kube-system", "app-")
	j.listen(t, "127.0.0.1:9400")
	metricsToken = ""
	eventually(t, patience, "berth doctor tells of it", func() error {
		out, _ := j.command("berth", "doctor").CombinedOutput() // it finds more than this
		if !strings.Contains(string(out), "no DCGM exporter is found: BUSY is unknown, and idle rules fall back to activity only") {
			return &notYet{string(out)}
		}
		return nil
	})
	j.unfollow(t)
	j.run(t, "berth", "notebook", "start", "ada")
	j.listed(t, "Ready")
	j.holds(t)
	j.setGPUs(t, j.busy(0.8))
	j.shows(t, "DCGM_FI_DEV_GPU_UTIL", 80, "UUID", uuid(j.gpu))
	j.follow(t)
	j.stopped(t)
}

// busy is a file of GPUs in which the notebook's is in use.
func (j *idling) busy(ratio float64) string {
	return wholeGPUs(4) + fmt.Sprintf("loads: [{gpu: %d, pid: 4711, process: python, utilization: %v, memoryMiB: 4096}]\n", j.gpu, ratio)
}

// listen starts the agent anew, with its metrics at another address.
func (j *idling) listen(t *testing.T, address string) {
	t.Helper()
	j.agent.stop(t, syscall.SIGTERM)
	j.offersWithoutAgent(t, 0)
	j.agentArgs = append(j.agentArgs, "--listen", address)
	j.runAgent(t)
	j.offers(t, gpuResource, 4)
	j.ready(t)
}

// serves waits until an exporter is found and answers, both in the way in which Berth
// asks for idle notebooks: where none is found that holds for a while.
func (j *idling) serves(t *testing.T, pod, selector, metric string) {
	t.Helper()
	eventually(t, patience, "the exporter "+pod+" is found", func() error {
		list, err := j.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
		if err == nil && (len(list.Items) != 1 || list.Items[0].Status.Phase != v1.PodRunning) {
			err = fmt.Errorf("of %d pods with %s none runs", len(list.Items), selector)
		}
		return err
	})
	eventually(t, patience, "the exporter "+pod+" answers", func() error {
		r := j.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/" + pod + ":9400/proxy/metrics")
		if metricsToken != "" {
			if _, err := r.DoRaw(t.Context()); !apierrors.IsUnauthorized(err) {
				return fmt.Errorf("without a token it answers with %s", fmt.Sprint(err))
			}
			r = r.SetHeader(api.MetricsTokenHeader, j.token(t, api.MetricsAudience))
		}
		raw, err := r.DoRaw(t.Context())
		if err == nil && !strings.Contains(string(raw), metric) {
			err = &notYet{string(raw)}
		}
		return err
	})
}

// follow sets the policy of the notebook.
func (j *idling) follow(t *testing.T) {
	t.Helper()
	j.run(t, "kubectl", "annotate", "notebook", "ada", "--overwrite",
		"berth.dev/notebook-idle-after="+idleAfter.String(), "berth.dev/notebook-idle-warning="+idleWarning.String())
}

// unfollow lets nobody stop the notebook.
func (j *idling) unfollow(t *testing.T) {
	t.Helper()
	j.run(t, "kubectl", "annotate", "notebook", "ada", "--overwrite", "berth.dev/notebook-idle-after=never")
}

// notes are the annotations of the notebook.
func (j *idling) notes(t *testing.T) map[string]string {
	t.Helper()
	var n struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal([]byte(j.run(t, "kubectl", "get", "notebook", "ada", "-o", "json")), &n); err != nil {
		t.Fatal(err)
	}
	return n.Metadata.Annotations
}

// kept waits until the notebook has been in use for longer than one that is not used
// would be kept, from the first record of it that is found, and asks that it was
// neither stopped nor is to be.
func (j *idling) kept(t *testing.T) {
	t.Helper()
	var first time.Time
	eventually(t, patience, "the notebook is in use beyond its time", func() error {
		notes := j.notes(t)
		if notes["kubeflow-resource-stopped"] != "" {
			t.Fatalf("the notebook was stopped: %s", notes["berth.dev/notebook-stopped-for"])
		}
		last, err := time.Parse(time.RFC3339, notes["notebooks.kubeflow.org/last-activity"])
		if err != nil {
			return fmt.Errorf("its last activity: %w", err)
		}
		if first.IsZero() {
			first = last
		}
		if used := last.Sub(first); used < idleAfter+idleWarning || notes["berth.dev/notebook-stops-at"] != "" {
			return fmt.Errorf("it is known to be in use for %v; its annotations are %v", used, notes)
		}
		return nil
	})
}

// stopped waits until the notebook is, for being idle.
func (j *idling) stopped(t *testing.T) {
	t.Helper()
	j.listed(t, "Stopped")
	if why := j.notes(t)["berth.dev/notebook-stopped-for"]; !strings.HasPrefix(why, "idle: nothing has happened in it for ") {
		t.Errorf("it was stopped for %q", why)
	}
}
