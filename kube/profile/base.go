package profile

import (
	encoding "encoding/json"
	"fmt"
	"maps"
	"strings"

	core "berth.dev/berth/core/profile"
)

// sampleImage is the image of the chart where a values file names none, and sampleTag
// the tag that it has in version 4.3 of the chart.
const (
	sampleImage = "quay.io/jupyterhub/k8s-singleuser-sample"
	sampleTag   = "4.3.3"
)

// createdPullSecret is the Secret that the chart makes for imagePullSecret.create.
const createdPullSecret = "image-pull-secret"

// chart is what zero-to-jupyterhub's chart says in its section singleuser where a
// values file says nothing, as far as a pod depends on it; and, under scheduling,
// of its section of that name. What only a hub uses is left out.
const chart = `{
  "image": {"name": "` + sampleImage + `", "tag": "` + sampleTag + `"},
  "allowPrivilegeEscalation": false, "uid": 1000, "fsGid": 100,
  "cmd": "jupyterhub-singleuser", "imagePullSecret": {"automaticReferenceInjection": true},
  "memory": {"guarantee": "1G"},
  "storage": {
    "type": "dynamic", "capacity": "10Gi", "homeMountPath": "/home/jovyan",
    "static": {"subPath": "{username}"},
    "dynamic": {"volumeNameTemplate": "volume-{user_server}", "storageAccessModes": ["ReadWriteOnce"]}
  },
  "scheduling": {"userPods": {
    "nodeAffinity": {"matchNodePurpose": "prefer"},
    "tolerations": [
      {"key": "hub.jupyter.org/dedicated", "operator": "Equal", "value": "user", "effect": "NoSchedule"},
      {"key": "hub.jupyter.org_dedicated", "operator": "Equal", "value": "user", "effect": "NoSchedule"}
    ]
  }}
}`

// chartValues is chart, read. Nothing changes it.
var chartValues = func() map[string]any { //nolint:gochecknoglobals // a table
	values, err := object(encoding.RawMessage(chart))
	if err != nil {
		panic(err) // it is a constant
	}
	return values
}()

// baseSettings are kubespawner's settings and the key of the section singleuser
// that the chart takes each from.
var baseSettings = []struct{ setting, path string }{
	{"start_timeout", "startTimeout"},
	{"image_pull_policy", "image.pullPolicy"},
	{"extra_labels", "extraLabels"},
	{"extra_annotations", "extraAnnotations"},
	{"allow_privilege_escalation", "allowPrivilegeEscalation"},
	{"uid", "uid"},
	{"fs_gid", "fsGid"},
	{"service_account", "serviceAccountName"},
	{"storage_extra_labels", "storage.extraLabels"},
	{"storage_class", "storage.dynamic.storageClass"},
	{"storage_access_modes", "storage.dynamic.storageAccessModes"},
	{"storage_capacity", "storage.capacity"},
	{"pvc_name_template", "storage.dynamic.pvcNameTemplate"},
	{"node_selector", "nodeSelector"},
	{"node_affinity_required", "extraNodeAffinity.required"},
	{"node_affinity_preferred", "extraNodeAffinity.preferred"},
	{"pod_affinity_required", "extraPodAffinity.required"},
	{"pod_affinity_preferred", "extraPodAffinity.preferred"},
	{"pod_anti_affinity_required", "extraPodAntiAffinity.required"},
	{"pod_anti_affinity_preferred", "extraPodAntiAffinity.preferred"},
	{"lifecycle_hooks", "lifecycleHooks"},
	{"init_containers", "initContainers"},
	{"extra_containers", "extraContainers"},
	{"mem_limit", "memory.limit"},
	{"mem_guarantee", "memory.guarantee"},
	{"cpu_limit", "cpu.limit"},
	{"cpu_guarantee", "cpu.guarantee"},
	{"extra_resource_limits", "extraResource.limits"},
	{"extra_resource_guarantees", "extraResource.guarantees"},
	{"environment", "extraEnv"},
	{"extra_pod_config", "extraPodConfig"},
	{"default_url", "defaultUrl"},
	{"cmd", "cmd"},
}

// mappings are the settings that are mappings where nothing is set, so that an
// override is merged into them.
var mappings = []string{
	"environment", "node_selector", "extra_labels", "extra_annotations", "extra_resource_limits", "extra_resource_guarantees",
	"extra_pod_config", "extra_container_config", "lifecycle_hooks", "storage_extra_labels", "storage_extra_annotations",
	"storage_selector", "volumes", "volume_mounts",
}

