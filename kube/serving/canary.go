package serving

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/core/serving"
)

// fieldCanary is the share of the requests that a new revision gets beside the one before.
const fieldCanary = "canaryTrafficPercent"

// mostName is how long the name of a Service may be, as the label by which it selects pods has "isvc." before it.
const mostName = 63 - len("isvc.")

// readCanary reads which share a new revision gets.
func (w *Written) readCanary() *serving.Fault {
	s := &w.Service
	var err error
	if s.CanaryLimits, err = serving.ParseCanaryLimits(w.object.Annotations[api.AnnotationCanaryLimits]); err != nil {
		return invalid("annotation %s: %v", api.AnnotationCanaryLimits, err)
	}
	v := w.predictor[fieldCanary]
	if v == nil {
		return nil
	}
	n, whole := v.(int64)
	if !whole || n < 0 || n > serving.Whole {
		return invalid("spec.predictor.%s: %v is not a share; write a whole number from 0 to 100", fieldCanary, v)
	}
	s.Canary = new(int(n))
	return nil
}

// CanaryName returns the name of the Deployment, and of the Service, of a canary.
func CanaryName(service string) string {
	name := ChildName(service) + "-canary"
	if len(name) <= mostName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:mostName-9] + "-" + hex.EncodeToString(sum[:4])
}

// At returns a service as it is with the predictor of a revision that was kept.
func (w *Written) At(r *appsv1.ControllerRevision) (*Written, *serving.Fault, error) {
	spec, _, err := Revert(w.object, r)
	if err != nil {
		return nil, nil, err
	}
	o := &kserve.InferenceService{}
	w.object.DeepCopyInto(o)
	if o.Spec.Raw, err = json.Marshal(spec); err != nil {
		return nil, nil, fmt.Errorf("write the spec of a revision: %w", err)
	}
	out, fault := Of(o)
	return out, fault, nil
}

// Canary makes of the objects of the newest revision those that run beside the one before: a Deployment and a Service of a name of their own,
// whose pods the Services of the service do not select. Neither shares anything with the objects they are made of.
func (w *Written) Canary(newest *Children) *Children {
	name := CanaryName(w.object.Name)
	own := map[string]any{kserve.LabelApp: "isvc." + name, api.LabelCanary: "true"}
	out := *newest
	out.Transformer = nil
	d := runtime.DeepCopyJSON(newest.Deployment)
	out.Deployment = d
	mark := func(object map[string]any) {
		meta := object["metadata"].(map[string]any)
		meta["labels"] = union(meta["labels"].(map[string]any), own)
	}
	mark(d)
	d["metadata"].(map[string]any)["name"] = name
	spec := d["spec"].(map[string]any)
	mark(spec["template"].(map[string]any))
	spec["strategy"] = map[string]any{"type": "Recreate"} // until the new pods are ready, the revision before answers
	spec["selector"] = map[string]any{"matchLabels": map[string]any{kserve.LabelApp: own[kserve.LabelApp]}}
	s := runtime.DeepCopyJSON(newest.Services[0])
	mark(s)
	s["metadata"].(map[string]any)["name"] = name
	s["spec"].(map[string]any)["selector"] = map[string]any{kserve.LabelApp: own[kserve.LabelApp]}
	out.Services = []map[string]any{s}
	return &out
}

// Split has requests for the Services divided: a canary of a revision gets a share of them, in percent.
func (c *Children) Split(revision string, percent int) {
	for _, s := range c.Services {
		s["metadata"].(map[string]any)["annotations"].(map[string]any)[api.AnnotationSplit] = revision + "=" + strconv.Itoa(percent)
	}
}

// SplitOf reads how requests for a Service are divided; ok is false if they are not.
func SplitOf(s *corev1.Service) (revision string, percent int, ok bool) {
	revision, text, ok := strings.Cut(s.Annotations[api.AnnotationSplit], "=")
	percent, err := strconv.Atoi(text)
	if !ok || revision == "" || err != nil || percent < 0 || percent > serving.Whole {
		return "", 0, false
	}
	return revision, percent, true
}

// IsCanary reports whether labels are those of an object of a canary.
func IsCanary(labels map[string]string) bool { return labels[api.LabelCanary] == "true" }

// backedOut is serving.BackOut as it is kept.
type backedOut struct {
	Percent int    `json:"percent"`
	Why     string `json:"why"`
}

// BackOutText writes that a canary was backed out, for its revision.
func BackOutText(b *serving.BackOut) string {
	raw, _ := json.Marshal(backedOut(*b)) // a number and a text
	return string(raw)
}

// backOutOf reads what BackOutText has written; of a damaged text it returns nil.
func backOutOf(text string) *serving.BackOut {
	var b backedOut
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		return nil
	}
	return new(serving.BackOut(b))
}

// Promote returns the spec of a service without the share of a canary.
func Promote(o *kserve.InferenceService) (map[string]any, error) {
	spec := map[string]any{}
	if err := utiljson.Unmarshal(o.Spec.Raw, &spec); err != nil {
		return nil, fmt.Errorf("read the spec of InferenceService %s: %w", o.Name, err)
	}
	if predictor, ok := spec["predictor"].(map[string]any); ok {
		delete(predictor, fieldCanary)
	}
	return spec, nil
}
