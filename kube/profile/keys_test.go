package profile_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	core "berth.dev/berth/core/profile"
	"berth.dev/berth/kube/profile"
)

// overrideKeys are kubespawner's settings that files of real hubs set, and those beside
// them that place or shape a pod.
const overrideKeys = `image image_pull_policy image_pull_secrets cpu_limit cpu_guarantee mem_limit mem_guarantee
extra_resource_limits extra_resource_guarantees node_selector tolerations
node_affinity_required node_affinity_preferred pod_affinity_required pod_affinity_preferred
pod_anti_affinity_required pod_anti_affinity_preferred
environment default_url working_dir volumes volume_mounts init_containers extra_containers extra_pod_config
extra_container_config extra_labels extra_annotations priority_class_name scheduler_name service_account
uid gid fs_gid lifecycle_hooks namespace cmd args start_timeout`

// TestEveryOverrideKey: each key changes the notebook as it says, or is refused by its
// name, or has a finding that says why nothing reads it. None is dropped in silence.
func TestEveryOverrideKey(t *testing.T) {
	const term = `[{topologyKey: own-zone, labelSelector: {matchLabels: {own: "1"}}}]`
	const weighed = `[{weight: 7, podAffinityTerm: {topologyKey: own-zone}}]`
	tests := []struct{ key, value, want string }{ // want is in the notebook as JSON, without blanks
		{"image", `"own:2"`, `"image":"own:2"`},
		{"image_pull_policy", `Never`, `"imagePullPolicy":"Never"`},
		{"image_pull_secrets", `[own]`, `"imagePullSecrets":[{"name":"own"}]`},
		{"cpu_limit", `3`, `"limits":{"cpu":"3"`},
		{"cpu_guarantee", `0.3`, `"requests":{"cpu":"300m"`},
		{"mem_limit", `7G`, `"limits":{"memory":"7516192768"}`},
		{"mem_guarantee", `7G`, `"memory":"7516192768"`},
		{"extra_resource_limits", `{nvidia.com/gpu: "3"}`, `"limits":{"nvidia.com/gpu":"3"}`},
		{"extra_resource_guarantees", `{ephemeral-storage: 3Gi}`, `"requests":{"ephemeral-storage":"3Gi"`},
		{"node_selector", `{own: "1"}`, `"nodeSelector":{"own":"1"}`},
		{"tolerations", `[{key: own, operator: Exists}]`, `{"key":"own","operator":"Exists"}`},
		{"node_affinity_required", `[{matchExpressions: [{key: own, operator: Exists}]}]`, `"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"own","operator":"Exists"}]}]}`},
		{"node_affinity_preferred", `[{weight: 7, preference: {matchExpressions: [{key: own, operator: Exists}]}}]`, `"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":7,"preference":{"matchExpressions":[{"key":"own","operator":"Exists"}]}}]}`},
		{"pod_affinity_required", term, `"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"own":"1"}},"topologyKey":"own-zone"}]}`},
		{"pod_affinity_preferred", weighed, `"podAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":7,"podAffinityTerm":{"topologyKey":"own-zone"}}]}`},
		{"pod_anti_affinity_required", term, `"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"own":"1"}},"topologyKey":"own-zone"}]}`},
		{"pod_anti_affinity_preferred", weighed, `"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":7,"podAffinityTerm":{"topologyKey":"own-zone"}}]}`},
		{"environment", `{OWN: "1"}`, `{"name":"OWN","value":"1"}`},
		{"default_url", `/own`, `/own`},
		{"working_dir", `/own`, `"workingDir":"/own"`},
		{"volumes", `{own: {name: own, emptyDir: {}}}`, `{"name":"own","emptyDir":{}}`},
		{"volume_mounts", `[{name: own, mountPath: /own}], volumes: [{name: own, emptyDir: {}}]`, `{"name":"own","mountPath":"/own"}`},
		{"init_containers", `[{name: own, image: "i:1"}]`, `"initContainers":[{"name":"own","image":"i:1"`},
		{"extra_containers", `[{name: own, image: "i:1"}]`, `{"name":"own","image":"i:1"`},
		{"extra_pod_config", `{hostname: own}`, `"hostname":"own"`},
		{"extra_container_config", `{stdin: true}`, `"stdin":true`},
		{"extra_labels", `{own: "1"}`, `"own":"1"`},
		{"extra_annotations", `{own: "1"}`, `"own":"1"`},
		{"priority_class_name", `own`, `"priorityClassName":"own"`},
		{"scheduler_name", `own`, `"schedulerName":"own"`},
		{"service_account", `own`, `"serviceAccountName":"own"`},
		{"uid", `4242`, `"runAsUser":4242`},
		{"gid", `4242`, `"runAsGroup":4242`},
		{"fs_gid", `4242`, `"fsGroup":4242`},
		{"lifecycle_hooks", `{postStart: {exec: {command: [own]}}}`, `"lifecycle":{"postStart":{"exec":{"command":["own"]}}}`},
		{"namespace", `team`, "refused: a notebook stays in its user's namespace"},
		{"cmd", `[own]`, `"own"`},
		{"args", `[--own]`, `"--own"`},
		{"start_timeout", `600`, "found: kept, not used: a notebook is not given up while it waits"},
	}
	covered := map[string]bool{}
	for _, tt := range tests {
		covered[tt.key] = true
		t.Run(tt.key, func(t *testing.T) {
			if plain := rendered(t, `{}`); strings.Contains(plain, tt.want) {
				t.Fatalf("without the key it has %s, too:\n%s", tt.want, plain)
			}
			if got := rendered(t, "{"+tt.key+": "+tt.value+"}"); !strings.Contains(got, tt.want) {
				t.Errorf("it lacks %s:\n%s", tt.want, got)
			}
		})
	}
	for key := range strings.FieldsSeq(overrideKeys) {
		if !covered[key] {
			t.Errorf("%s is tried by no case", key)
		}
	}
}

// rendered is the notebook of an override as JSON, or "refused: " and why, after
// "found: " and what was found of it.
func rendered(t *testing.T, text string) string {
	t.Helper()
	section := "singleuser:\n  image: {name: base, tag: v1}\n" + indent(override("", text))
	f, err := profile.Read("values.yaml", []byte(section))
	if err != nil {
		t.Fatal(err)
	}
	list := objects(t, f)
	out := ""
	f.Check()
	for _, found := range f.Findings {
		out += "found: " + found.Text + "\n"
	}
	nb, _, _, err := profile.Render(&list[0], profile.Choices{User: "ada"})
	var refused *core.KeyError
	if errors.As(err, &refused) && strings.HasPrefix(text, "{"+refused.Key[strings.LastIndex(refused.Key, ".")+1:]+":") {
		return out + "refused: " + refused.Err.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(nb)
	if err != nil {
		t.Fatal(err)
	}
	return out + string(raw)
}
