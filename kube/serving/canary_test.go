package serving_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	rules "berth.dev/berth/core/serving"
	"berth.dev/berth/kube/serving"
)

// written reads a service called iris.
func written(t *testing.T, text string) *serving.Written {
	t.Helper()
	o := &kserve.InferenceService{}
	if err := yaml.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	o.Name, o.Namespace, o.UID = "iris", "ml", "u"
	w, fault := serving.Of(o)
	if fault != nil {
		t.Fatal(fault.Message)
	}
	return w
}

func TestObjectsOfACanary(t *testing.T) {
	w := written(t, "spec: {predictor: {canaryTrafficPercent: 20, containers: [{image: a, ports: [{containerPort: 9000, name: http1}]}]}}")
	newest, err := serving.Build(w, nil, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := json.Marshal(newest)
	canary := w.Canary(newest)
	if after, _ := json.Marshal(newest); string(after) != string(before) {
		t.Errorf("the objects of the newest revision became %s", after)
	}
	raw, _ := json.Marshal(map[string]any{"d": canary.Deployment, "s": canary.Services})
	text := string(raw)
	for _, want := range []string{
		`"name":"iris-predictor-canary"`, `"matchLabels":{"app":"isvc.iris-predictor-canary"}`, `"selector":{"app":"isvc.iris-predictor-canary"}`, `"strategy":{"type":"Recreate"}`,
		`"berth.dev/canary":"true"`, `"serving.kserve.io/inferenceservice":"iris"`, `"berth.dev/serving-spec":"` + newest.Revision + `"`, `"targetPort":9000`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the objects lack %s: %s", want, text)
		}
	}
	if strings.Contains(text, `"app":"isvc.iris-predictor"`) || canary.Revision != newest.Revision || len(canary.Services) != 1 {
		t.Errorf("the Services of the service select the canary, or its revision is another one: %s", text)
	}
}

func TestNamesOfACanary(t *testing.T) {
	if got := serving.CanaryName("mnist"); got != "mnist-predictor-canary" {
		t.Errorf("the name is %s", got)
	}
	a, b := serving.CanaryName(strings.Repeat("a", 53)), serving.CanaryName(strings.Repeat("a", 52)+"b")
	if a == b || len("isvc."+a) > 63 || len("isvc."+b) > 63 {
		t.Errorf("the names are %s and %s", a, b)
	}
}

func TestHowRequestsAreDividedIsReadAgain(t *testing.T) {
	w := written(t, "spec: {predictor: {sklearn: {}}}")
	c, err := serving.Build(w, nil, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.Split("abc", 20)
	for _, s := range c.Services {
		svc := &corev1.Service{}
		raw, _ := json.Marshal(s)
		if err := json.Unmarshal(raw, svc); err != nil {
			t.Fatal(err)
		}
		if revision, percent, ok := serving.SplitOf(svc); revision != "abc" || percent != 20 || !ok {
			t.Errorf("Service %s is divided by %q, %d (%v)", svc.Name, revision, percent, ok)
		}
	}
	for _, text := range []string{"", "abc", "=20", "abc=", "abc=-1", "abc=101", "abc=x"} {
		svc := &corev1.Service{}
		svc.Annotations = map[string]string{api.AnnotationSplit: text}
		if _, _, ok := serving.SplitOf(svc); ok {
			t.Errorf("%q is read as a share", text)
		}
	}
}

// The revision before is made as it was, but with the number of replicas that is wanted now.
func TestTheRevisionBeforeIsMadeAgain(t *testing.T) {
	old := written(t, "spec: {predictor: {minReplicas: 1, containers: [{image: a}]}}")
	was, err := serving.Build(old, nil, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := old.Record(was.Revision, 1)
	if err != nil {
		t.Fatal(err)
	}
	now := written(t, "spec: {predictor: {minReplicas: 3, canaryTrafficPercent: 20, containers: [{image: b}]}}")
	if now.Service.Canary == nil || *now.Service.Canary != 20 {
		t.Fatalf("the share is %v", now.Service.Canary)
	}
	main, fault, err := now.At(r)
	if err != nil || fault != nil {
		t.Fatal(err, fault)
	}
	made, err := serving.Build(main, nil, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if made.Revision != was.Revision || main.Service.Scale.Min != 3 || main.Service.Canary != nil {
		t.Errorf("revision %s becomes %s, of %+v", was.Revision, made.Revision, main.Service)
	}
	r.Data.Raw = []byte("{")
	if _, _, err := now.At(r); err == nil {
		t.Error("a damaged revision is made")
	}
}

func TestABackOutIsReadAgain(t *testing.T) {
	w := written(t, "spec: {predictor: {sklearn: {}}}")
	r, err := w.Record("abc", 1)
	if err != nil {
		t.Fatal(err)
	}
	r.Annotations[api.AnnotationBackedOut] = serving.BackOutText(&rules.BackOut{Percent: 20, Why: `it says "no"`})
	if got := serving.RevisionOf(r).BackedOut; got == nil || got.Percent != 20 || got.Why != `it says "no"` {
		t.Errorf("a back-out is read as %+v", got)
	}
	r.Annotations[api.AnnotationBackedOut] = "{"
	if got := serving.RevisionOf(r).BackedOut; got != nil {
		t.Errorf("a damaged one is read as %+v", got)
	}
}

func TestFiguresOfACanaryAreReadAgain(t *testing.T) {
	s := &rules.Split{Revision: "a", Percent: 20, Canary: rules.Outcomes{Answers: 3, Errors: 1}}
	s.Canary.Times[7] = 2
	a, b := serving.Requests{InFlight: 1, Split: serving.SplitFor(s)}, serving.Requests{}
	raw, _ := json.Marshal(a)
	if err := json.Unmarshal(raw, &b); err != nil || *b.Split.Value() != *s || !a.Equal(&b) {
		t.Errorf("%s is read as %+v (%v)", raw, b.Split, err)
	}
	s.Canary.Times[7] = 3
	if c := (serving.Requests{InFlight: 1, Split: serving.SplitFor(s)}); a.Equal(&c) || a.Equal(&serving.Requests{InFlight: 1}) {
		t.Error("other figures are taken for the same")
	}
	if serving.SplitFor(nil) != nil || (*serving.Split)(nil).Value() != nil {
		t.Error("no figures become some")
	}
	b.Split.Canary.Times = map[int]int{-1: 1, 1000: 1}
	if got := b.Split.Value().Canary.Times; got != (rules.Histogram{}) {
		t.Errorf("steps that there are not are read as %v", got)
	}
}

func TestPromote(t *testing.T) {
	o := &kserve.InferenceService{}
	o.Spec.Raw = []byte(`{"predictor":{"canaryTrafficPercent":20,"minReplicas":2,"sklearn":{}}}`)
	spec, err := serving.Promote(o)
	if raw, _ := json.Marshal(spec); err != nil || string(raw) != `{"predictor":{"minReplicas":2,"sklearn":{}}}` {
		t.Errorf("the spec is %s (%v)", raw, err)
	}
	o.Spec.Raw = []byte("{")
	if _, err := serving.Promote(o); err == nil {
		t.Error("a damaged spec is promoted")
	}
}
