package profile

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	core "berth.dev/berth/core/profile"
)

// names are what a user's notebook is called, and the values of the places
// {username} and so on in volumes and elsewhere.
type names struct {
	notebook string
	claim    string
	values   map[string]string
}

// newNames returns the names of a user's notebook, by a scheme of slugs; nil is the
// scheme safe. A user has one server: its name is "" for JupyterHub.
func newNames(c Choices, scheme any) (names, error) {
	safe, server, escaped := safeSlug(c.User, longestSlug, plainLabel), userServerSlug(c.User), escapeSlug(c.User)
	n := names{notebook: cmp.Or(c.Name, notebookName(c.User, scheme))}
	if why := validation.IsDNS1035Label(n.notebook); len(why) > 0 {
		return n, fmt.Errorf("notebook name %q: %s", n.notebook, why[0])
	}
	if len(n.notebook) > LongestName {
		return n, fmt.Errorf("notebook name %q has %d letters: at most %d, for the labels of its pod", n.notebook, len(n.notebook), LongestName)
	}
	hub := c.Namespace
	if hub == "default" {
		hub = "user"
	}
	n.values = map[string]string{
		"username": safe, "user_server": server, "safe_username": safe, "safe_user_server": server,
		"escaped_username": escaped, "escaped_user_server": escaped + "--",
		"servername": "", "safe_servername": "", "escaped_servername": "", "unescaped_servername": "",
		"unescaped_username": c.User, "hubnamespace": hub, "namespace": c.Namespace, "pod_name": n.notebook + "-0",
	}
	if scheme == schemeEscape {
		return *n.older(), nil
	}
	return n, nil
}

// older returns the same names by the scheme escape, which was kubespawner's only one
// before version 7.
func (n *names) older() *names {
	escaped := n.values["escaped_username"]
	values := maps.Clone(n.values)
	maps.Copy(values, map[string]string{"username": escaped, "user_server": escaped})
	return &names{notebook: n.notebook, values: values}
}

// expand puts the values into the places of a text. A '-' that this leaves at the
// end goes, as in kubespawner.
func (n *names) expand(text string) (string, error) {
	out, err := core.Format(text, func(name string) (string, bool) { v, ok := n.values[name]; return v, ok })
	if err == nil && !strings.HasSuffix(text, "-") {
		out = strings.TrimRight(out, "-")
	}
	return out, err
}

// expandAll is expand for all texts of v.
func (n *names) expandAll(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case string:
		return n.expand(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			if out[i], err = n.expandAll(v[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for key := range v {
			if out[key], err = n.expandAll(v[key]); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}
