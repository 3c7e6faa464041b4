package service

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/cli/train"
	"berth.dev/berth/core/training"
)

func TestTheModelOfAJob(t *testing.T) {
	const (
		out   = "{name: out, persistentVolumeClaim: {claimName: results}}"
		data  = "{name: data, persistentVolumeClaim: {claimName: images, readOnly: true}}"
		cache = "{name: cache, emptyDir: {}}"
		more  = "{name: more, persistentVolumeClaim: {claimName: logs}}"
	)
	for _, tt := range []struct{ name, volumes, mounts, volume, path, uri, says string }{
		{"the only volume that it may write to", out + "," + data + "," + cache, "{name: out, mountPath: /output}, {name: data, mountPath: /data}, {name: cache, mountPath: /tmp}", "", "", "pvc://results", ""},
		{"a folder as the program names it", out, "{name: out, mountPath: /output/}", "", "/output/model/", "pvc://results/model", ""},
		{"a folder below the volume", out, "{name: out, mountPath: /output}", "", "a/b", "pvc://results/a/b", ""},
		{"a volume of which the job sees a part", out, "{name: out, mountPath: /output, subPath: runs/7}", "", "/output/model", "pvc://results/runs/7/model", ""},
		{"the folder says which volume", out + "," + more, "{name: out, mountPath: /output}, {name: more, mountPath: /logs}", "", "/output/m", "pvc://results/m", ""},
		{"the flag says which volume", out + "," + more, "{name: out, mountPath: /output}, {name: more, mountPath: /logs}", "logs", "m", "pvc://logs/m", ""},
		{"the flag names one that it reads", out + "," + data, "{name: out, mountPath: /output}, {name: data, mountPath: /data, readOnly: true}", "images", "", "pvc://images", ""},
		{"several volumes", out + "," + more, "{name: out, mountPath: /output}, {name: more, mountPath: /logs}", "", "", "", "tfjob ml/mnist has several volumes: results, logs; choose one with --volume"},
		{"no volume", cache, "{name: cache, mountPath: /output}", "", "", "", "writes to no volume (PersistentVolumeClaim), so its model is gone with its pods"},
		{"a volume that is not there", out, "{name: out, mountPath: /output}", "reslts", "", "", "has no volume reslts; its volumes are results"},
		{"a folder elsewhere", out, "{name: out, mountPath: /output}", "", "/outputs/model", "", "/outputs/model is not in volume results, which tfjob ml/mnist has at /output"},
		{"a path that leads out of it", out, "{name: out, mountPath: /output}", "", "/output/../../x", "", "is not in volume results"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			job := &train.Found{Job: training.Job{Kind: training.TFJob, Namespace: "ml", Name: "mnist"}, Container: "tensorflow"}
			if err := yaml.Unmarshal([]byte("{containers: [{name: side}, {name: tensorflow, volumeMounts: ["+tt.mounts+"]}], volumes: ["+tt.volumes+"]}"), &job.Spec); err != nil {
				t.Fatal(err)
			}
			uri, err := modelOf(job, tt.volume, tt.path)
			if uri != tt.uri || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q %v, want %q %q", uri, err, tt.uri, tt.says)
			}
		})
	}
	if _, err := modelOf(&train.Found{Container: "tensorflow", Spec: v1.PodSpec{}}, "", ""); err == nil || !strings.Contains(err.Error(), "has no container tensorflow") {
		t.Errorf("without a container it says %v", err)
	}
}
