//go:build linux

package node_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// make gives a pod to the API server, and waits until its container reports.
func (j joined) make(t *testing.T, p *v1.Pod) report {
	t.Helper()
	if _, err := j.client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return j.reports(t, p.Name)
}

// reports waits for what kubectl logs says.
func (j joined) reports(t *testing.T, name string) report {
	t.Helper()
	var r report
	eventually(t, patience, "pod "+name+" reports", func() error {
		out, err := j.client.CoreV1().Pods("default").GetLogs(name, &v1.PodLogOptions{}).DoRaw(t.Context())
		if err == nil {
			err = json.Unmarshal(out, &r)
		}
		if err != nil {
			return fmt.Errorf("%w; %s", err, j.state(t, name))
		}
		return nil
	})
	return r
}

// state is a pod in a line, from the API.
func (j joined) state(t *testing.T, name string) string {
	p, err := j.client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	data, err := json.Marshal(map[string]any{
		"node": p.Spec.NodeName, "phase": p.Status.Phase, "reason": p.Status.Reason,
		"message": p.Status.Message, "conditions": p.Status.Conditions, "containers": p.Status.ContainerStatuses,
	})
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// asking is a pod for the API server: it gives UIDs itself.
func asking(name, what string, count int64) *v1.Pod {
	p := pod(name, "", 0)
	p.UID = ""
	p.Spec.Containers = []v1.Container{container("c", what, count)}
	p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	return p
}

// committed are the indexes of the GPUs that a pod was bound with.
func (j joined) committed(t *testing.T, name string) []int {
	t.Helper()
	p, err := j.client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][]device
	if err := json.Unmarshal([]byte(p.Annotations[devicesAnnotation]), &all); err != nil {
		t.Fatalf("pod %s was bound with %q: %v", name, p.Annotations[devicesAnnotation], err)
	}
	var indexes []int
	for _, list := range all {
		for _, d := range list {
			for i := range 16 {
				if uuid(i) == d.UUID {
					indexes = append(indexes, i)
				}
			}
		}
	}
	slices.Sort(indexes)
	return indexes
}

// clear deletes all pods, and waits until they are gone.
func (j joined) clear(t *testing.T) {
	t.Helper()
	pods := j.client.CoreV1().Pods("default")
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "all pods are gone", func() error {
		left, err := pods.List(t.Context(), metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d are left: %s", len(left.Items), j.state(t, left.Items[0].Name))
		}
		return err
	})
}

// run runs a program of a user on the cluster.
func (j joined) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := j.command(name, args...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s %s: %v: %s", name, strings.Join(args, " "), err, complaints.String())
	}
	return string(out)
}

// command is a program of a user on the cluster.
func (j joined) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(program(name), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(planeDir, "kubeconfig"), "NO_COLOR=1", "HOME="+workDir)
	return cmd
}
