package serving

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/core/serving"
)

// ofNoRevision are the fields of a predictor that its pods do not have: a change of them starts no new revision, and a rollback leaves
// them as they are.
var ofNoRevision = []string{
	"minReplicas", "maxReplicas", "scaleTarget", "scaleMetric", "scaleMetricType", "autoScaling", "containerConcurrency", "timeout", fieldCanary, "deploymentStrategy",
}

// RevisionName returns the name of the ControllerRevision of a revision, which is the hash of the pods' template.
func RevisionName(service, revision string) string { return ChildName(service) + "-" + revision }

// Record makes the ControllerRevision that keeps the spec of a service as a revision with a number.
func (w *Written) Record(revision string, number int64) (*appsv1.ControllerRevision, error) {
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{"predictor": revised(w.predictor)}})
	if err != nil {
		return nil, fmt.Errorf("write a revision of a service: %w", err)
	}
	owner := metav1.NewControllerRef(w.object, kserve.GroupVersion.WithKind(kserve.Kind))
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: RevisionName(w.object.Name, revision), Namespace: w.object.Namespace, OwnerReferences: []metav1.OwnerReference{*owner},
			Labels:      map[string]string{api.LabelInferenceService: w.object.Name},
			Annotations: map[string]string{api.AnnotationServingSpec: revision},
		},
		Data: runtime.RawExtension{Raw: raw}, Revision: number,
	}, nil
}

// RevisionOf reads what is kept of a revision, without its pods.
func RevisionOf(r *appsv1.ControllerRevision) serving.Revision {
	out := serving.Revision{Name: r.Name, Number: r.Revision}
	out.RolledOut, _ = time.Parse(time.RFC3339Nano, r.Annotations[api.AnnotationRolledOut])
	if text := r.Annotations[api.AnnotationBackedOut]; text != "" {
		out.BackedOut = backOutOf(text)
	}
	return out
}

// Recorded reads the service that a revision keeps, as far as it can be read.
func Recorded(r *appsv1.ControllerRevision) *Written {
	var data struct {
		Spec json.RawMessage `json:"spec"`
	}
	_ = json.Unmarshal(r.Data.Raw, &data) // a damaged one has no spec
	w, _ := Of(&kserve.InferenceService{Spec: runtime.RawExtension{Raw: data.Spec}})
	return w
}

// Source is where the model is, or the image of containers of the user's own.
func (w *Written) Source() string {
	if m := w.Service.Model; m != nil {
		return m.StorageURI
	}
	list, _ := w.predictor["containers"].([]any)
	if len(list) == 0 {
		return ""
	}
	c, _ := list[0].(map[string]any)
	return text(c["image"])
}

// Revert returns the spec of a service as a revision has it, but with what is of no revision as it is now, such as the transformer, and without a canary. same
// reports whether the spec is that of the revision already.
func Revert(o *kserve.InferenceService, r *appsv1.ControllerRevision) (spec map[string]any, same bool, err error) {
	var data struct {
		Spec map[string]any `json:"spec"`
	}
	if err := utiljson.Unmarshal(r.Data.Raw, &data); err != nil {
		return nil, false, fmt.Errorf("read ControllerRevision %s: %w", r.Name, err)
	}
	predictor, ok := data.Spec["predictor"].(map[string]any)
	if !ok {
		return nil, false, fmt.Errorf("ControllerRevision %s has no spec of a service", r.Name)
	}
	was := map[string]any{}
	if len(o.Spec.Raw) > 0 {
		if err := utiljson.Unmarshal(o.Spec.Raw, &was); err != nil {
			return nil, false, fmt.Errorf("read the spec of InferenceService %s: %w", o.Name, err)
		}
	}
	now, _ := was["predictor"].(map[string]any)
	for _, field := range ofNoRevision {
		if v, ok := now[field]; ok {
			predictor[field] = v
		}
	}
	if t, ok := was["transformer"]; ok {
		data.Spec["transformer"] = t
	}
	same = reflect.DeepEqual(data.Spec, was)
	delete(predictor, fieldCanary)
	return data.Spec, same, nil
}

// revised is a predictor without what is of no revision.
func revised(predictor map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(predictor)
	for _, field := range ofNoRevision {
		delete(out, field)
	}
	return out
}
