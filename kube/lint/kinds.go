package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/api/kubeflow"
	rules "berth.dev/berth/core/training"
	"berth.dev/berth/internal/strictyaml"
	"berth.dev/berth/kube/can"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/serving"
	"berth.dev/berth/kube/training"
)

// kinds are the rules of objects that are not pods.
var kinds = map[string]func(*object){
	"ResourceQuota": (*object).quota, "LimitRange": (*object).limitRange, "PriorityClass": (*object).priorityClass,
	"HorizontalPodAutoscaler": (*object).autoscaler, "Deployment": (*object).rollout, "ConfigMap": (*object).configMap,
	kubeflow.KindTFJob: (*object).trainingJob, kubeflow.KindPyTorchJob: (*object).trainingJob,
	kserve.Kind: (*object).inferenceService,
}

// quota finds lines that count nothing.
func (o *object) quota() {
	q := &v1.ResourceQuota{}
	if decode(o.root, q) != nil {
		return
	}
	inert, loose := explain.InertQuotaLines(q)
	for _, line := range inert {
		field := strictyaml.Join("spec.hard", line)
		if slices.Contains(loose, line) {
			name := strings.TrimPrefix(line, "limits.")
			o.say(field, fail("quota-line", "Kubernetes accepts "+line+" and never counts it, so this quota does not limit these GPUs", "write requests."+name+" in its place"))
			continue
		}
		o.say(field, warn("quota-line", "Kubernetes accepts "+line+" and never counts it", "remove it: the line with requests. counts, and the limit of a GPU is its request"))
	}
}

// limitRange finds limits of GPUs that Kubernetes makes into defaults of every container.
func (o *object) limitRange() {
	l := &v1.LimitRange{}
	if decode(o.root, l) != nil {
		return
	}
	for _, d := range explain.GPUDefaults(l) {
		o.say(strictyaml.Join(fmt.Sprintf("spec.limits[%d].%s", d.Item, d.Field), d.Resource), fail("limitrange-default",
			fmt.Sprintf("every container of the namespace that says nothing of GPUs gets %s %s, sidecars and init containers too: Kubernetes makes %s the default limit, and that the request", d.Amount, d.Resource, d.Field),
			"limit GPUs by a ResourceQuota (requests."+d.Resource+") or a Berth Queue (perPod), and remove them here"))
	}
}

// priorityClass finds a default for the whole cluster.
func (o *object) priorityClass() {
	if textAt(o.root, "globalDefault") == "true" {
		o.say("globalDefault", warn("global-default", "every pod of the cluster that names no PriorityClass gets this one from now on, with or without GPUs, and a second default is refused",
			"set globalDefault: false, and name the class in the pods that are to have it"))
	}
}

// autoscaler finds what the API server refuses, and a target that cannot be scaled.
func (o *object) autoscaler() {
	if kind := textAt(o.root, "spec", "scaleTargetRef", "kind"); kind == "InferenceService" {
		o.say("spec.scaleTargetRef.kind", fail("autoscaler-target", "an InferenceService has no scale subresource, so the autoscaler cannot read or set its replicas",
			"set minReplicas and maxReplicas in the predictor of the InferenceService"))
	}
	if textAt(o.root, "spec", "minReplicas") != "0" {
		return
	}
	for _, m := range nodes(at(o.root, "spec", "metrics")) {
		if kind := textAt(m, "type"); kind == "Object" || kind == "External" {
			return
		}
	}
	o.say("spec.minReplicas", fail("autoscaler-zero", "Kubernetes refuses minReplicas: 0 without a metric of type Object or External: with no pods there is no CPU to measure",
		"set minReplicas: 1, or scale by such a metric with the feature gate HPAScaleToZero"))
}

// rollout finds a Deployment whose update needs more GPUs than it has.
func (o *object) rollout() {
	d := &appsv1.Deployment{}
	if decode(o.root, d) != nil || d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return
	}
	pod := &v1.Pod{Spec: d.Spec.Template.Spec}
	if !request.AsksForGPUs(pod) {
		return
	}
	replicas, quarter := 1, intstr.FromString("25%")
	if d.Spec.Replicas != nil {
		replicas = int(*d.Spec.Replicas)
	}
	surge, down := &quarter, &quarter
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		if r.MaxSurge != nil {
			surge = r.MaxSurge
		}
		if r.MaxUnavailable != nil {
			down = r.MaxUnavailable
		}
	}
	more, err1 := intstr.GetScaledValueFromIntOrPercent(surge, replicas, true)
	fewer, err2 := intstr.GetScaledValueFromIntOrPercent(down, replicas, false)
	if err1 != nil || err2 != nil || more == 0 || fewer > 0 {
		return
	}
	o.say("spec", warn("rollout", "an update starts a new pod before it ends an old one, so it waits for as long as no GPU is free for that",
		"if it may serve less for a moment: spec.strategy.rollingUpdate with maxSurge: 0 and maxUnavailable: 1, or type: Recreate"))
}

