package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// inferenceServices is the resource of the services that are measured.
var inferenceServices = schema.GroupVersionResource{Group: "serving.kserve.io", Version: "v1beta1", Resource: "inferenceservices"} //nolint:gochecknoglobals // a constant

// servicesReady is how long the services may take to be ready; it only ends what hangs.
const servicesReady = 20 * time.Minute

// benchServices runs the controllers and an activator as processes of their own beside many services with a replica each, whose requests
// all go through the activator, and measures their memory and what is written while there are no requests.
func benchServices(ctx context.Context, r *report, dir string) (err error) {
	n, kubeconfig := r.small(1000), dir+"-activator.kubeconfig"
	berth, err := filepath.Abs(program())
	if err != nil {
		return err
	}
	rule := fmt.Sprintf("berth*=%s activator --kubeconfig %s --listen 127.0.0.1:{port} --bind-address 127.0.0.1 --through %s", berth, kubeconfig, filepath.Join(dir, "egress.sock"))
	t := &trial{which: ours}
	if t.plane, err = up(dir, fmt.Sprintf("scale:%d", n/8+25), "--notebooks", "off", "--training", "off", "--serving", "off", "--no-ledger", "--host-process", rule); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	if t.client, err = connect(t.Kubeconfig); err != nil {
		return err
	}
	text, err := os.ReadFile(t.Kubeconfig)
	if err == nil {
		err = os.WriteFile(kubeconfig, text, 0o600)
	}
	if err != nil {
		return err
	}
	if err := t.apply(ctx, "deploy/controller.yaml", "deploy/activator.yaml", "deploy/activator-deployment.yaml"); err != nil {
		return err
	}
	if err := t.kubectl(ctx, "scale", "-n", "kube-system", "deployment/berth-activator", "--replicas=1"); err != nil {
		return err
	}
	s, err := startAlone(dir+"-controller.log", "controller", "--kubeconfig", t.Kubeconfig, "--leader-elect=false")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	if err := t.kubectl(ctx, "rollout", "status", "-n", "kube-system", "deployment/berth-activator", "--timeout=300s"); err != nil {
		return err
	}
	if err := t.makeServices(ctx, n); err != nil {
		return err
	}
	_, writes, err := t.minute(ctx)
	if err != nil {
		return err
	}
	sum := 0.0
	for _, n := range writes {
		sum += n
	}
	controller, err := privateMemory(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	pid, err := childOf(t.PID, "activator")
	if err != nil {
		return err
	}
	activator, err := privateMemory(pid)
	if err != nil {
		return err
	}
	live, err := s.live(ctx)
	if err != nil {
		return err
	}
	how := fmt.Sprintf("%d InferenceServices with a replica each, whose requests go through the activator, a minute after all are ready", n)
	r.add(figure{what: "controllers", values: []float64{controller}, unit: "MB", how: how + "; private memory of the process"})
	r.add(figure{what: "live heap of it", values: []float64{live}, unit: "MB", how: "HeapAlloc after a forced collection"})
	r.add(figure{what: "an activator", values: []float64{activator}, unit: "MB", how: "the same; private memory of the process"})
	r.add(figure{what: "controllers and activator", values: []float64{controller + activator}, unit: "MB", aim: 100, how: "from the two above"})
	r.add(figure{what: "writes in a minute of rest", values: []float64{sum}, unit: "writes", aim: 0.5, how: "to services, what they are made of, and events, by the API server's own count"})
	return nil
}

// kubectl runs the built kubectl with the trial's kubeconfig.
func (t *trial) kubectl(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join("bin", "kubectl"), append([]string{"--kubeconfig", t.Kubeconfig}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// apply applies files.
func (t *trial) apply(ctx context.Context, files ...string) error {
	for _, f := range files {
		if err := t.kubectl(ctx, "apply", "-f", f); err != nil {
			return err
		}
	}
	return nil
}

// makeServices creates services, and waits until all are ready.
func (t *trial) makeServices(ctx context.Context, n int) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", t.Kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS = -1
	d, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	client := d.Resource(inferenceServices).Namespace(namespace)
	err = each(ctx, n, creators, func(ctx context.Context, i int) error {
		_, err := client.Create(ctx, modelService(fmt.Sprintf("model-%d", i)), metav1.CreateOptions{})
		return err
	})
	for end := time.Now().Add(servicesReady); err == nil; err = pause(ctx, 2*time.Second) {
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready := 0
		for i := range list.Items {
			if conditionOf(&list.Items[i], "Ready") == "True" {
				ready++
			}
		}
		switch {
		case ready == n:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%d of %d services are ready after %s", ready, n, servicesReady)
		}
	}
	return err
}

// modelService is an InferenceService with one to three replicas of a GPU.
func modelService(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": map[string]any{"name": name, "namespace": namespace},
		"spec": map[string]any{"predictor": map[string]any{
			"minReplicas": int64(1), "maxReplicas": int64(3),
			"model": map[string]any{
				"modelFormat": map[string]any{"name": "sklearn"}, "storageUri": "https://models.example.com/iris.joblib",
				"resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": int64(1)}},
			},
		}},
	}}
}

// conditionOf is the status of a condition of an object, or "".
func conditionOf(o *unstructured.Unstructured, kind string) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			status, _ := c["status"].(string)
			return status
		}
	}
	return ""
}

// childOf returns the process below another one that runs a command of berth.
func childOf(parent int, command string) (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, path := range all {
		raw, _ := os.ReadFile(path) // it may have ended
		args := strings.Split(string(raw), "\x00")
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && len(args) > 1 && filepath.Base(args[0]) == filepath.Base(program()) && args[1] == command && below(pid, parent) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no process berth %s runs below %d", command, parent)
}

// below reports whether a process was started by another one, or by one that was.
func below(pid, parent int) bool {
	for pid > 1 && pid != parent {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		f := strings.Fields(rest)
		if pid, err = strconv.Atoi(f[1]); err != nil {
			return false
		}
	}
	return pid == parent
}
