package profile

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// driverCapabilities is the variable that tells NVIDIA's container toolkit what of
// the driver a container gets.
const driverCapabilities = "NVIDIA_DRIVER_CAPABILITIES"

// environment sets the variables: those that JupyterHub sets and that need no hub,
// and over them the profile's. A variable that refers to others by $(NAME) comes
// after them; else they are in the order of their names.
func (m *maker) environment() error {
	m.env["JUPYTERHUB_USER"] = m.user
	m.env["JUPYTER_IMAGE"], m.env["JUPYTER_IMAGE_SPEC"] = m.main.Image, m.main.Image
	vars := map[string]corev1.EnvVar{}
	for name, value := range m.env {
		vars[name] = corev1.EnvVar{Name: name, Value: value}
	}
	v := m.set.Values["environment"]
	list, ok := v.(map[string]any)
	if !ok && v != nil {
		return m.fail("environment", "it must be a mapping of names to values")
	}
	for _, key := range slices.Sorted(maps.Keys(list)) {
		e, err := m.variable(key, list[key])
		if err != nil {
			return err
		}
		vars[key] = e
	}
	m.main.Env = ordered(vars)
	return nil
}

// variable reads one variable: a text, or a mapping such as valueFrom.
func (m *maker) variable(key string, v any) (corev1.EnvVar, error) {
	e := corev1.EnvVar{Name: key}
	var err error
	switch v := v.(type) {
	case string:
		if e.Value, err = m.names.expand(v); err != nil {
			return e, m.failIn("environment", key, "%w", err)
		}
	case map[string]any:
		if err := m.decode("environment", v, expandTexts|objects, &e); err != nil {
			return e, err
		}
		e.Name = cmp.Or(e.Name, key)
	case int64:
		e.Value = strconv.FormatInt(v, 10)
	case float64:
		e.Value = strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		e.Value = strconv.FormatBool(v)
	default:
		return e, m.failIn("environment", key, "a list cannot be the value of a variable")
	}
	switch v.(type) {
	case int64, float64, bool:
		m.warn(CodeText, Doubt, "environment", key, "%s: %v is not a text; Kubernetes refuses it from JupyterHub, and here it is %q", key, v, e.Value)
	}
	return e, nil
}

// ordered puts variables in order: round by round those of which all that they
// refer to is there, by key; at last those that refer to one another or to what
// is not here.
func ordered(vars map[string]corev1.EnvVar) []corev1.EnvVar {
	out := make([]corev1.EnvVar, 0, len(vars))
	done := map[string]bool{}
	left := slices.Sorted(maps.Keys(vars))
	for len(left) > 0 {
		var ready, wait []string
		for _, key := range left {
			if e := vars[key]; resolved(&e, done) {
				ready = append(ready, key)
			} else {
				wait = append(wait, key)
			}
		}
		if len(ready) == 0 {
			ready, wait = wait, nil
		}
		for _, key := range ready {
			out = append(out, vars[key])
			done[vars[key].Name] = true
		}
		left = wait
	}
	return out
}

// resolved reports whether all that a variable refers to by $(NAME), save for itself,
// is done.
func resolved(e *corev1.EnvVar, done map[string]bool) bool {
	for rest := e.Value; ; {
		_, after, found := strings.Cut(rest, "$(")
		if !found {
			return true
		}
		name, tail, closed := strings.Cut(after, ")")
		if !closed {
			return true
		}
		if name != "" && name != e.Name && !done[name] {
			return false
		}
		rest = tail
	}
}

// capable reports whether the notebook's variables let CUDA reach a GPU, as far as
// they say anything, and what they say.
func (m *maker) capable() (string, bool) {
	for i := range m.pod.Containers[0].Env {
		e := &m.pod.Containers[0].Env[i]
		if e.Name != driverCapabilities || e.ValueFrom != nil {
			continue
		}
		for word := range strings.SplitSeq(e.Value, ",") {
			if word = strings.TrimSpace(word); word == "all" || word == "compute" {
				return e.Value, true
			}
		}
		return e.Value, e.Value == ""
	}
	return "", true
}
