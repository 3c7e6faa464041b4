package crd_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/api/v1alpha1"
)

// judge is what the API server does with an object of a definition: it fills in
// defaults, leaves out what the schema does not have, and lists what is wrong.
type judge struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
	rules      *schemacel.Validator
}

func newJudge(t *testing.T, name string) judge {
	t.Helper()
	props := &apiextensions.JSONSchemaProps{}
	in := definitions(t)[name].Spec.Versions[0].Schema.OpenAPIV3Schema
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(in, props, nil); err != nil {
		t.Fatal(err)
	}
	s, err := schema.NewStructural(props)
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		t.Fatal(err)
	}
	return judge{s, v, schemacel.NewValidator(s, true, cel.PerCallLimit)}
}

// read returns an object of YAML as it would be stored, and the sentences of a refusal.
func (j judge) read(t *testing.T, text string) (object map[string]any, wrong []string) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	if err := d.Decode(&object); err != nil {
		t.Fatal(err)
	}
	object = wholeNumbers(object).(map[string]any)
	defaulting.Default(object, j.structural)
	for _, path := range pruning.PruneWithOptions(object, j.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		wrong = append(wrong, "unknown field "+path)
	}
	errs := validation.ValidateCustomResource(nil, object, j.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, j.structural, object)...)
	more, _ := j.rules.Validate(t.Context(), nil, j.structural, object, nil, cel.RuntimeCELCostBudget)
	for _, err := range append(errs, more...) {
		wrong = append(wrong, err.Error())
	}
	slices.Sort(wrong)
	return object, wrong
}

// wholeNumbers makes integers of numbers without a fraction, as the API server reads JSON.
func wholeNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = wholeNumbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = wholeNumbers(v[i])
		}
	case float64:
		if v == math.Trunc(v) {
			return int64(v)
		}
	}
	return v
}

const metaOfX = "metadata: {name: x}\nspec:\n"

// TestWhatAQueueCanSay has objects that are stored as they are.
func TestWhatAQueueCanSay(t *testing.T) {
	j := newJudge(t, "queues.berth.dev")
	for _, tt := range []struct{ name, spec string }{
		{"everything", `
  parent: org
  default: true
  namespaces:
    names: [vision, speech-2]
    selector: {matchLabels: {team: a}, matchExpressions: [{key: env, operator: NotIn, values: [test]}]}
    labeledPods: ["*", other]
  quotas:
  - {gpus: All, nominal: 8, borrowingLimit: "0.5", lendingLimit: 0}
  - {gpus: Equivalents, nominal: "2500m"}
  - {gpus: NVIDIA-H100-80GB-HBM3, nominal: 2}
  - {gpus: NVIDIA A100 80GB PCIe, nominal: 2}
  - {gpus: mig-1g.5gb, nominal: 14}
  - {gpus: mig-1g.5gb.me, nominal: 1}
  - {gpus: mig-1c.3g.20gb, nominal: 10000000}
  - {gpus: workload=training, nominal: 4}
  - {gpus: cloud.google.com/gke-nodepool=h100_spot.1, nominal: 4}
  - {gpus: example.com/empty=, nominal: 1}
  preferredGPUs: [NVIDIA-H100-80GB-HBM3, NVIDIA A100 80GB PCIe, nvidia.com/gpu.sharing-strategy=time-slicing]
  weight: 3
  perUser: [{gpus: All, max: 2}]
  perPod: [{gpus: All, max: 4}]
  priorityCeiling: -1
  sharing: [Whole, MIG, TimeSlicing, MPS, Memory]
  defaultPriorityClasses: {notebook: low, training: normal.team, serving: critical}
  order: Fair
  stop: HoldAndDrain
  minRunTime: 1h30m
  maxRunTime: 2d
  fairness: {halfLife: "0"}
  idleNotebooks: GiveWay
  budget: {amount: 4000.5, currency: EUR, warnAt: [80, 120], holdNewWork: true}
`},
		{"nothing", "  {}\n"},
		{"a quota of all GPUs", "  quotas: [{gpus: All, nominal: 7}]\n"},
		{"an expression alone selects namespaces", "  namespaces: {selector: {matchExpressions: [{key: team, operator: Exists}]}}\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, wrong := j.read(t, metaOfX+tt.spec); len(wrong) > 0 {
				t.Errorf("refused:\n%s", strings.Join(wrong, "\n"))
			}
		})
	}
}

