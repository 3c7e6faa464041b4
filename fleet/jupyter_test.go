package fleet

import (
	"testing"
	"time"

	"berth.dev/berth/agent/fakegpu"
	"berth.dev/berth/fleet/kubelet"
)

func TestJupyterFollowsThePlan(t *testing.T) {
	begun := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	now := begun.Add(time.Hour)
	at := func(d time.Duration) time.Time { return begun.Add(d) }
	curve := []fakegpu.Point{{After: 10 * time.Minute, UtilizationRatio: 0.9}, {After: 20 * time.Minute, UtilizationRatio: 0.8}, {After: 30 * time.Minute}, {After: 2 * time.Hour, UtilizationRatio: 1}}
	for _, c := range []struct {
		name string
		plan Plan
		now  time.Time
		want *kubelet.Jupyter
	}{
		{"no Jupyter server", Plan{UtilizationRatio: 1}, now, nil},
		{"nobody has run anything", Plan{Jupyter: jupyterAuto}, now, &kubelet.Jupyter{Activity: begun}},
		{"its GPU is in use from the start", Plan{Jupyter: jupyterAuto, UtilizationRatio: 0.5}, now, &kubelet.Jupyter{Busy: true, Activity: begun}},
		{"its GPU is in use since a while", Plan{Jupyter: jupyterAuto, Curve: curve}, at(25 * time.Minute), &kubelet.Jupyter{Busy: true, Activity: at(10 * time.Minute)}},
		{"its GPU was in use", Plan{Jupyter: jupyterAuto, Curve: curve}, now, &kubelet.Jupyter{Activity: at(30 * time.Minute)}},
		{"said to be busy, whatever its GPU does", Plan{Jupyter: jupyterBusy}, now, &kubelet.Jupyter{Busy: true, Activity: begun}},
		{"a program in a terminal", Plan{Jupyter: jupyterTerminal}, now, &kubelet.Jupyter{Activity: begun, Terminal: true}},
		{"said to be idle, whatever its GPU does", Plan{Jupyter: jupyterIdle, UtilizationRatio: 1}, now, &kubelet.Jupyter{Activity: begun}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := jupyter(c.plan, begun, c.now)
			if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
				t.Errorf("jupyter = %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestJupyterImages(t *testing.T) {
	for image, want := range map[string]bool{
		"jupyter/scipy-notebook:2024-10-07":                                            true,
		"ghcr.io/kubeflow/kubeflow/notebook-servers/jupyter-pytorch-cuda-full:v1.10.0": true,
		"quay.io/pangeo/pytorch-notebook:2024.1":                                       true,
		"tensorflow/tensorflow:2.15.0-gpu-jupyter":                                     true,
		"ghcr.io/kubeflow/kubeflow/notebook-servers/codeserver-python:v1.10.0":         false,
		"quay.io/jupyterhub/k8s-hub:4.3.0":                                             false,
		"quay.io/jupyterhub/configurable-http-proxy:5.3.0":                             false,
		"quay.io/jupyterhub/k8s-singleuser-sample:4.3.3":                               true,
		"nvidia/cuda:12.4.1-base-ubuntu22.04":                                          false,
	} {
		if got := jupyterImage(image); got != want {
			t.Errorf("jupyterImage(%s) = %v, want %v", image, got, want)
		}
	}
}
