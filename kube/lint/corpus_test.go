package lint_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/lint"
)

// TestWhatDocumentationShowsIsNotAlarming checks manifests and commands that the documentation of Kubernetes, Kubeflow, KServe, and NVIDIA
// shows as right, written from what they show: nothing is found in them.
func TestWhatDocumentationShowsIsNotAlarming(t *testing.T) {
	files, err := filepath.Glob("testdata/right/*")
	if err != nil || len(files) < 4 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range lint.Check(file, data, reader) {
			if f.Status != finding.OK {
				t.Errorf("%s:%d: %s %s: %s, %s: %s", f.File, f.Line, f.Status, f.Name, f.Object, f.Field, f.Seen)
			}
		}
	}
}

// TestTraps finds each trap of the five documents that their text alone shows.
// rows: GS-98
func TestTraps(t *testing.T) {
	sh := func(line string) string { return "```bash\n" + line + "\n```\n" }
	onNode := func(label string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeSelector: {" + label + "}, containers: [{name: c}]}\n"
	}
	const unnamed = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: time-slicing-config}\ndata:\n  any: |\n    sharing:\n      timeSlicing:\n        replicas: 4\n"
	for _, c := range []struct{ rows, file, text, want string }{
		{"NB-10", "a.md", sh("kubectl get nodes -l accelerator=nvidia-gpu"), "shell-command"},
		{"NB-10", "a.yaml", onNode("accelerator: nvidia-gpu"), "node-label"},
		{"NB-43 GS-55", "a.yaml", "kind: ResourceQuota\nspec: {hard: {limits.nvidia.com/gpu: '2'}}\n", "quota-line"},
		{"NB-46", "a.yaml", onNode("gpu-model: Tesla-V100"), "node-label"},
		{"NB-49 ML-58", "a.yaml", unnamed, "plugin-config"},
		{"GS-26 AS-07", "a.yaml", "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n", "plugin-config"},
		{"GS-27", "a.md", sh("kubectl rollout restart daemonset nvidia-device-plugin-daemonset -n gpu-operator"), "shell-command"},
		{"GS-29", "a.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  restartPolicy: Always\n  template: {spec: {containers: [{name: c}]}}\n", "unknown-field"},
		{"GS-35", "a.md", sh("helm upgrade x y \\\n  --set mig.strategy=mixed \\  # single\n  --reuse-values"), "shell-continuation"},
		{"GS-40", "a.md", "```promql\nDCGM_FI_DEV_SM_OCCUPANCY\n```\n", "metric-name"},
		{"GS-41", "a.yaml", "kind: ConfigMap\ndata:\n  d.json: '{\"dashboard\": {\"panels\": []}}'\n", "dashboard"},
		{"GS-42", "a.md", "```promql\nDCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_TOTAL\n```\n", "metric-name"},
		{"GS-46 AS-30", "a.yaml", "kind: ConfigMap\ndata:\n  r.yaml: 'groups: [{rules: [{alert: A, expr: up}]}]'\n", "rules"},
		{"GS-47", "a.md", sh("kubectl resource-capacity --pods --util --sort gpu.nvidia.com"), "shell-command"},
		{"GS-98", "a.md", sh("kubectl krew install resource-capacity"), "shell-command"},
		{"GS-98", "a.md", "- [kubectl-gpu plugin](https://github.com/kubernetes-sigs/kubectl-gpu)\n", "link"},
		{"GS-98", "a.sh", "git clone https://github.com/kubernetes-sigs/kubectl-gpu", "link"},
		{"GS-50", "a.yaml", "kind: Job\nspec: {template: {spec: {containers: [{resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}}]}}}\n", "requests-differ"},
		{"GS-56", "a.yaml", "kind: LimitRange\nspec: {limits: [{type: Container, max: {nvidia.com/gpu: 4}, min: {nvidia.com/gpu: 1}}]}\n", "limitrange-default"},
		{"GS-66", "a.yaml", "kind: Pod\nspec: {resources: {limits: {nvidia.com/gpu: 1}}, containers: [{name: c}]}\n", "pod-resources"},
		{"ML-15", "a.md", sh("kubectl apply -f - <<EOF\napiVersion: v1\nkind: Pod\nmetadata: {name: gpu-test}\nspec: {restartPolicy: OnFailure, containers: [{name: c}]}\nEOF\nkubectl wait --for=condition=Ready pod/gpu-test --timeout=300s"), "shell-command"},
		{"ML-52", "a.yaml", "kind: HorizontalPodAutoscaler\nspec: {minReplicas: 0, scaleTargetRef: {kind: InferenceService}}\n", "autoscaler-zero"},
		{"ML-52", "a.yaml", "kind: HorizontalPodAutoscaler\nspec: {minReplicas: 1, scaleTargetRef: {kind: InferenceService}}\n", "autoscaler-target"},
		{"ML-57", "a.md", sh("kubectl patch job mnist-training -n ml-training --type json -p='[\n  {\"op\": \"add\", \"path\": \"/spec/template/spec/tolerations\", \"value\": []}\n]'"), "shell-command"},
		{"ML-59", "a.md", sh("kubectl delete pod -n kube-system -l name=nvidia-device-plugin-ds"), "shell-command"},
		{"ML-63", "a.md", "```promql\nsum(DCGM_FI_DEV_GPU_UTIL) * (2/3600) * on(pod) group_left(job_name) kube_pod_labels\n```\n", "query"},
		{"AS-12", "a.yaml", "kind: PriorityClass\nglobalDefault: true\nvalue: 10000\n", "global-default"},
		{"AS-21", "a.yaml", "kind: Pod\nspec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: nvidia.com/gpu, operator: Exists}]}]}}}, containers: [{name: c}]}\n", "node-label"},
		{"AS-24", "a.md", sh("kubectl taint nodes -l nvidia.com/gpu=true \\\n  dedicated=gpu:NoSchedule"), "shell-command"},
		{"AS-53", "a.md", sh("kubectl debug node/gpu-node-1 -it --image=ubuntu\nnvidia-smi"), "shell-command"},
	} {
		t.Run(c.rows, func(t *testing.T) {
			found := lint.Check(c.file, []byte(c.text), reader)
			i := slices.IndexFunc(found, func(f lint.Finding) bool { return f.Name == c.want })
			if i < 0 {
				t.Fatalf("%s is not found, but %v", c.want, found)
			}
			if f := found[i]; f.Status != finding.OK && f.Do == "" {
				t.Errorf("no way that works is named: %s", f.Seen)
			}
		})
	}
}

// rows: AS-66
func TestSharesOfTimeSlicingArePromisedNoEqualPart(t *testing.T) {
	const lab = "version: v1\nsharing:\n  timeSlicing:\n    renameByDefault: false\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4  # Each GPU appears as 4\n"
	for kind, promised := range map[string]bool{"timeSlicing": false, "mps": true} {
		found := lint.Check("a.yaml", []byte(strings.Replace(lab, "timeSlicing", kind, 1)), reader)
		says := slices.ContainsFunc(found, func(f lint.Finding) bool {
			return f.Status == finding.OK && strings.Contains(f.Seen, "nothing limits their memory, and none is promised an equal part")
		})
		if says == promised {
			t.Errorf("%s: what pods get of a GPU is said in %v", kind, found)
		}
	}
}
