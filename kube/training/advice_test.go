package training_test

import (
	"strings"
	"testing"

	"berth.dev/berth/kube/training"
)

// rows: ML-37
func TestAdvice(t *testing.T) {
	job1 := func(container, more string) string {
		return "kind: TFJob\nmetadata: {name: x, namespace: ml}\nspec: {tfReplicaSpecs: {Worker: {template: {spec: {containers: [{name: tensorflow, image: i" + container + "}]" + more + "}}}}}"
	}
	const claim = ", volumes: [{name: out, persistentVolumeClaim: {claimName: c}}]"
	job2 := func(run, more string) string {
		pod := "template: {spec: {containers: [{name: tensorflow, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]" + more + "}}"
		return "kind: TFJob\nmetadata: {name: x, namespace: ml}\nspec: {runPolicy: {" + run + "}, tfReplicaSpecs: {Chief: {" + pod + "}, Worker: {replicas: 2, " + pod + "}}}"
	}
	for _, tt := range []struct {
		name, text string
		want       []string // parts of the sentences
	}{
		{"one pod without a volume", job1("", ""), []string{"none of its pods has a volume that outlives it"}},
		{"one pod with a claim", job1("", claim), nil},
		{"a claim that may only be read", job1("", ", volumes: [{name: out, persistentVolumeClaim: {claimName: c, readOnly: true}}]"), []string{"none of its pods has a volume"}},
		{"a path beside the volume", job1(", command: [python, train.py, --output-dir, /output], volumeMounts: [{name: out, mountPath: /data}]", claim), []string{"container tensorflow of Worker writes to /output, which is on none of its volumes"}},
		{"a path on the volume", job1(", args: [--model_dir=/data/model], volumeMounts: [{name: out, mountPath: /data}]", claim), nil},
		{
			"pods that do not say how they save nor how long they run",
			"kind: TFJob\nmetadata: {name: x, namespace: ml, annotations: {berth.dev/checkpoint: often}}\nspec: {tfReplicaSpecs: {Worker: {template: {metadata: {annotations: {berth.dev/max-run-time: soon}}, spec: {containers: [{name: tensorflow, image: i}]" + claim + "}}}}}",
			[]string{`annotation berth.dev/checkpoint: "often" does not say how work is saved`, `annotation berth.dev/max-run-time: "soon" does not say how long a pod runs: write a duration such as 90m or 2h`},
		},
		{
			"the TFJob of the lab",
			"kind: TFJob\nmetadata: {name: x, namespace: ml}\nspec: {tfReplicaSpecs: {Chief: {template: {spec: {containers: [{name: tensorflow, image: i}]}}}, Worker: {replicas: 3, template: {spec: {containers: [{name: tensorflow, image: i}]}}}}}",
			[]string{"none of its pods has a volume", "its 4 pods get TF_CONFIG, and train one model together only if"},
		},
		{
			"a Chief whose workers keep their GPUs", job2("", claim),
			[]string{"cleanPodPolicy is None, so 2 of its pods keep their GPUs if they still run when its Chief has ended", "its 3 pods get TF_CONFIG"},
		},
		{"one that cleans up", job2("cleanPodPolicy: Running", claim), []string{"its 3 pods get TF_CONFIG"}},
		{"one that is deleted soon after its end", job2("ttlSecondsAfterFinished: 60", claim), []string{"its 3 pods get TF_CONFIG"}},
		{
			"a PyTorchJob without a Master",
			"kind: PyTorchJob\nmetadata: {name: x, namespace: ml}\nspec: {pytorchReplicaSpecs: {Worker: {replicas: 4, template: {spec: {containers: [{name: pytorch, image: i}]" + claim + "}}}}}",
			[]string{"its 4 workers get neither MASTER_ADDR nor RANK and WORLD_SIZE, because it has no Master"},
		},
		{
			"an elastic one finds the others by its rendezvous",
			"kind: PyTorchJob\nmetadata: {name: x, namespace: ml}\nspec: {elasticPolicy: {maxReplicas: 4}, pytorchReplicaSpecs: {Worker: {replicas: 4, template: {spec: {containers: [{name: pytorch, image: i}]" + claim + "}}}}}",
			nil,
		},
		{"a PyTorchJob of several pods needs no strategy", torch, []string{"none of its pods has a volume"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := job(t, tt.text)
			j, err := training.Of(o)
			if err != nil {
				t.Fatal(err)
			}
			got := training.Advice(o, &j)
			if len(got) != len(tt.want) {
				t.Fatalf("%q, want %q", got, tt.want)
			}
			for i := range got {
				if !strings.Contains(got[i], tt.want[i]) {
					t.Errorf("%q, want %q", got[i], tt.want[i])
				}
			}
		})
	}
}
