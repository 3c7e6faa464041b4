package fleet

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// predictor is a pod of an InferenceService on a claim.
func predictor(image, subPath string, command ...string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "p", Labels: map[string]string{api.LabelInferenceService: "mnist"}},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "kserve-container", Image: image, Command: command, VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: "/mnt/models", SubPath: subPath}}}},
			Volumes:    []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}},
		},
	}
}

func TestAModelServerLooksForItsModel(t *testing.T) {
	for _, tt := range []struct {
		name, image, subPath, command string
		files                         string // "-" is that the claim says nothing
		absent, ends                  bool
	}{
		{"nothing is known of the volume", "tensorflow/serving:2", "", "tensorflow_model_server", "-", false, false},
		{"an h5 file is not what TensorFlow Serving reads", "tensorflow/serving:2", "", "tensorflow_model_server", "mnist_model.h5", true, false},
		{"a SavedModel without a version is not either", "tensorflow/serving:2", "", "tensorflow_model_server", "saved_model.pb", true, false},
		{"a SavedModel in a folder that is a number is", "tensorflow/serving:2", "", "tensorflow_model_server", "a.h5 1/saved_model.pb", false, false},
		{"the folder of the model counts", "tensorflow/serving:2", "models/mnist", "tensorflow_model_server", "/models/mnist/3/saved_model.pb", false, false},
		{"another folder does not", "tensorflow/serving:2", "models/mnist", "tensorflow_model_server", "1/saved_model.pb", true, false},
		{"an empty volume", "tensorflow/serving:2", "", "tensorflow_model_server", "", true, false},
		{"KServe's scikit-learn server ends", "kserve/sklearnserver:v0.15.2", "", "", "model.h5", false, true},
		{"it reads a pickle", "kserve/sklearnserver:v0.15.2", "", "", "model.joblib", false, false},
		{"a server that is not known finds its model", "own:1", "", "", "x", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := predictor(tt.image, tt.subPath)
			if tt.command != "" {
				pod.Spec.Containers[0].Command = []string{"/usr/bin/" + tt.command}
			}
			f := &files{byClaim: map[string]string{}}
			claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "c"}}
			if tt.files != "-" {
				claim.Annotations = map[string]string{api.AnnotationSimulatedFiles: tt.files}
			}
			f.note(claim)
			plan := Behave(pod, &pod.Spec.Containers[0], nil)
			if plan.Model == nil {
				t.Fatalf("it plays no model server: %+v", plan)
			}
			plan = plan.withFiles(f.of(pod, &pod.Spec.Containers[0]))
			if absent := plan.Model.Absent; absent != tt.absent || plan.Forever == tt.ends {
				t.Errorf("absent %v, ends %v, want %v and %v", absent, !plan.Forever, tt.absent, tt.ends)
			}
			if (tt.absent || tt.ends) && len(plan.Steps) != 1 {
				t.Errorf("it says %+v", plan.Steps)
			}
		})
	}
}

func TestTheAnnotationSaysHowAModelServerBehaves(t *testing.T) {
	pod := predictor("own:1", "")
	pod.Annotations = map[string]string{api.AnnotationSimulate: "{load: 20s, takes: 150ms, fails: 0.25, slots: 4}"}
	m := Behave(pod, &pod.Spec.Containers[0], nil).Model
	if m == nil || m.Load != 20*time.Second || m.Takes != 150*time.Millisecond || m.Fails != 0.25 || m.Slots != 4 || m.Name != "mnist" {
		t.Errorf("it plays %+v", m)
	}
	for _, wrong := range []string{"{load: soon}", "{fails: often}", "{fails: 1.5}", "{fails: NaN}", "{slots: -1}", "{slots: many}"} {
		pod.Annotations[api.AnnotationSimulate] = wrong
		if plan := Behave(pod, &pod.Spec.Containers[0], nil); plan.Reason != invalidSimulation {
			t.Errorf("%s is taken for %+v", wrong, plan)
		}
	}
}
