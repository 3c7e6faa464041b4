package serving_test

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/kube/serving"
)

func TestRevert(t *testing.T) {
	const first = `{"predictor":{"minReplicas":1,"model":{"modelFormat":{"name":"onnx"},"storageUri":"pvc://a/1"}}}`
	for _, tt := range []struct {
		name, now, want string
		same            bool
	}{
		{"the model is that of the revision", `{"predictor":{"model":{"modelFormat":{"name":"onnx"},"storageUri":"pvc://a/2"}}}`, `{"predictor":{"model":{"modelFormat":{"name":"onnx"},"storageUri":"pvc://a/1"}}}`, false},
		{"the scale is that of now", `{"predictor":{"minReplicas":4,"maxReplicas":9,"model":{"modelFormat":{"name":"onnx"},"storageUri":"pvc://a/2"}}}`, `{"predictor":{"maxReplicas":9,"minReplicas":4,"model":{"modelFormat":{"name":"onnx"},"storageUri":"pvc://a/1"}}}`, false},
		{"the same spec in another order is the same", `{"predictor":{"model":{"storageUri":"pvc://a/1","modelFormat":{"name":"onnx"}},"minReplicas":4}}`, `{"predictor":{"minReplicas":4,"model":{"modelFormat":{"name":"onnx"},"storageUri":"pvc://a/1"}}}`, true},
		{"a component that is refused goes", `{"predictor":{"model":{"modelFormat":{"name":"onnx"},"storageUri":"pvc://a/1"}},"explainer":{}}`, `{"predictor":{"model":{"modelFormat":{"name":"onnx"},"storageUri":"pvc://a/1"}}}`, false},
		{"a transformer stays", `{"predictor":{"model":{"modelFormat":{"name":"onnx"},"storageUri":"pvc://a/2"}},"transformer":{"containers":[{"image":"a"}]}}`, `{"predictor":{"model":{"modelFormat":{"name":"onnx"},"storageUri":"pvc://a/1"}},"transformer":{"containers":[{"image":"a"}]}}`, false},
		{"a predictor that is none is replaced", `{"predictor":null}`, `{"predictor":{"model":{"modelFormat":{"name":"onnx"},"storageUri":"pvc://a/1"}}}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &kserve.InferenceService{}
			o.Name, o.Namespace, o.UID, o.Spec.Raw = "iris", "ml", "u", []byte(first)
			w, fault := serving.Of(o)
			if fault != nil {
				t.Fatal(fault.Message)
			}
			r, err := w.Record("0123456789abcdef", 3)
			if err != nil {
				t.Fatal(err)
			}
			if got := serving.Recorded(r).Source(); r.Name != "iris-predictor-0123456789abcdef" || r.Revision != 3 || got != "pvc://a/1" || len(r.OwnerReferences) != 1 {
				t.Errorf("the revision is %+v, of %q", r, got)
			}
			o.Spec.Raw = []byte(tt.now)
			spec, same, err := serving.Revert(o, r)
			if err != nil {
				t.Fatal(err)
			}
			if raw, _ := json.Marshal(spec); string(raw) != tt.want || same != tt.same {
				t.Errorf("the spec is %s (%v), want %s (%v)", raw, same, tt.want, tt.same)
			}
		})
	}
}

func TestADamagedRevision(t *testing.T) {
	for _, raw := range []string{"", "{", "{}", `{"spec":7}`, `{"spec":{"predictor":7}}`} {
		r := &appsv1.ControllerRevision{}
		r.Name, r.Data.Raw = "iris-predictor-0", []byte(raw)
		if got := serving.Recorded(r).Source(); got != "" {
			t.Errorf("revision %q is of %q", raw, got)
		}
		if _, _, err := serving.Revert(&kserve.InferenceService{}, r); err == nil || !strings.Contains(err.Error(), "ControllerRevision iris-predictor-0") {
			t.Errorf("a rollback to %q says %v", raw, err)
		}
	}
}
