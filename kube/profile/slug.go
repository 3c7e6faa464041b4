package profile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The slugs of user names are those of kubespawner, by which the volumes of a hub's
// users are named. Source: kubespawner 7.1, kubespawner/slugs.py, and
// _expand_user_properties in kubespawner/spawner.py.

// longestSlug bounds a user's name within other names, and hashLength is how much of
// the SHA-256 of a name is in its slug, in hexadecimal digits.
const (
	longestSlug = 48
	hashLength  = 8
)

// notebookName returns the name of a user's Notebook: that of kubespawner's pod, or if
// this is too long, with as much of the user's name as LongestName leaves beside the hash.
func notebookName(user string, scheme any) string {
	const prefix = "jupyter-"
	slug := userServerSlug(user)
	if scheme == schemeEscape {
		slug = escapeSlug(user)
	}
	if len(prefix+slug) > LongestName {
		slug = hashed(user, LongestName-len(prefix))
	}
	return prefix + slug
}

// userServerSlug returns the slug of a user's only server, whose name is empty. For a
// long name it differs from the slug of the user, by an x for the server's name.
func userServerSlug(user string) string {
	const each = (longestSlug-hashLength-1)/2 - 2
	slug := safeSlug(user, longestSlug, plainLabel)
	if len(slug)+2 <= longestSlug {
		return slug
	}
	return part(user, each) + "--" + part("", each) + "---" + sum(user+"\xff")
}

// safeSlug returns name where it is fit, and else what is left of it with a hash:
// kubespawner's scheme "safe". most bounds it; 0 is 32 for what is not fit.
func safeSlug(name string, most int, fit func(string) bool) string {
	if !strings.Contains(name, "--") && fit(name) && (most == 0 || len(name) <= most) {
		return name
	}
	return hashed(name, cmp.Or(most, 32))
}

// hashed returns what is left of name beside its hash, in at most that many letters.
func hashed(name string, most int) string { return part(name, most-hashLength-3) + "---" + sum(name) }

// sum returns the digits of a hash that a slug has.
func sum(text string) string {
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:])[:hashLength]
}

// part is what can be kept of a name: lower case letters, digits and single dashes,
// a letter first.
func part(name string, most int) string {
	var b strings.Builder
	// Python writes İ in lower case as two characters: i, and a dot above.
	for _, r := range strings.ToLower(strings.ReplaceAll(name, "İ", "i\u0307")) {
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
