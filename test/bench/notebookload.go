package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// notebooks is a client of them, and of what is compared with them.
type notebooks struct {
	of     dynamic.ResourceInterface
	client *kubernetes.Clientset
}

// connectNotebooks makes a client without limits.
func connectNotebooks(kubeconfig string) (*notebooks, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	d, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	client, err := connect(kubeconfig)
	if err != nil {
		return nil, err
	}
	kind := schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: "notebooks"}
	return &notebooks{d.Resource(kind).Namespace(namespace), client}, nil
}

// newNotebook is a Notebook of one container that asks for so many GPUs.
func newNotebook(name string, gpus int) *unstructured.Unstructured {
	amounts := map[string]any{"cpu": "1", "memory": "1Gi"}
	if gpus > 0 {
		amounts["nvidia.com/gpu"] = strconv.Itoa(gpus)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "metadata": map[string]any{"name": name, "namespace": namespace},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
			"name": name, "image": "registry.example/jupyter:2026.1",
			"resources": map[string]any{"requests": amounts, "limits": amounts},
		}}}}},
	}}
}

// create creates n notebooks, prefix-1 and on, by several clients at once.
func (c *notebooks) create(ctx context.Context, prefix string, n, gpus int) error {
	return each(ctx, n, creators, func(ctx context.Context, i int) error {
		name := fmt.Sprintf("%s-%d", prefix, i+1)
		if _, err := c.of.Create(ctx, newNotebook(name, gpus), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create notebook %s: %w", name, err)
		}
		return nil
	})
}

// remove deletes a notebook.
func (c *notebooks) remove(ctx context.Context, name string) error {
	return c.of.Delete(ctx, name, metav1.DeleteOptions{})
}

// byHand creates n StatefulSets and Services such as notebooks have.
func (c *notebooks) byHand(ctx context.Context, prefix string, n int) error {
	return each(ctx, n, creators, func(ctx context.Context, i int) error {
		name := fmt.Sprintf("%s-%d", prefix, i+1)
		labels := map[string]string{"statefulset": name, "notebook-name": name}
		pod := gpuPod(name, 1)
		pod.Spec.Containers[0].Command = nil
		pod.Spec.Containers[0].Image = "registry.example/jupyter:2026.1"
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "notebook-port", ContainerPort: 8888}}
		set := &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"statefulset": name}},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
			},
		}
		if _, err := c.client.AppsV1().StatefulSets(namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create StatefulSet %s: %w", name, err)
		}
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Spec: corev1.ServiceSpec{
				Selector: map[string]string{"statefulset": name},
				Ports:    []corev1.ServicePort{{Name: "http-" + name, Port: 80, TargetPort: intstr.FromInt32(8888)}},
			},
		}
		if _, err := c.client.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create Service %s: %w", name, err)
		}
		return nil
	})
}

// writes reads from the API server how many requests it has had that change
// what notebooks, training jobs, and model services are made of, by resource and verb.
func (t *trial) writes(ctx context.Context) (map[string]float64, error) {
	raw, err := t.client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the API server's metrics: %w", err)
	}
	out := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "apiserver_request_total{")
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(rest, "} ")
		verb, resource := labelOf(labels, "verb"), labelOf(labels, "resource")
		switch verb {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE":
		default:
			continue
		}
		switch resource {
		case "notebooks", "pytorchjobs", "inferenceservices", "statefulsets", "deployments", "controllerrevisions", "services", "endpointslices", "pods", "events":
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return nil, fmt.Errorf("read %q of the API server's metrics: %w", lines.Text(), err)
			}
			out[resource+" "+verb] += n
		}
	}
	return out, lines.Err()
}

// labelOf is the value of a label in a list of them, in Prometheus' text.
func labelOf(labels, name string) string {
	for l := range strings.SplitSeq(labels, ",") {
		if value, ok := strings.CutPrefix(l, name+`="`); ok {
			return strings.TrimSuffix(value, `"`)
		}
	}
	return ""
}
