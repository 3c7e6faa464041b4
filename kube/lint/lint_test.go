package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/kube/lint"
)

var reader = lint.Reader{PluginConfig: config.Parse}

// pod is a Pod with lines of its only container, which begins at line 6.
func pod(lines ...string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: main\n" + indent("    ", lines)
}

func indent(by string, lines []string) string {
	return by + strings.Join(lines, "\n"+by) + "\n"
}

// deployment is a Deployment with lines of its spec, which begin at line 5.
func deployment(lines ...string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n" + indent("  ", lines)
}

const gpuTemplate = "template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}"

// TestCheck has what is found, a line each: its line in the file, how bad it is, its name, and its field.
// rows: GS-46 AS-30
func TestCheck(t *testing.T) {
	cases := []struct {
		name string
		text string
		want []string
	}{
		{"nothing is wrong with a plain pod", pod("resources: {limits: {nvidia.com/gpu: 1}}"), nil},
		{"an empty file", "", nil},
		{"a kind that Berth does not run", "apiVersion: kubeflow.org/v1\nkind: XGBoostJob\nmetadata: {name: x}\n", []string{"2 ok kind-not-run kind"}},
		{"a kind of that name in another group", "apiVersion: example.com/v1\nkind: XGBoostJob\nmetadata: {name: x}\n", nil},
		{"text of no kind", "a: {b: c}\n", nil},
		{
			"a request unlike its limit", pod("resources:", "  limits: {nvidia.com/gpu: 2}", "  requests: {nvidia.com/gpu: 1}"),
			[]string{`9 fail requests-differ spec.containers[0].resources.requests["nvidia.com/gpu"]`},
		},
		{"equal amounts in other spellings", pod("resources:", "  limits: {nvidia.com/gpu: 1}", `  requests: {nvidia.com/gpu: "1000m"}`), nil},
		{
			"a request without a limit", pod("resources: {requests: {nvidia.com/gpu: 1}}"),
			[]string{`7 fail requests-differ spec.containers[0].resources.requests["nvidia.com/gpu"]`},
		},
		{
			"half a GPU", pod("resources: {limits: {nvidia.com/gpu: 0.5}}"),
			[]string{`7 fail whole-gpus spec.containers[0].resources.limits["nvidia.com/gpu"]`},
		},
		{
			"a misspelled resource", pod("resources: {limits: {nvidia.com/gpus: 1}}"),
			[]string{`7 fail resource-name spec.containers[0].resources.limits["nvidia.com/gpus"]`},
		},
		{
			"rules of Prometheus in a ConfigMap", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  a.rules: |\n    groups:\n    - name: g\n      rules: [{alert: A, expr: up}]\n",
			[]string{`5 warn rules data["a.rules"]`},
		},
		{
			"a dashboard in the form of Grafana's API", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  a.json: |\n    {\"dashboard\": {\"title\": \"T\", \"panels\": [{\"title\": \"P\"}]}}\n",
			[]string{`5 warn dashboard data["a.json"]`},
		},
		{"a dashboard that Grafana's loader reads", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, labels: {grafana_dashboard: '1'}}\ndata:\n  a.json: |\n    {\"title\": \"T\", \"panels\": []}\n", nil},
		{"GPUs of another maker", pod("resources: {limits: {amd.com/gpu: 1}}"), nil},
		{
			"GPUs asked for by the whole pod", "kind: Pod\nspec:\n  resources: {limits: {nvidia.com/gpu: 1}}\n  containers: [{name: c}]\n",
			[]string{`3 fail pod-resources spec.resources.limits["nvidia.com/gpu"]`},
		},
		{
			"a share in two spellings", pod("resources: {limits: {nvidia.com/gpumem: 1000, nvidia.com/gpumem-percentage: 50}}"),
			[]string{"4 fail gpu-request spec"},
		},
		{
			"a variable that hides GPUs", pod("env: [{name: CUDA_VISIBLE_DEVICES, value: '0'}]", "resources: {limits: {nvidia.com/gpu: 1}}"),
			[]string{"7 warn visible-devices spec.containers[0].env[0]"},
		},
		{
			"a variable that takes GPUs", pod("env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]"),
			[]string{"7 warn visible-devices spec.containers[0].env[0]"},
		},
		{"a variable that takes none", pod("env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]"), nil},
		{
			"a label that nothing sets", "kind: Job\nspec:\n  template:\n    spec:\n      nodeSelector: {accelerator: nvidia-gpu}\n      containers: []\n",
			[]string{"5 warn node-label spec.template.spec.nodeSelector.accelerator"},
		},
		{
			"a field of the pod beside its template", deployment("restartPolicy: Always", gpuTemplate),
			[]string{"4 warn rollout spec", "5 fail unknown-field spec.restartPolicy"},
		},
		{"an update that makes room first", deployment("strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}", gpuTemplate), nil},
		{"an update of many pods ends some first", deployment("replicas: 8", gpuTemplate), nil},
		{
			"little CPU and memory beside a GPU", "kind: Job\nspec:\n  template:\n    spec:\n      containers:\n      - resources: {limits: {nvidia.com/gpu: 2, cpu: 4, memory: 16Gi}}\n",
			[]string{"6 warn cpu-memory spec.template.spec.containers[0].resources", "6 warn cpu-memory spec.template.spec.containers[0].resources"},
		},
		{
			"as much as people mostly give", "kind: Job\nspec:\n  template:\n    spec:\n      containers:\n      - resources: {limits: {nvidia.com/gpu: 2, cpu: 16, memory: 64Gi}}\n",
			nil,
		},
		{
			"a quota that limits no GPU", "kind: ResourceQuota\nspec:\n  hard:\n    limits.nvidia.com/gpu: 2\n",
			[]string{`4 fail quota-line spec.hard["limits.nvidia.com/gpu"]`},
		},
		{
			"a quota with a line too many", "kind: ResourceQuota\nspec:\n  hard:\n    limits.nvidia.com/gpu: 2\n    requests.nvidia.com/gpu: 2\n",
			[]string{`4 warn quota-line spec.hard["limits.nvidia.com/gpu"]`},
		},
		{
			"a LimitRange that gives GPUs to all", "kind: LimitRange\nspec:\n  limits:\n  - type: Container\n    max: {nvidia.com/gpu: 4}\n",
			[]string{`5 fail limitrange-default spec.limits[0].max["nvidia.com/gpu"]`},
		},
		{"a LimitRange whose default is none", "kind: LimitRange\nspec:\n  limits:\n  - type: Container\n    max: {nvidia.com/gpu: 4}\n    default: {nvidia.com/gpu: 0}\n", nil},
		{"a default for the whole cluster", "kind: PriorityClass\nglobalDefault: true\n", []string{"2 warn global-default globalDefault"}},
		{
			"an autoscaler to zero by CPU", "kind: HorizontalPodAutoscaler\nspec:\n  minReplicas: 0\n  scaleTargetRef: {kind: InferenceService}\n",
			[]string{"3 fail autoscaler-zero spec.minReplicas", "4 fail autoscaler-target spec.scaleTargetRef.kind"},
		},
		{"an autoscaler to zero by requests", "kind: HorizontalPodAutoscaler\nspec:\n  minReplicas: 0\n  metrics: [{type: External}]\n", nil},
		{
			"a budget that no pod may leave", deployment("replicas: 2", "strategy: {type: Recreate}", "template: {metadata: {labels: {app: a}}, spec: {containers: []}}") +
				"---\nkind: PodDisruptionBudget\nspec:\n  minAvailable: 2\n  selector: {matchLabels: {app: a}}\n",
			[]string{"11 warn never-evicted spec.minAvailable"},
		},
		{
			"a job without pods", "kind: TFJob\nmetadata: {name: t}\nspec:\n  tfReplicaSpecs:\n    Worker:\n      replicas: 0\n      template: {spec: {containers: [{name: tensorflow}]}}\n",
			[]string{"6 fail training-job spec.tfReplicaSpecs[Worker].replicas"},
		},
		{
			"a model service with a share that is none", "kind: InferenceService\nmetadata: {name: s}\nspec:\n  predictor:\n    canaryTrafficPercent: 110\n    sklearn: {}\n",
			[]string{"5 fail model-service spec.predictor.canaryTrafficPercent"},
		},
		{"a model service that scales to zero", "kind: InferenceService\nmetadata: {name: s}\nspec: {predictor: {minReplicas: 0, sklearn: {}}}\n", nil},
		{
			"a configuration in a ConfigMap", "kind: ConfigMap\ndata:\n  any: |\n    sharing:\n      timeSlicing:\n        replicas: 4\n",
			[]string{"6 fail plugin-config data.any"},
		},
		{
			"a configuration as a file", "version: v1\nsharing:\n  timeSlicing:\n    resources: [{name: nvidia.com/gpu, replicas: 4}]\n",
			[]string{"1 ok plugin-config", "1 ok plugin-config", "1 ok plugin-config"},
		},
		{
			"a metric that is not there", "kind: ConfigMap\ndata:\n  x: |\n    first\n    DCGM_FI_DEV_FB_TOTAL > 1\n",
			[]string{"5 warn metric-name data.x"},
		},
		{
			"a rule in a ConfigMap that counts free GPUs", "kind: ConfigMap\ndata:\n  x: |\n    groups:\n    - rules:\n      - alert: Idle\n        expr: DCGM_FI_DEV_GPU_UTIL < 10\n",
			[]string{"3 warn rules data.x", "7 warn query data.x"},
		},
		{
			"a PrometheusRule that joins by what it has dropped", "kind: PrometheusRule\nspec:\n  groups:\n  - rules:\n    - alert: Cost\n      expr: sum(DCGM_FI_DEV_GPU_UTIL) * on(pod) kube_pod_info > 1\n",
			[]string{"6 warn query spec.groups[0].rules[0].expr"},
		},
		{
			"a broken document costs only itself", "a: [\n---\n" + "kind: PriorityClass\nglobalDefault: true\n",
			[]string{"1 fail syntax", "4 warn global-default globalDefault"},
		},
		{
			"objects of a List", "kind: List\nitems:\n- kind: PriorityClass\n  globalDefault: true\n",
			[]string{"4 warn global-default globalDefault"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, f := range lint.Check("f.yaml", []byte(c.text), reader) {
				got = append(got, strings.TrimSpace(fmt.Sprintln(f.Line, f.Status, f.Name, f.Field)))
				if f.Seen == "" || f.File != "f.yaml" {
					t.Errorf("says nothing, or of no file: %+v", f)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s%s", diff, c.text)
			}
		})
	}
}

// FuzzCheck holds Check to ending, to lines of the file, and to equal answers.
func FuzzCheck(f *testing.F) {
	f.Add(pod("resources: {limits: {nvidia.com/gpu: 1}}"))
	f.Add(deployment("restartPolicy: Always", gpuTemplate))
	f.Add("a: &a [*a]\nresources: &r {limits: *r}\ncontainers: [*r]\n")
	f.Add("kind: List\nitems: &i\n- kind: List\n  items: *i\n")
	f.Add("kind: ConfigMap\ndata: {a: 'sharing: {}', b: 'groups: [{rules: 1}]'}\n")
	f.Fuzz(func(t *testing.T, text string) {
		got := lint.Check("f", []byte(text), reader)
		for _, one := range got {
			if one.Line < 0 || one.Line > strings.Count(text, "\n")+2 {
				t.Errorf("line %d of %d: %+v", one.Line, strings.Count(text, "\n"), one)
			}
		}
		if diff := cmp.Diff(got, lint.Check("f", []byte(text), reader)); diff != "" {
			t.Errorf("other answers: %s", diff)
		}
	})
}
