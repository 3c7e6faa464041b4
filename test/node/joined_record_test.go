//go:build linux

package node_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "modernc.org/sqlite" // reads the ledger
)

// recorded kills berth meter, has a pod come and go on a GPU, and starts the meter again: it asks the agent what it missed.
func (j *idling) recorded(t *testing.T) {
	dir := workDir + "/meter"
	m := j.meter(t, dir, 1)
	m.stop(t, syscall.SIGKILL)

	pods := j.client.CoreV1().Pods("default")
	p, err := pods.Create(t.Context(), asking("brief", gpuResource, 1), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "the pod has run for longer than the second in which Kubernetes says that it began", func() error {
		is, err := pods.Get(t.Context(), p.Name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case is.Status.Phase != v1.PodRunning:
			return fmt.Errorf("pod brief is %s: %s", is.Status.Phase, j.state(t, p.Name))
		}
		if ran := time.Since(is.Status.ContainerStatuses[0].State.Running.StartedAt.Time); ran < 2*time.Second {
			return fmt.Errorf("pod brief has run for %v", ran)
		}
		return nil
	})
	if err := pods.Delete(t.Context(), p.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "the pod is gone", func() error {
		_, err := pods.Get(t.Context(), p.Name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("asking for it is answered with %s", fmt.Sprint(err))
		}
		return nil
	})

	m = j.meter(t, dir, 2)
	m.stop(t, syscall.SIGTERM)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var from, to, late int64
	var source string
	err = db.QueryRowContext(t.Context(), "SELECT begins, ends, source, late FROM holds WHERE pod = ?", string(p.UID)).Scan(&from, &to, &source, &late)
	if err != nil || to <= from || late != 0 || source != "recorded" && source != "stated" {
		t.Errorf("the ledger has the pod from %d to %d (%s, up to %d later), %v; the meter said:\n%s", from, to, source, late, err, tail(m.log, 20))
	}
}

// meter runs berth meter until it has read the cluster for the n-th time.
func (j *idling) meter(t *testing.T, dir string, n int) *process {
	t.Helper()
	kubeconfig := filepath.Join(planeDir, "kubeconfig")
	m := startProcess(t, workDir, "meter", nil, program("berth"), "meter", "--kubeconfig", kubeconfig, "--data", dir, "--listen=")
	eventually(t, patience, "the meter writes the ledger", func() error {
		raw, err := os.ReadFile(m.log)
		if err == nil && strings.Count(string(raw), "Writing the ledger") < n {
			err = &notYet{string(raw)}
		}
		return err
	})
	return m
}
