package view_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/kube/view"
)

func TestNotebookToken(t *testing.T) {
	variable := func(value string) v1.EnvVar { return v1.EnvVar{Name: "JUPYTER_TOKEN", Value: value} }
	for _, tt := range []struct {
		name string
		env  []v1.EnvVar
		want string
	}{
		{"none", nil, ""},
		{"in plain words", []v1.EnvVar{{Name: "A", Value: "b"}, variable("t")}, "t"},
		{"the last counts", []v1.EnvVar{variable("t"), variable("u")}, "u"},
		{"of a Secret", []v1.EnvVar{{Name: "JUPYTER_TOKEN", ValueFrom: &v1.EnvVarSource{}}}, ""},
		{"of another variable", []v1.EnvVar{variable("$(A)")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &v1.PodSpec{Containers: []v1.Container{{Env: tt.env}, {Env: []v1.EnvVar{variable("sidecar")}}}}
			if got := view.NotebookToken(pod); got != tt.want {
				t.Errorf("NotebookToken = %q, want %q", got, tt.want)
			}
		})
	}
	if got := view.NotebookToken(&v1.PodSpec{}); got != "" {
		t.Errorf("a pod without containers has %q", got)
	}
}
