package profile

import (
	"bytes"
	encoding "encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	core "berth.dev/berth/core/profile"
)

// maker makes the pod of one notebook from kubespawner's settings.
type maker struct {
	set         *core.Settings
	names       names
	user        string
	claims      []string // that are there
	pod         corev1.PodSpec
	main        corev1.Container
	env         map[string]string // what kubespawner sets, under the profile's own
	labels      map[string]string
	annotations map[string]string
	token       string // how the server takes a token of Berth's; "" is not at all
	warnings    []Warning
}

func newMaker(base encoding.RawMessage, c Choices) (*maker, error) {
	set, err := settingsOf(base)
	if err != nil {
		return nil, err
	}
	n, err := newNames(c, set.Values["slug_scheme"])
	return &maker{set: set, names: n, user: c.User, claims: c.Claims, env: map[string]string{}}, err
}

// make makes all but the claim. Settings are read in a fixed order, so that of
// several faults the same one is named each time.
func (m *maker) make() error {
	steps := []func() error{
		m.refused, m.claimName, m.container, m.resources, m.command, m.environment, m.security, m.volumes, m.placing, m.containers, m.metadata,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if err := replace(m, "extra_container_config", 0, &m.main); err != nil {
		return err
	}
	m.pod.Containers = append([]corev1.Container{m.main}, m.pod.Containers...)
	if err := replace(m, "extra_pod_config", expandTexts, &m.pod); err != nil {
		return err
	}
	m.gpuWarnings()
	return nil
}

// fail names the place where a setting was set last, and what is wrong there.
func (m *maker) fail(setting, format string, args ...any) error {
	return &core.KeyError{Key: m.from(setting), Err: fmt.Errorf(format, args...)}
}

// failIn is fail for one key of a setting that is a mapping.
func (m *maker) failIn(setting, key, format string, args ...any) error {
	return &core.KeyError{Key: m.from(setting) + "." + key, Err: fmt.Errorf(format, args...)}
}

// from is the place where a setting was set last, or its name.
func (m *maker) from(setting string) string {
	if key := m.set.From[setting]; key != "" {
		return key
	}
	return setting
}

// warn warns of a setting, or of one key of it where key is not "".
func (m *maker) warn(code string, level Level, setting, key, format string, args ...any) {
	m.warnings = append(m.warnings, Warning{
		Key: setting, Text: fmt.Sprintf(format, args...), code: code, level: level, at: strings.TrimSuffix(m.from(setting)+"."+key, "."),
	})
}

// refused refuses settings that cannot be had.
func (m *maker) refused() error {
	for _, setting := range []string{"namespace", "user_namespace_template", "enable_user_namespaces"} {
		if m.set.Values[setting] != nil {
			return m.fail(setting, "a notebook stays in its user's namespace; take this out, and give -n to `berth notebook create`")
		}
	}
	return nil
}

// text returns a setting that is a text; "" is none.
func (m *maker) text(setting string) (string, error) {
	switch v := m.set.Values[setting].(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	default:
		return "", m.fail(setting, "%v must be a text; write it in quotes", v)
	}
}

// how is how a setting is read.
type how uint8

const (
	// expandTexts expands places such as {username} in texts. Kubespawner does so
	// in some settings and not in others.
	expandTexts how = 1 << iota
	// objects have fields that may be in snake_case, as in the Python client.
	objects
)

// into reads a setting into out, over what is there. Unknown fields are refused.
// A setting that is not there leaves out as it is.
func (m *maker) into(setting string, h how, out any) error {
	v := m.set.Values[setting]
	if v == nil {
		return nil
	}
	return m.decode(setting, v, h, out)
}

// decode reads v, a value of a setting, into out.
func (m *maker) decode(setting string, v any, h how, out any) error {
	if h&expandTexts != 0 {
		var err error
		if v, err = m.names.expandAll(v); err != nil {
			return m.fail(setting, "%w", err)
		}
	}
	if h&objects != 0 {
		v = camel(v)
	}
	raw, err := encoding.Marshal(v)
	if err != nil {
		return m.fail(setting, "%w", err)
	}
	d := encoding.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(out); err != nil {
		return m.fail(setting, "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// replace reads a setting whose fields replace those of out, each as a whole.
func replace[T any](m *maker, setting string, h how, out *T) error {
	changes, isMap := m.set.Values[setting].(map[string]any)
	switch {
	case m.set.Values[setting] == nil || isMap && len(changes) == 0:
		return nil
	case !isMap:
		return m.fail(setting, "it must be a mapping")
	}
	var fresh T
	if err := m.into(setting, h|objects, &fresh); err != nil {
		return err
	}
	given, _ := camel(changes).(map[string]any)
	from, to := reflect.ValueOf(&fresh).Elem(), reflect.ValueOf(out).Elem()
	for i := range to.NumField() {
		name, _, _ := strings.Cut(to.Type().Field(i).Tag.Get("json"), ",")
		for key := range given {
			if strings.EqualFold(key, name) { // as encoding/json matches them
				to.Field(i).Set(from.Field(i))
			}
		}
	}
	return nil
}

// list is into for a setting that is a list of objects, or a mapping whose values
// are the list, by key.
func (m *maker) list(setting string, h how, out any) error {
	switch v := m.set.Values[setting].(type) {
	case nil:
		return nil
	case []any:
	case map[string]any:
		var values []any
		for _, key := range slices.Sorted(maps.Keys(v)) {
			values = append(values, v[key])
		}
		m.set.Values[setting] = values
		if values == nil {
			return nil
		}
	default:
		return m.fail(setting, "%v must be a list or a mapping", v)
	}
	return m.into(setting, h|objects, out)
}

// camel writes the keys of an object, or of the objects of a list, in camelCase.
func camel(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = v[i]
			if object, ok := v[i].(map[string]any); ok {
				out[i] = camel(object)
			}
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, each := range v {
			first, rest, snake := strings.Cut(key, "_")
			for snake {
				var word string
				word, rest, snake = strings.Cut(rest, "_")
				first += strings.ToUpper(word[:min(1, len(word))]) + word[min(1, len(word)):]
			}
			out[first] = each
		}
		return out
	}
	return v
}

// number returns a setting that is a number.
func (m *maker) number(setting string) (float64, bool, error) {
	switch v := m.set.Values[setting].(type) {
	case nil:
		return 0, false, nil
	case int64:
		return float64(v), true, nil
	case float64:
		return v, true, nil
	default:
		return 0, false, m.fail(setting, "%v must be a number, without quotes", v)
	}
}

// whole returns a setting that is a whole number from 0, or nil.
func (m *maker) whole(setting string) (*int64, error) {
	n, ok, err := m.number(setting)
	if err != nil || !ok {
		return nil, err
	}
	id := int64(n)
	if n < 0 || n != float64(id) {
		return nil, m.fail(setting, "%v must be a whole number from 0", n)
	}
	return &id, nil
}

// metadata makes the labels and annotations of the Notebook, which its pod gets.
func (m *maker) metadata() error {
	m.labels = map[string]string{api.AnnotationHubUser: safeSlug(m.user, 0, labelValue)}
	m.annotations = map[string]string{api.AnnotationHubUser: m.user}
	if m.token != "" {
		m.annotations[api.AnnotationNotebookToken] = m.token
	}
	session, err := m.maxSession()
	if err != nil {
		return err
	}
	if session != "" {
		m.annotations[api.AnnotationMaxSession] = session
	}
	if err := m.into("extra_labels", expandTexts, &m.labels); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(m.labels)) {
		if value := m.labels[key]; !labelValue(value) {
			return m.fail("extra_labels", "%s: %q cannot be the value of a label", key, value)
		}
	}
	return m.into("extra_annotations", expandTexts, &m.annotations)
}
