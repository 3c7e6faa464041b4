package profile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	core "berth.dev/berth/core/profile"
)

// longestSlug bounds a user's name within other names.
const longestSlug = 48

// names are what a user's notebook is called, and the values of the places
// {username} and so on in volumes and elsewhere.
type names struct {
	notebook string
	claim    string
	values   map[string]string
}

// newNames returns the names of a user's notebook. A user has one server: its name
// is "" for JupyterHub.
func newNames(c Choices) (names, error) {
	safe, escaped := safeSlug(c.User, longestSlug, plainLabel), escapeSlug(c.User)
	n := names{notebook: cmp.Or(c.Name, strings.TrimRight(fmt.Sprintf("%.*s", LongestName, "jupyter-"+safe), "-"))}
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
		"username": safe, "user_server": safe, "safe_username": safe, "safe_user_server": safe,
		"escaped_username": escaped, "escaped_user_server": escaped + "--",
		"servername": "", "safe_servername": "", "escaped_servername": "", "unescaped_servername": "",
		"unescaped_username": c.User, "hubnamespace": hub, "namespace": c.Namespace, "pod_name": n.notebook + "-0",
	}
	return n, nil
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

// safeSlug returns name where it is fit, and else what is left of it with a hash:
// kubespawner's scheme "safe". most bounds it; 0 is 32 for what is not fit.
func safeSlug(name string, most int, fit func(string) bool) string {
	if !strings.Contains(name, "--") && fit(name) && (most == 0 || len(name) <= most) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return part(name, cmp.Or(most, 32)-11) + "---" + hex.EncodeToString(sum[:])[:8]
}

// part is what can be kept of a name: lower case letters, digits and single dashes,
// a letter first.
func part(name string, most int) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	s := strings.TrimLeft(b.String(), "-")
	s = strings.TrimRight(s[:min(most, len(s))], "-")
	if s != "" && (s[0] < 'a' || s[0] > 'z') {
		s = "x-" + s[:min(most-2, len(s))]
	}
	return cmp.Or(s, "x")
}

// plainLabel reports whether a name may be a DNS label by both RFCs.
func plainLabel(s string) bool { return len(validation.IsDNS1035Label(s)) == 0 }

// labelValue reports whether a text may be the value of a label.
func labelValue(s string) bool { return len(validation.IsValidLabelValue(s)) == 0 }

// escapeSlug writes each byte that is no lower case letter or digit as '-' and its
// number: kubespawner's older scheme, by which existing claims may be named.
func escapeSlug(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "-%x", c)
		}
	}
	return b.String()
}
