package profile

import (
	"fmt"
	"maps"
	"slices"
)

// settings are kubespawner's settings that are read, and unusedSettings those that
// only a hub uses, with what is so without them.
var settings = func() map[string]bool { //nolint:gochecknoglobals // a table
	out := map[string]bool{}
	for _, s := range baseSettings {
		out[s.setting] = true
	}
	for _, s := range mappings {
		out[s] = true
	}
	for _, s := range []string{
		"image", "image_pull_secrets", "tolerations", "working_dir", "notebook_dir", "port", "args", "gid", "supplemental_gids", "privileged",
		"container_security_context", "pod_security_context", "automount_service_account_token", "priority_class_name",
		"scheduler_name", "namespace", "user_namespace_template", "enable_user_namespaces",
	} {
		out[s] = true
	}
	delete(out, "start_timeout")
	return out
}()

var unusedSettings = map[string]string{
	"start_timeout":          "a notebook is not given up while it waits for a GPU or a node",
	"http_timeout":           "readiness is Kubernetes' own",
	"storage_pvc_ensure":     "the claim of the home volume is made where there is none",
	"pod_name_template":      "the pod has the name of the Notebook with -0",
	"delete_grace_period":    "the pod's own terminationGracePeriodSeconds holds; set it with extra_pod_config",
	"pod_connect_ip":         "the Notebook's Service is there",
	"services_enabled":       "the Notebook's Service is there",
	"debug":                  "only a hub logs it",
	"disable_user_config":    "only a hub's server reads it",
	"events_enabled":         "`berth notebook create` shows what happens in any case",
	"modify_pod_hook":        "it is code, and profiles are data",
	"pre_spawn_hook":         "it is code, and profiles are data",
	"hub_connect_url":        "there is no hub",
	"component_label":        "the labels of a Notebook are Kubeflow's",
	"common_labels":          "use extra_labels",
	"profile_list":           "a profile has no profiles",
	"dynamic_image_building": "images are not built",
}

// mention is a key that nothing reads, and where it stands.
type mention struct {
	key, where string
	lines      []int
}

// mention notes a key that nothing reads. where is what it stands in.
func (r *reader) mention(where, key string, line int) {
	id := where + "\x00" + key
	if r.unknown[id] == nil {
		r.unknown[id] = &mention{key: key, where: where}
	}
	r.unknown[id].lines = append(r.unknown[id].lines, line)
}

// mentions makes one finding of each key that nothing reads.
func (r *reader) mentions() {
	for _, id := range slices.Sorted(maps.Keys(r.unknown)) {
		m := r.unknown[id]
		slices.Sort(m.lines)
		m.lines = slices.Compact(m.lines)
		f := Finding{
			Line: m.lines[0], Key: m.key, Code: CodeUnknownKey, Level: Remark,
			Text: "nothing reads this key in " + m.where + "; it is kept and has no effect",
		}
		switch why, known := unusedSettings[m.key]; {
		case m.where == aChoice && m.key == "slug":
			f.Code, f.Text = CodeIgnoredSlug, "a choice is known by its key, as in JupyterHub; its slug has no effect"
		case known:
			f.Code, f.Text = CodeUnused, "kept, not used: "+why
		case m.where == anOverride && m.key == "default":
			f.Text = "default belongs beside kubespawner_override, not in it; here it has no effect"
		}
		if n := len(m.lines); n > 1 {
			of, line := r.file.of.at(m.lines[n-1])
			last := fmt.Sprint(line)
			if first, _ := r.file.of.at(m.lines[0]); first != of {
				last = fmt.Sprintf("%s:%d", of.name, line)
			}
			f.Text += fmt.Sprintf(" (on %d lines, the last %s)", n, last)
		}
		r.find(f)
	}
}
