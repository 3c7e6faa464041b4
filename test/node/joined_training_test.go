//go:build linux

package node_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// twoSimulated are nodes beside the real one.
const twoSimulated = "name: beside\nnodes:\n- {name: \"sim-{n}\", count: 2, cpu: 32, memoryGiB: 128, gpus: {product: NVIDIA A100-SXM4-40GB, count: 4}}\n"

// TestTrainingOnARealNode runs training jobs whose ranks are processes on a real node: two ranks of one program find each other by the
// environment of their containers, and a job of 8 ranks over two nodes survives the drain of the real one with what its programs have saved.
func TestTrainingOnARealNode(t *testing.T) {
	if !isolated(t) {
		return
	}
	if err := os.MkdirAll(workDir, 0o755); err != nil {
		t.Fatal(err)
	}
	fleet := filepath.Join(workDir, "fleet.yaml")
	if err := os.WriteFile(fleet, []byte(twoSimulated), 0o600); err != nil {
		t.Fatal(err)
	}
	j := joinFleet(t, fleet)
	j.serve(t, wholeGPUs(4))
	j.ready(t)
	t.Run("two ranks of a program find each other by torch's environment", func(t *testing.T) { j.ranks(t, torchRanks) })
	t.Run("two ranks of a program find each other by TF_CONFIG", func(t *testing.T) { j.ranks(t, tensorflowRanks) })
	t.Run("a job on two nodes survives the drain of one with its checkpoint", j.drained)
}

// ranks are how two ranks of a program run.
type ranks struct {
	program, kind, plural, name, replicas, leader, container, port string
}

var (
	torchRanks      = ranks{"torch_ranks.py", "PyTorchJob", "pytorchjob", "ring", "pytorchReplicaSpecs", "Master", "pytorch", "pytorchjob-port"}
	tensorflowRanks = ranks{"tensorflow_ranks.py", "TFJob", "tfjob", "strategy", "tfReplicaSpecs", "Chief", "tensorflow", "tfjob-port"}
)

// ranksJob is a job of two ranks. The node has no DNS of a cluster, and its pods are on its network: the names are in the pods' hosts files, and the two
// have different ports. Python is that of the machine.
var ranksJob = template.Must(template.New("").Parse(`apiVersion: kubeflow.org/v1
kind: {{.Kind}}
metadata: {name: {{.Name}}}
spec:
  {{.Replicas}}:
{{- range .Roles}}
    {{.Type}}:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          hostNetwork: true
          terminationGracePeriodSeconds: 1
          nodeSelector: {kubernetes.io/hostname: {{$.Node}}}
          hostAliases: [{ip: {{$.IP}}, hostnames: [{{range $.Hosts}}{{.}}, {{.}}.default.svc, {{end}}]}]
          containers:
          - name: {{$.Container}}
            image: {{$.Image}}
            imagePullPolicy: Never
            command: [/usr/bin/python3, -u, /program/{{$.Program}}]
            env: [{name: RATE, value: "0.5"}]
            ports: [{name: {{$.PortName}}, containerPort: {{.Port}}}]
            resources: {limits: {nvidia.com/gpu: 1}}
            volumeMounts: [{{range $i, $p := $.Paths}}{name: v{{$i}}, mountPath: {{$p.At}}, readOnly: true}, {{end}}]
          volumes: [{{range $i, $p := $.Paths}}{name: v{{$i}}, hostPath: {path: {{$p.Host}}}}, {{end}}]
{{- end}}
`))

// ranks runs the program of test/script/training-program.txtar in two containers.
func (j joined) ranks(t *testing.T, r ranks) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("it needs python3 in /usr/bin")
	}
	script, err := txtar.ParseFile("../script/training-program.txtar")
	if err != nil {
		t.Fatal(err)
	}
	type path struct{ Host, At string }
	paths := []path{{workDir + "/program", "/program"}}
	for _, p := range []string{"/usr", "/lib", "/lib64", "/etc/nsswitch.conf"} {
		if _, err := os.Stat(p); err == nil {
			paths = append(paths, path{p, p})
		}
	}
	if err := os.MkdirAll(workDir+"/program", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range script.Files {
		j.write("program/"+f.Name, string(f.Data))
	}
	type role struct {
		Type string
		Port int
	}
	var manifest strings.Builder
	lower := strings.ToLower(r.leader)
	if err := ranksJob.Execute(&manifest, map[string]any{
		"Kind": r.kind, "Name": r.name, "Replicas": r.replicas, "Container": r.container, "PortName": r.port, "Program": r.program, "Image": appImage,
		"Node": nodeName, "IP": nodeIP, "Paths": paths, "Hosts": []string{r.name + "-" + lower + "-0", r.name + "-worker-0"},
		"Roles": []role{{r.leader, 23456}, {"Worker", 23457}},
	}); err != nil {
		t.Fatal(err)
	}
	j.write("job.yaml", manifest.String())
	began := time.Now()
	j.plane.apply(t, workDir+"/job.yaml")
	j.run(t, "kubectl", "wait", "--for=condition=Succeeded", r.plural+"/"+r.name, "--timeout="+patience.String())
	t.Logf("figure: two ranks of %s on a real node: from kubectl apply to Succeeded: %v", r.program, time.Since(began).Round(time.Millisecond))
	logs := j.run(t, "berth", "train", "logs", r.plural+"/"+r.name)
	for _, want := range []string{"[0] step 3 loss 0.1250 over 2 ranks", "[1] step 3 loss 0.1250 over 2 ranks"} {
		if !strings.Contains(logs, want) {
			t.Errorf("the ranks have printed\n%swant %q; %s", logs, want, j.state(t, r.name+"-worker-0"))
		}
	}
	j.run(t, "kubectl", "delete", r.plural, r.name)
	j.clear(t)
}

