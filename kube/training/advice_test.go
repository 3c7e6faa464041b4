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
			"the TFJob of the lab",
			"kind: TFJob\nmetadata: {name: x, namespace: ml}\nspec: {tfReplicaSpecs: {Chief: {template: {spec: {containers: [{name: tensorflow, image: i}]}}}, Worker: {replicas: 3, template: {spec: {containers: [{name: tensorflow, image: i}]}}}}}",
			[]string{"none of its pods has a volume", "its 4 pods get TF_CONFIG, and train one model together only if"},
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
