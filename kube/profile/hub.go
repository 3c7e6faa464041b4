package profile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	core "berth.dev/berth/core/profile"
)

// hubClasses are the classes of hub.config whose settings a user's pod depends on, the
// least first: what is set for KubeSpawner counts before what is set for Spawner.
var hubClasses = []string{"Spawner", "KubeSpawner"}

// ofSpawner are the settings that the chart sets for Spawner, and not for KubeSpawner.
var ofSpawner = map[string]bool{"cmd": true, "default_url": true}

// Schemes by which kubespawner makes slugs of names.
const (
	schemeSafe   = "safe"
	schemeEscape = "escape"
)

// hubConfig sets what hub.config of the chart sets of kubespawner. Each replaces what
// the section singleuser says, as the chart reads it last; null sets nothing.
func hubConfig(base map[string]any, s *core.Settings) error {
	set := map[string]bool{} // by the chart, for KubeSpawner
	for _, each := range baseSettings {
		set[each.setting] = !ofSpawner[each.setting] && (at(base, each.path) != nil || slices.Contains(mappings, each.setting))
	}
	for _, class := range hubClasses {
		values, _ := at(base, "hub.config."+class).(map[string]any)
		for _, setting := range slices.Sorted(maps.Keys(values)) {
			value := values[setting]
			known := settings[setting] || setting == "slug_scheme"
			if value == nil || !known || class == "Spawner" && set[setting] {
				continue
			}
			path := "hub.config." + class + "." + setting
			if setting == "working_dir" {
				setting = workingDirOfHub
			}
			s.Values[setting], s.From[setting] = value, path
		}
	}
	switch scheme := s.Values["slug_scheme"]; scheme {
	case nil, schemeSafe, schemeEscape:
	default:
		return &core.KeyError{Key: s.From["slug_scheme"], Err: fmt.Errorf("%v: it is safe or escape", scheme)}
	}
	return nil
}

// workingDirOfHub is a working_dir of hub.config, in which places such as {username}
// are expanded. In that of a profile they are not.
const workingDirOfHub = "working_dir of hub.config"

// readByHub notes what of the chart's sections hub and cull has no effect.
func (r *reader) readByHub(values []pair) error {
	for _, class := range hubClasses {
		list, err := r.below(values, "hub.config."+class)
		if err != nil {
			return err
		}
		for _, p := range list {
			if !settings[p.key] && p.key != "slug_scheme" {
				r.mention("hub.config."+class, p.key, p.at.Line)
			}
		}
	}
	for _, each := range []struct {
		path string
		keys []string // that do not count
		why  string
	}{
		{"hub.extraConfig", nil, "Python code, and profiles are data; if it changes users' pods, write that into the profiles"},
		{"hub.config.DummyAuthenticator", nil, "users are those of the cluster (docs/users.md); in the hub, everyone with this password can be any user, also an administrator"},
		{"cull", []string{"enabled", "maxAge"}, "a hub stops idle servers by it; notebooks are stopped by the annotation berth.dev/notebook-idle-after"},
		{"scheduling.podPriority", nil, "its PriorityClass is the chart's; set priority_class_name in a profile"},
	} {
		list, err := r.below(values, each.path)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(p pair) bool { return slices.Contains(each.keys, p.key) })
		off := slices.ContainsFunc(list, func(p pair) bool { return p.key == "enabled" && target(p.value).Value == "false" })
		if len(list) > 0 && !off {
			line := list[0].at.Line
			r.find(Finding{Line: line, Key: r.file.key(line, 0, each.path), Code: CodeUnused, Level: Remark, Text: "not used: " + each.why})
		}
	}
	return nil
}

// below returns the entries of a mapping of the chart's values; nil where there is none.
func (r *reader) below(values []pair, path string) ([]pair, error) {
	first, rest, _ := strings.Cut(path, ".")
	n := entry(values, first)
	for rest != "" && n != nil && isSet(n) {
		var key string
		key, rest, _ = strings.Cut(rest, ".")
		if target(n).Kind != yaml.MappingNode {
			return nil, nil
		}
		var err error
		if n, err = r.field(n, first, key); err != nil {
			return nil, err
		}
	}
	if n == nil || target(n).Kind != yaml.MappingNode {
		return nil, nil
	}
	return r.pairs(n, path)
}

// maxSession returns how long a hub lets a server run (cull.maxAge), as the value of
// api.AnnotationMaxSession; "" is without limit.
func (m *maker) maxSession() (string, error) {
	age, ok, err := m.number("max_age")
	if err != nil || !ok || age == 0 {
		return "", err
	}
	if age < 0 || age != float64(int64(age)) {
		return "", m.fail("max_age", "%v must be a whole number of seconds", age)
	}
	return fmt.Sprintf("%ds", int64(age)), nil
}
