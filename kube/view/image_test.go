package view_test

import (
	"testing"

	"berth.dev/berth/kube/view"
)

func TestImageName(t *testing.T) {
	for image, want := range map[string]string{
		"nginx":      "nginx",
		"nginx:1.29": "nginx",
		"nvcr.io/nvidia/k8s/dcgm-exporter:3.1.8-3.1.5-ubuntu20.04":             "dcgm-exporter",
		"registry.example:5000/mirror/notebook-controller@sha256:0a1b":         "notebook-controller",
		"registry.example:5000/mirror/notebook-controller:v1.10.0@sha256:0a1b": "notebook-controller",
		"registry.example:5000/a/b":                                            "b",
		"":                                                                     "",
	} {
		if got := view.ImageName(image); got != want {
			t.Errorf("ImageName(%q) gives %q, want %q", image, got, want)
		}
	}
}