// replicaType is how errors of training jobs name the pods of one type.
var replicaType = regexp.MustCompile(`\[([A-Za-z]+)\]`)

// trainingJob finds what makes it impossible to run a TFJob or PyTorchJob.
func (o *object) trainingJob() {
	job := training.New(rules.Kind(o.kind))
	if err := decode(o.root, job); err != nil {
		o.say("", fail("unreadable", err.Error(), "write the value in the form that the field takes"))
		return
	}
	j, err := training.Of(job)
	if err == nil {
		err = training.Check(job, &j)
	}
	if err != nil {
		text := err.Error()
		field, rest, found := strings.Cut(text, ": ")
		if !found || !strings.HasPrefix(field, "spec") && !strings.HasPrefix(field, "metadata") {
			field, rest = "", text
		}
		seen, do, _ := strings.Cut(rest, "; ")
		o.sayAt(strictyaml.Line(o.root, replicaType.ReplaceAllString(field, ".$1")), field, fail("training-job", seen, do))
	}
}

// serviceField is how faults of InferenceServices begin, where they name a field.
var serviceField = regexp.MustCompile(`^spec(\.[A-Za-z]+)+`)

// inferenceService finds what makes it impossible to run an InferenceService, but for a format without a runtime: those are the cluster's.
func (o *object) inferenceService() {
	s := &kserve.InferenceService{}
	if err := decode(o.root, s); err != nil {
		o.say("", fail("unreadable", err.Error(), "write the value in the form that the field takes"))
		return
	}
	if _, fault := serving.Of(s); fault != nil {
		seen, do, _ := strings.Cut(fault.Message, "; ")
		o.say(serviceField.FindString(fault.Message), fail("model-service", seen, do))
	}
}

// together applies the rules that need several objects: a PodDisruptionBudget that keeps every pod it selects
// where it is.
func (f *manifests) together() {
	for _, b := range f.objects {
		if b.kind != "PodDisruptionBudget" {
			continue
		}
		least, most := textAt(b.root, "spec", "minAvailable"), textAt(b.root, "spec", "maxUnavailable")
		never := most == "0" || most == "0%" || least == "100%"
		field := "spec.minAvailable"
		if most != "" {
			field = "spec.maxUnavailable"
		}
		for _, o := range f.objects {
			if replicas := textAt(o.root, "spec", "replicas"); least != "" && (replicas == least || replicas == "" && least == "1") && f.covers(b, o) {
				never = true
			}
		}
		if never {
			b.say(field, warn("never-evicted", "no pod that it selects may be evicted: neither to drain a node, nor to return quota, nor for a pod of higher priority",
				"allow one: maxUnavailable: 1"))
		}
	}
}

// covers reports whether a budget selects the pods of a workload in the same namespace, by labels alone.
func (f *manifests) covers(b, o *object) bool {
	labels := at(o.root, "spec", "template", "metadata", "labels")
	want := at(b.root, "spec", "selector", "matchLabels")
	if labels == nil || len(keysOf(want)) == 0 || textAt(b.root, "metadata", "namespace") != textAt(o.root, "metadata", "namespace") {
		return false
	}
	return !slices.ContainsFunc(keysOf(want), func(key string) bool { return textAt(labels, key) != textAt(want, key) })
}

// configMap judges each value that is a configuration of the device plugin, a dashboard, or rules.
func (o *object) configMap() {
	data := at(o.root, "data")
	for _, key := range keysOf(data) {
		text, field := textAt(data, key), strictyaml.Join("data", key)
		root, err := strictyaml.Parse(key, []byte(text))
		if err == nil && root != nil {
			o.queriesIn(at(data, key), root, field, 0)
		}
		switch {
		case err != nil || root == nil:
		case can.IsPluginConfig(text):
			o.pluginKey(key, text)
		case at(root, "dashboard", "panels") != nil:
			o.say(field, warn("dashboard", "Grafana's loader reads a dashboard itself, not one below the key dashboard: that is the form of its HTTP API",
				"put what is below dashboard at the top, and add the label that the loader looks for, mostly grafana_dashboard: \"1\""))
		case slices.ContainsFunc(nodes(at(root, "groups")), func(group *yaml.Node) bool { return at(group, "rules") != nil }):
			o.say(field, warn("rules", "the Prometheus Operator loads no rules from ConfigMaps", "use a PrometheusRule, such as deploy/rules/berth-gpus-prometheusrule.yaml, or name the file in rule_files of Prometheus' own configuration"))
		}
	}
}
