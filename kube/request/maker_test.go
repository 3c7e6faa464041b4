package request_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
)

func TestMakerOf(t *testing.T) {
	const jobs, sets = "system:serviceaccount:kube-system:job-controller", "system:serviceaccount:jobset-system:jobset-controller"
	there := map[string]metav1.Object{
		"Job/set-0":  made("set-0", sets, "", "JobSet/set"),
		"Job/forged": made("forged", "eve", "", "JobSet/set"),
		"Job/night":  made("night", "system:serviceaccount:kube-system:cronjob-controller", "nightly", "CronJob/nightly"),
	}
	owners := func(namespace string, ref *metav1.OwnerReference) metav1.Object {
		if o, ok := there[ref.Kind+"/"+ref.Name]; ok && namespace == "n" {
			return o
		}
		return nil
	}
	for _, tt := range []struct {
		name   string
		pod    *metav1.ObjectMeta
		jobset string
		want   string
	}{
		{"a pod that nothing makes again", made("p", "ada", "", ""), "", "p"},
		{"a pod of a Job", made("p", jobs, "train", "Job/train"), "", "train"},
		{"where no policy saw its creation", made("p", "", "", "Job/train"), "", "train"},
		{"a pod of an operator that no policy knows", made("p", "system:serviceaccount:kubeflow:training-operator", "", "PyTorchJob/train"), "", "train"},
		{"a controller that a user has written on the pod", made("p", "eve", "", "Job/train"), "", "p"},
		{"a controller that was changed later", made("p", jobs, "train", "Job/another"), "", "p"},
		{"a static pod", made("p", "", "", "Node/n1"), "", "p"},
		{"the Job of a JobSet is made again", made("p", jobs, "set-0", "Job/set-0"), "set", "set"},
		{"one that a user has written on the Job is not", made("p", jobs, "forged", "Job/forged"), "set", "forged"},
		{"a Job that cannot be read", made("p", jobs, "gone", "Job/gone"), "set", "gone"},
		{"each run of a CronJob is a workload", made("p", jobs, "night", "Job/night"), "", "night"},
	} {
		pod := &v1.Pod{ObjectMeta: *tt.pod}
		if tt.jobset != "" {
			pod.Labels = map[string]string{api.LabelJobSet: tt.jobset}
		}
		if got := request.MakerOf(pod, owners); got != tt.want {
			t.Errorf("%s: MakerOf = %q, want %q", tt.name, got, tt.want)
		}
	}
}
