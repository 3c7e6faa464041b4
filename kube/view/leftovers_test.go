package view_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/view"
)

// endedJob is a Job whose condition is true since a day of November.
func endedJob(name string, condition batchv1.JobConditionType, day int, edits ...func(*batchv1.Job)) batchv1.Job {
	j := batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name}}
	j.Spec.Template.Spec = kubetest.Pod("p", "", api.ResourceGPU, 1).Spec
	j.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: v1.ConditionTrue, LastTransitionTime: metav1.Date(2026, 11, day, 0, 0, 0, 0, time.UTC)}}
	for _, edit := range edits {
		edit(&j)
	}
	return j
}

// aNotebook is a notebook with the claim home.
func aNotebook(name, stopped string) *kubeflow.Notebook {
	nb := &kubeflow.Notebook{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name, Annotations: map[string]string{}}}
	if stopped != "" {
		nb.Annotations[api.AnnotationStopped] = stopped
	}
	nb.Spec.Template.Spec.Raw = []byte(`{"volumes":[{"name":"home","persistentVolumeClaim":{"claimName":"home-` + name + `"}},{"name":"tmp","emptyDir":{}}]}`)
	return nb
}

func aClaim(name, size string) v1.PersistentVolumeClaim {
	c := v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name}}
	c.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
	return c
}

// rows: AS-62
func TestLeftovers(t *testing.T) {
	jobs := []batchv1.Job{
		endedJob("old", batchv1.JobComplete, 3), endedJob("failed", batchv1.JobFailed, 5), endedJob("runs", batchv1.JobSuspended, 1),
		endedJob("goes-by-itself", batchv1.JobComplete, 1, func(j *batchv1.Job) { j.Spec.TTLSecondsAfterFinished = new(int32(60)) }),
		endedJob("cpu", batchv1.JobComplete, 1, func(j *batchv1.Job) { j.Spec.Template.Spec = kubetest.Pod("p", "", "cpu", 1).Spec }),
	}
	training := []unstructured.Unstructured{
		{Object: map[string]any{"kind": "TFJob", "metadata": map[string]any{"namespace": "speech", "name": "mnist"}, "status": map[string]any{"conditions": []any{
			map[string]any{"type": "Running", "status": "False"}, map[string]any{"type": "Succeeded", "status": "True", "lastTransitionTime": "2026-11-04T00:00:00Z"},
		}}}},
		{Object: map[string]any{"kind": "TrainJob", "metadata": map[string]any{"namespace": "speech", "name": "runs"}, "status": map[string]any{"conditions": "none"}}},
	}
	notebooks := []*kubeflow.Notebook{aNotebook("big", "2026-11-06T00:00:00Z"), aNotebook("small", "2026-11-01T00:00:00Z"), aNotebook("works", ""), aNotebook("odd", "yes")}
	claims := []v1.PersistentVolumeClaim{aClaim("home-big", "100Gi"), aClaim("home-small", "5Gi"), aClaim("home-works", "100Gi"), aClaim("home-odd", "20Gi")}
	var got []string
	for _, l := range view.LeftoversOf(jobs, training, notebooks, claims) {
		got = append(got, fmt.Sprintf("%s %s/%s %s %s %d", l.Kind, l.Namespace, l.Name, l.What, l.Since.Format("2006-01-02"), l.Bytes>>30))
	}
	want := []string{
		"Notebook vision/big stopped, keeps its volumes 2026-11-06 100", "Notebook vision/odd stopped, keeps its volumes 0001-01-01 20",
		"Job vision/old finished 2026-11-03 0", "TFJob speech/mnist finished 2026-11-04 0", "Job vision/failed finished 2026-11-05 0",
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("left over are\n%s\nwant\n%s", g, w)
	}
}