// TestWhatAQueueCannotSay has the sentences in which objects are refused.
func TestWhatAQueueCannotSay(t *testing.T) {
	j := newJudge(t, "queues.berth.dev")
	many := strings.Repeat("A", 64)
	var quotas strings.Builder
	for i := range 65 {
		fmt.Fprintf(&quotas, "\n  - {gpus: P%d, nominal: 1}", i)
	}
	for _, tt := range []struct{ name, spec, want string }{
		{"a queue below itself", "  parent: x\n", `spec.parent: Invalid value: a queue is not its own parent; name another one, or leave it out`},
		{"a parent that is not a name", "  parent: Team A\n", `spec.parent: Invalid value: "Team A": not the name of a queue; use small letters, digits, '-' and '.'`},
		{"a budget of nothing", "  budget: {amount: 0}\n", `spec.budget.amount: Invalid value: 0: a budget is more than 0; to admit nothing, write "stop: Hold"`},
		{"a budget without an amount", "  budget: {currency: EUR}\n", `spec.budget.amount: Required value`},
		{"a percentage that is always reached", "  budget: {amount: 1, warnAt: [0]}\n", `spec.budget.warnAt[0]: Invalid value: 0: not a percentage to warn at; write 1 to 1000`},
		{"a sign as the currency of a budget", "  budget: {amount: 1, currency: $}\n", `spec.budget.currency: Invalid value: "$": not a currency; write three capital letters, such as USD or EUR`},
		{"a negative amount", "  quotas: [{gpus: All, nominal: -1}]\n", `spec.quotas[0].nominal: Invalid value: -1: an amount of GPUs is not negative`},
		{"a negative limit in milli", "  quotas: [{gpus: All, nominal: 1, borrowingLimit: -1m}]\n", `spec.quotas[0].borrowingLimit: Invalid value: "-1m": an amount of GPUs is not negative`},
		{"an absurd amount", "  quotas: [{gpus: All, nominal: 1, lendingLimit: 10000001}]\n", `spec.quotas[0].lendingLimit: Invalid value: 10000001: more than 10000000 GPUs; leave the entry or the limit out if there is none`},
		{"an amount that is a word", "  perUser: [{gpus: All, max: two}]\n", `spec.perUser[0].max: Invalid value: "two": not an amount; write a number such as 4 or "0.5"`},
		{"no amount", "  quotas: [{gpus: All}]\n", `spec.quotas[0].nominal: Required value`},
		{
			"GPUs in words that are near", "  quotas: [{gpus: all, nominal: 1}, {gpus: equivalents, nominal: 1}, {gpus: nvidia.com/gpu, nominal: 1}]\n",
			`spec.quotas[0].gpus: Invalid value: "all": write All for GPUs of all products
spec.quotas[1].gpus: Invalid value: "equivalents": write Equivalents for weighted GPUs
spec.quotas[2].gpus: Invalid value: "nvidia.com/gpu": write All for GPUs of all products`,
		},
		{
			"GPUs that no product is called", "  perPod: [{gpus: 'nvidia.com/mig-1g.5gb', max: 1}]\n",
			`spec.perPod[0].gpus: Invalid value: "nvidia.com/mig-1g.5gb": not GPUs: write All, Equivalents, a product as in the label nvidia.com/gpu.product, a MIG profile as mig-1g.5gb, or a node label as workload=training`,
		},
		{"a MIG profile without memory", "  quotas: [{gpus: mig-1g, nominal: 1}]\n", `spec.quotas[0].gpus: Invalid value: "mig-1g": not a MIG profile; write it as in the resource nvidia.com/mig-1g.5gb, mig-1g.5gb`},
		{"a name that is too long", "  quotas: [{gpus: " + many + ", nominal: 1}]\n", `spec.quotas[0].gpus: Invalid value: "` + many + `": a name of GPUs has at most 63 characters`},
		{
			"node labels that are none", "  quotas: [{gpus: workload==training, nominal: 1}, {gpus: 'workload=a,zone=b', nominal: 1}, {gpus: 'workload!=a', nominal: 1}, {gpus: =a, nominal: 1}, {gpus: Example.com/a=b, nominal: 1}]\n",
			`spec.quotas[0].gpus: Invalid value: "workload==training": not a node label with its value; write one such as workload=training or example.com/pool=a
spec.quotas[1].gpus: Invalid value: "workload=a,zone=b": not a node label with its value; write one such as workload=training or example.com/pool=a
spec.quotas[2].gpus: Invalid value: "workload!=a": not a node label with its value; write one such as workload=training or example.com/pool=a
spec.quotas[3].gpus: Invalid value: "=a": not a node label with its value; write one such as workload=training or example.com/pool=a
spec.quotas[4].gpus: Invalid value: "Example.com/a=b": not a node label with its value; write one such as workload=training or example.com/pool=a`,
		},
		{
			"a label without its value", "  quotas: [{gpus: example.com/pool, nominal: 1}]\n",
			`spec.quotas[0].gpus: Invalid value: "example.com/pool": not GPUs: write All, Equivalents, a product as in the label nvidia.com/gpu.product, a MIG profile as mig-1g.5gb, or a node label as workload=training`,
		},
		{
			"a preference for what no pod has a choice of", "  preferredGPUs: [All, mig-1g.5gb, 'a=b=c']\n",
			`spec.preferredGPUs[0]: Invalid value: "All": no pod has a choice of these; list products as in the label nvidia.com/gpu.product, and node labels as workload=training
spec.preferredGPUs[1]: Invalid value: "mig-1g.5gb": no pod has a choice of these; list products as in the label nvidia.com/gpu.product, and node labels as workload=training
spec.preferredGPUs[2]: Invalid value: "a=b=c": not a node label with its value; write one such as workload=training or example.com/pool=a`,
		},
		{"a preference twice", "  preferredGPUs: [Tesla-T4, Tesla-T4]\n", `spec.preferredGPUs[1]: Duplicate value: "Tesla-T4"`},
		{"GPUs twice", "  quotas: [{gpus: All, nominal: 1}, {gpus: All, nominal: 2}]\n", `spec.quotas[1]: Duplicate value: {"gpus":"All"}`},
		{"too many quotas", "  quotas:" + quotas.String() + "\n", `spec.quotas: Too many: 65: must have at most 64 items`},
		{"an order in small letters", "  order: fifo\n", `spec.order: Unsupported value: "fifo": supported values: "FIFO", "Fair"`},
		{"a way to share that is none", "  sharing: [whole]\n", `spec.sharing[0]: Unsupported value: "whole": supported values: "Whole", "MIG", "TimeSlicing", "MPS", "Memory"`},
		{"a weight of nothing", "  weight: 0\n", `spec.weight: Invalid value: 0: spec.weight in body should be greater than or equal to 1`},
		{
			"times that are none", "  minRunTime: 10 minutes\n  maxRunTime: -1h\n  fairness: {halfLife: 1w}\n",
			`spec.fairness.halfLife: Invalid value: "1w": not a duration; write one such as 30s, 10m, 1h30m or 2d
spec.maxRunTime: Invalid value: "-1h": not a duration; write one such as 30s, 10m, 1h30m or 2d
spec.minRunTime: Invalid value: "10 minutes": not a duration; write one such as 30s, 10m, 1h30m or 2d`,
		},
		{
			"a class of the system", "  defaultPriorityClasses: {serving: system-node-critical}\n",
			`spec.defaultPriorityClasses.serving: Invalid value: "system-node-critical": Berth assigns no class of the system (system-...); name one of your own`,
		},
		{
			"all namespaces by an empty selector", "  namespaces: {selector: {}}\n",
			`spec.namespaces.selector: Invalid value: an empty selector takes every namespace, also kube-system; select by a label, or write "default: true" for namespaces that no queue takes`,
		},
		{
			"a pattern for names", "  namespaces: {names: ['team-*'], labeledPods: ['team-*']}\n",
			`spec.namespaces.labeledPods[0]: Invalid value: "team-*": not the name of a namespace; use small letters, digits and '-', or "*" for all namespaces
spec.namespaces.names[0]: Invalid value: "team-*": not the name of a namespace; use small letters, digits and '-', or spec.namespaces.selector for several`,
		},
		{"a field of another kind", "  cohort: org\n", `unknown field spec.cohort`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, wrong := j.read(t, metaOfX+tt.spec)
			if diff := cmp.Diff(tt.want, strings.Join(wrong, "\n")); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestTheTypesAreTheSchema reads an object with every field into the Go type and back.
func TestTheTypesAreTheSchema(t *testing.T) {
	j := newJudge(t, "queues.berth.dev")
	fields := func(s *schema.Structural) map[string]bool {
		out := map[string]bool{}
		var walk func(path string, s *schema.Structural)
		walk = func(path string, s *schema.Structural) {
			for name, p := range s.Properties {
				out[path+"."+name] = true
				walk(path+"."+name, &p)
			}
			if s.Items != nil {
				walk(path, s.Items)
			}
		}
		for _, part := range []string{"spec", "status"} {
			p := s.Properties[part]
			walk(part, &p)
		}
		return out
	}
	types := map[string]bool{}
	walkType(types, "spec", reflect.TypeFor[v1alpha1.QueueSpec]())
	walkType(types, "status", reflect.TypeFor[v1alpha1.QueueStatus]())
	if diff := cmp.Diff(fields(j.structural), types); diff != "" {
		t.Errorf("fields -schema +types\n%s", diff)
	}
}

// walkType lists the fields of a type as JSON has them.
func walkType(out map[string]bool, path string, of reflect.Type) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of.PkgPath() == "k8s.io/apimachinery/pkg/api/resource" || of.Name() == "Time" {
		return
	}
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out[path+"."+name] = true
		walkType(out, path+"."+name, f.Type)
	}
}

func TestDefaultsOfAQueue(t *testing.T) {
	j := newJudge(t, "queues.berth.dev")
	object, _ := j.read(t, metaOfX+"  {}\n")
	want := map[string]any{
		"weight": int64(1), "order": "FIFO", "stop": "None", "minRunTime": "10m", "idleNotebooks": "Keep", "fairness": map[string]any{"halfLife": "168h"},
	}
	if diff := cmp.Diff(want, object["spec"]); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