// baseKeys are the keys of the section singleuser that are read.
var baseKeys = func() map[string]bool { //nolint:gochecknoglobals // a table
	out := map[string]bool{"image": true, "profileList": true, "extraTolerations": true, "storage": true, "scheduling": true}
	for _, s := range baseSettings {
		first, _, _ := strings.Cut(s.path, ".")
		out[first] = true
	}
	return out
}()

// hubOnly are keys of the section that only a hub or its chart uses, and what is
// so without them.
var hubOnly = map[string]string{
	"networkTools":    "it is for the container that blocks the metadata server",
	"cloudMetadata":   "no privileged init container is added; block 169.254.169.254 with a NetworkPolicy",
	"networkPolicy":   "the policies of the namespace hold",
	"events":          "`berth notebook create` shows what happens in any case",
	"podNameTemplate": "the pod has the name of the Notebook with -0",
	"extraFiles":      "the chart keeps them in a Secret of its release; mount a ConfigMap with storage.extraVolumes",
}

// settingsOf turns the section singleuser into kubespawner's settings, as the
// chart does.
func settingsOf(raw encoding.RawMessage) (*core.Settings, error) {
	base := map[string]any{}
	if err := core.Update(base, chartValues); err != nil { // a copy
		return nil, fmt.Errorf("the chart's own values: %w", err)
	}
	given, err := object(raw)
	if err != nil {
		return nil, fmt.Errorf("spec.base: %w", err)
	}
	if err := core.Update(base, given); err != nil {
		return nil, fmt.Errorf("singleuser.%w", err)
	}
	s := &core.Settings{Values: map[string]any{}, From: map[string]string{}}
	put := func(setting, path string, value any) {
		if first, _, _ := strings.Cut(path, "."); !chartKeys[first] {
			path = strings.TrimSuffix("singleuser."+path, ".")
		}
		s.Values[setting], s.From[setting] = value, path
	}
	for _, setting := range mappings {
		put(setting, "", map[string]any{})
	}
	for _, each := range baseSettings {
		if value := at(base, each.path); value != nil {
			put(each.setting, each.path, value)
		} else if present(given, each.path) {
			s.From[each.setting] = "singleuser." + each.path
		}
	}
	if err := image(base, given, put); err != nil {
		return nil, err
	}
	pullSecrets(base, put)
	if files, ok := at(base, "extraFiles").(map[string]any); ok {
		put("extra_files", "extraFiles", files)
	}
	common, _ := at(base, "scheduling.userPods.tolerations").([]any)
	own, _ := at(base, "extraTolerations").([]any)
	put("tolerations", "extraTolerations", append(append([]any{}, common...), own...))
	if err := purpose(s, at(base, "scheduling.userPods.nodeAffinity.matchNodePurpose")); err != nil {
		return nil, err
	}
	if age := at(base, "cull.maxAge"); age != nil && at(base, "cull.enabled") != false {
		put("max_age", "cull.maxAge", age)
	}
	if err := storage(base, put); err != nil {
		return nil, err
	}
	return s, hubConfig(base, s)
}

// image puts the image together. A name without a tag is not given the tag of the
// chart's own image, which it would have in a hub and which names another image.
func image(base, given map[string]any, put func(setting, path string, value any)) error {
	name, _ := at(base, "image.name").(string)
	if name == "" {
		return nil
	}
	put("image", "image.name", name)
	tag := at(base, "image.tag")
	if at(given, "image.name") != nil && at(given, "image.tag") == nil {
		tag = nil
	}
	switch tag := tag.(type) {
	case nil:
	case string:
		if tag != "" {
			put("image", "image.tag", name+":"+tag)
		}
	default:
		return &core.KeyError{Key: "singleuser.image.tag", Err: fmt.Errorf("%v is read as a number, which loses zeros; write the tag in quotes", tag)}
	}
	return nil
}

// pullSecrets joins the chart's three ways to give a Secret for pulling images: one
// that it makes, those of all its pods, and those of users' pods.
func pullSecrets(base map[string]any, put func(setting, path string, value any)) {
	var all []any
	path := "image.pullSecrets"
	if at(base, "imagePullSecret.create") == true && at(base, "imagePullSecret.automaticReferenceInjection") == true {
		all, path = append(all, createdPullSecret), "imagePullSecret.create"
	}
	for _, from := range []string{"imagePullSecrets", "image.pullSecrets"} {
		switch list := at(base, from).(type) {
		case nil:
		case []any:
			all, path = append(all, list...), from
		default:
			put("image_pull_secrets", from, list) // refused where it is read
			return
		}
	}
	if len(all) > 0 {
		put("image_pull_secrets", path, all)
	}
}