// drainedJob is a TrainJob, whose pods have no port, so four of them are on the node's network.
const drainedJob = `apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: saves}
spec:
  mlPolicy: {numNodes: 8}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              metadata: {annotations: {berth.dev/simulate: "{duration: 24h}", berth.dev/checkpoint: "on-signal:85"}}
              spec:
                hostNetwork: true
                terminationGracePeriodSeconds: 30
                containers:
                - name: node
                  image: localhost/gpuapp:dev
                  imagePullPolicy: IfNotPresent
                  args: [save, /kept/$(JOB_COMPLETION_INDEX)]
                  resources: {limits: {nvidia.com/gpu: 1}}
                  volumeMounts: [{name: kept, mountPath: /kept}]
                volumes: [{name: kept, hostPath: {path: ` + workDir + `/kept, type: DirectoryOrCreate}}]
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: wide}
spec: {runtimeRef: {name: saves, kind: TrainingRuntime}}
`

const wideSelector = "jobset.sigs.k8s.io/jobset-name=wide"

// drained runs a job of 8 ranks on the real node and a simulated one, drains the real one, and then brings the job back to it.
func (j joined) drained(t *testing.T) {
	j.run(t, "kubectl", "cordon", "sim-2")
	j.write("wide.yaml", drainedJob)
	j.plane.apply(t, workDir+"/wide.yaml")
	first := j.runs(t, nodeName, "sim-1")
	j.run(t, "kubectl", "uncordon", "sim-2")

	began := time.Now()
	j.drain(t, nodeName)
	t.Logf("figure: a drain of a real node with 4 ranks that save their work: %v", time.Since(began).Round(time.Millisecond))
	j.runs(t, "sim-1", "sim-2")
	t.Logf("figure: from the drain to all 8 ranks running on other nodes: %v", time.Since(began).Round(time.Millisecond))
	for _, index := range first[nodeName] {
		if data, err := os.ReadFile(filepath.Join(workDir, "kept", index)); err != nil || string(data) != "started\n" {
			t.Errorf("rank %s has saved %q, %v", index, data, err)
		}
	}
	eventually(t, patience, "events prove the checkpoints of the real ranks", func() error {
		out := j.run(t, "kubectl", "get", "events", "--field-selector", "reason=CheckpointSaved", "-o", "jsonpath={range .items[*]}{.message}{\"\\n\"}{end}")
		for _, index := range first[nodeName] {
			if !strings.Contains(out, "pod wide-node-0-"+index+"-") {
				return fmt.Errorf("nothing of rank %s in\n%s", index, out)
			}
		}
		return nil
	})
	if out := j.run(t, "kubectl", "get", "events", "--field-selector", "reason=CheckpointMissed"); strings.Contains(out, "wide") {
		t.Errorf("a checkpoint was missed: %s", out)
	}

	j.run(t, "kubectl", "uncordon", nodeName)
	j.drain(t, "sim-2")
	back := j.runs(t, nodeName, "sim-1")
	for _, index := range back[nodeName] {
		saved, _ := os.ReadFile(filepath.Join(workDir, "kept", index)) // none is that the rank was not here before
		if r := j.reports(t, j.pod(t, index)); r.Kept != strings.Count(string(saved), "\n") {
			t.Errorf("rank %s begins with %d checkpoints, want those in its file: %q", index, r.Kept, saved)
		}
	}
	j.run(t, "kubectl", "delete", "trainjob", "wide")
	j.clear(t)
}

// drain drains a node of the job's pods.
func (j joined) drain(t *testing.T, node string) {
	t.Helper()
	j.run(t, "kubectl", "drain", node, "--ignore-daemonsets", "--force", "--pod-selector="+wideSelector, "--timeout="+patience.String())
}

// runs waits until four ranks of the job run on each of two nodes, and returns their indexes by node.
func (j joined) runs(t *testing.T, nodes ...string) map[string][]string {
	t.Helper()
	var at map[string][]string
	eventually(t, patience, "four ranks run on each of "+strings.Join(nodes, " and "), func() error {
		list, err := j.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: wideSelector})
		if err != nil {
			return err
		}
		at = map[string][]string{}
		for i := range list.Items {
			p := &list.Items[i]
			if p.DeletionTimestamp == nil && p.Status.Phase == v1.PodRunning {
				at[p.Spec.NodeName] = append(at[p.Spec.NodeName], p.Labels["batch.kubernetes.io/job-completion-index"])
			}
		}
		for _, n := range nodes {
			if len(at[n]) != 4 {
				text, err := json.Marshal(at)
				return errors.Join(err, fmt.Errorf("the ranks run on %s", text))
			}
		}
		return nil
	})
	return at
}

// pod returns the pod of a rank.
func (j joined) pod(t *testing.T, index string) string {
	t.Helper()
	list, err := j.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: wideSelector + ",batch.kubernetes.io/job-completion-index=" + index})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("rank %s has %d pods, %v", index, len(list.Items), err)
	}
	return list.Items[0].Name
}
