//go:build linux

package node_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hubValues is a JupyterHub's file with one profile. The node's pods are on the
// host's network, and its containers may make device nodes.
const hubValues = `singleuser:
  image: {name: localhost/gpuapp, tag: dev, pullPolicy: Never}
  cmd: [keep, /home/jovyan/starts]
  uid: 0
  fsGid: 0
  extraEnv: {TEST_MAJOR: "%d"}
  memory: {guarantee: 16M}
  profileList:
  - display_name: One GPU
    slug: one-gpu
    kubespawner_override:
      extra_resource_limits: {nvidia.com/gpu: "1"}
      extra_pod_config: {hostNetwork: true, terminationGracePeriodSeconds: 1}
`

// notebook makes a notebook of a profile, stops and starts it, and preempts it.
// Each time its container has the GPU that the notebook holds, and its volume what
// the container before has left there.
//
// rows: ML-71 ML-72
func (j joined) notebook(t *testing.T) {
	j.home(t, "claim-ada")
	j.write("values.yaml", fmt.Sprintf(hubValues, major))
	j.run(t, "berth", "profiles", "import", workDir+"/values.yaml")
	defer j.run(t, "berth", "notebook", "delete", "ada")

	began := time.Now()
	j.run(t, "berth", "notebook", "create", "ada", "--profile", "one-gpu", "--for", "ada", "--wait", "--timeout", patience.String())
	t.Logf("figure: from berth notebook create to a notebook that is ready with its GPU: %v", time.Since(began).Round(time.Millisecond))
	j.begun(t, 1)

	j.run(t, "berth", "notebook", "stop", "ada")
	j.listed(t, "Stopped")
	eventually(t, patience, "its GPU is free", func() error {
		if out := j.run(t, "berth", "gpus"); strings.Contains(out, "default/ada") {
			return &notYet{out}
		}
		return nil
	})
	j.run(t, "berth", "notebook", "start", "ada")
	j.listed(t, "Ready")
	j.begun(t, 2)

	if _, err := j.client.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	urgent := asking("urgent", gpuResource, 4)
	urgent.Spec.PriorityClassName = "urgent"
	eventually(t, patience, "the API server's admission knows the PriorityClass", func() error {
		_, err := j.client.CoreV1().Pods("default").Create(t.Context(), urgent.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	if err := only(j.make(t, urgent), 0, 1, 2, 3); err != nil {
		t.Error(err)
	}
	j.listed(t, "Queued")
	eventually(t, patience, "an event of the notebook names who preempted it", func() error {
		if out := j.run(t, "kubectl", "get", "events", "--field-selector", "involvedObject.kind=Notebook,reason=Preempted"); !strings.Contains(out, "default/urgent") {
			return &notYet{out}
		}
		return nil
	})
	if err := j.client.CoreV1().Pods("default").Delete(t.Context(), "urgent", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	j.listed(t, "Ready")
	j.begun(t, 3)
}

// home makes a folder of the node a volume, and a claim of it.
func (j joined) home(t *testing.T, claim string) {
	t.Helper()
	j.volume(t, claim, "", "default", claim)
	if _, err := j.client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claim},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: new(""), VolumeName: claim,
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("10Gi")}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// volume makes a folder of the node a volume of a class, for a claim alone.
func (j joined) volume(t *testing.T, name, class, namespace, claim string) {
	t.Helper()
	path := workDir + "/" + name
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := j.client.CoreV1().PersistentVolumes().Create(t.Context(), &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			Capacity:    v1.ResourceList{v1.ResourceStorage: resource.MustParse("10Gi")},
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path}},
			StorageClassName:       class, ClaimRef: &v1.ObjectReference{Namespace: namespace, Name: claim},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// listed waits until berth notebook list has the notebook in a state.
func (j joined) listed(t *testing.T, state string) {
	t.Helper()
	eventually(t, patience, "the notebook is listed as "+state, func() error {
		out := j.run(t, "berth", "notebook", "list")
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "ada" && f[1] == state {
				return nil
			}
		}
		return &notYet{out}
	})
}

// begun says that the notebook's container is the one that has begun as the
// times-th on its volume, with the GPU that the notebook holds.
func (j joined) begun(t *testing.T, times int) {
	t.Helper()
	r := j.reports(t, "ada-0")
	if r.Kept != times {
		t.Errorf("on its volume the notebook has begun %d times, want %d", r.Kept, times)
	}
	gpus := j.committed(t, "ada-0")
	if len(gpus) != 1 {
		t.Errorf("the notebook was bound with GPUs %v", gpus)
	}
	if err := only(r, gpus...); err != nil {
		t.Error(err)
	}
}