// purpose prefers or requires nodes that are marked for users.
func purpose(s *core.Settings, match any) error {
	users := map[string]any{"matchExpressions": []any{
		map[string]any{"key": "hub.jupyter.org/node-purpose", "operator": "In", "values": []any{"user"}},
	}}
	var setting string
	var term any = users
	switch match {
	case nil, "ignore":
		return nil
	case "prefer":
		setting, term = "node_affinity_preferred", map[string]any{"weight": int64(100), "preference": users}
	case "require":
		setting = "node_affinity_required"
	default:
		return &core.KeyError{Key: "scheduling.userPods.nodeAffinity.matchNodePurpose", Err: fmt.Errorf("%v: it is prefer, require or ignore", match)}
	}
	if there, isList := s.Values[setting].([]any); isList || s.Values[setting] == nil {
		s.Values[setting] = append(append([]any{}, there...), term)
	}
	return nil
}

// storage makes the volumes and mounts of the section storage: the home volume
// first, then the extra ones. They are mappings, so that a profile can add to
// them, as in the chart.
func storage(base map[string]any, put func(setting, path string, value any)) error {
	volumes, mounts := map[string]any{}, map[string]any{}
	home := at(base, "storage.homeMountPath")
	add := func(name string, claim, subPath any) {
		volumes[name] = map[string]any{"name": name, "persistentVolumeClaim": map[string]any{"claimName": claim}}
		mount := map[string]any{"name": name, "mountPath": home}
		if subPath != nil {
			mount["subPath"] = subPath
		}
		mounts[name] = mount
	}
	switch kind := at(base, "storage.type"); kind {
	case "dynamic":
		name, ok := at(base, "storage.dynamic.volumeNameTemplate").(string)
		if !ok {
			return &core.KeyError{Key: "singleuser.storage.dynamic.volumeNameTemplate", Err: fmt.Errorf("it must be a text")}
		}
		add(name, "{pvc_name}", at(base, "storage.dynamic.subPath"))
		put("storage_pvc", "storage.type", true)
	case "static":
		if at(base, "storage.static.pvcName") == nil {
			return &core.KeyError{Key: "singleuser.storage.static.pvcName", Err: fmt.Errorf("storage of type static needs the name of a claim")}
		}
		add("home", at(base, "storage.static.pvcName"), at(base, "storage.static.subPath"))
	case nil, "none":
	default:
		return &core.KeyError{Key: "singleuser.storage.type", Err: fmt.Errorf("%v: it is dynamic, static or none", kind)}
	}
	if err := extra(base, "extraVolumes", volumes, func(_ int, name string) string { return name }); err != nil {
		return err
	}
	if err := extra(base, "extraVolumeMounts", mounts, func(i int, name string) string { return fmt.Sprintf("%d-%s", i, name) }); err != nil {
		return err
	}
	put("volumes", "storage.extraVolumes", volumes)
	put("volume_mounts", "storage.extraVolumeMounts", mounts)
	return nil
}

// extra adds the extra volumes or mounts, a list or a mapping, to out. key names
// one of a list.
func extra(base map[string]any, name string, out map[string]any, key func(i int, name string) string) error {
	wrong := func(why string) error {
		return &core.KeyError{Key: "singleuser.storage." + name, Err: fmt.Errorf("%s", why)}
	}
	switch list := at(base, "storage."+name).(type) {
	case nil:
	case map[string]any:
		maps.Copy(out, list)
	case []any:
		for i, v := range list {
			each, _ := v.(map[string]any)
			title, ok := each["name"].(string)
			if !ok {
				return wrong(fmt.Sprintf("entry %d has no name", i))
			}
			out[key(i, title)] = v
		}
	default:
		return wrong("it must be a list or a mapping")
	}
	return nil
}

// present reports whether there is a value at a path, null or not.
func present(v map[string]any, path string) bool {
	parent, last := any(v), path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent, last = at(v, path[:i]), path[i+1:]
	}
	m, _ := parent.(map[string]any)
	_, is := m[last]
	return is
}

// at returns the value at a path of keys with dots between them, or nil.
func at(v any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}
