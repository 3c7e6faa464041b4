package profile

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/api/v1alpha1"
	core "berth.dev/berth/core/profile"
)

// What keys stand in, for messages.
const (
	aProfile   = "a profile"
	anOption   = "an option"
	aChoice    = "a choice"
	anUnlisted = "unlisted_choice"
	anOverride = "kubespawner_override"
)

// one reads the keys of one mapping of a profile.
type one struct {
	r     *reader
	lines map[string]int // of the profile's keys
	path  string         // of the mapping, from the profile
	what  string         // for messages
	extra map[string]any // keys that nothing reads
}

// each calls read for each key of a mapping. A key that read does not know is kept
// and noted.
func (o *one) each(n *yaml.Node, read func(p pair, path string) (known bool, err error)) error {
	list, err := o.r.pairs(n, o.path)
	if err != nil {
		return err
	}
	for _, p := range list {
		path := join(o.path, p.key)
		o.lines[path] = p.at.Line
		known, err := read(p, path)
		if err != nil {
			return err
		}
		if known {
			continue
		}
		o.r.mention(o.what, p.key, p.at.Line)
		if o.extra == nil {
			o.extra = map[string]any{}
		}
		if o.extra[p.key], err = o.r.value(p.value, path, o.lines); err != nil {
			return err
		}
	}
	return nil
}

// rest returns the keys that nothing reads, as JSON; none is nil.
func (o *one) rest() (json.RawMessage, error) {
	if len(o.extra) == 0 {
		return nil, nil
	}
	return json.Marshal(o.extra)
}

// in is for the mapping at path in the same profile.
func (o *one) in(path, what string) *one { return &one{r: o.r, lines: o.lines, path: path, what: what} }

// text reads a text; null is "".
func (o *one) text(p pair, path string, to *string) (bool, error) {
	v, err := o.r.value(p.value, path, o.lines)
	switch v := v.(type) {
	case nil:
	case string:
		*to = v
	default:
		return true, wrongAt(p.value, path, "%v must be a text; write it in quotes", v)
	}
	return true, err
}

// flag reads true or false; null is false.
func (o *one) flag(p pair, path string, to *bool) (bool, error) {
	v, err := o.r.value(p.value, path, o.lines)
	switch v := v.(type) {
	case nil:
	case bool:
		*to = v
	default:
		return true, wrongAt(p.value, path, "%v must be true or false", v)
	}
	return true, err
}

// groups reads a list of texts. An empty one means no user, so it is not nil.
func (o *one) groups(p pair, path string, to *[]string) (bool, error) {
	v, err := o.r.value(p.value, path, o.lines)
	if err != nil {
		return true, err
	}
	list, ok := v.([]any)
	if !ok {
		return true, wrongAt(p.value, path, "it must be a list of groups; leave it out to allow everybody")
	}
	*to = make([]string, 0, len(list))
	for _, each := range list {
		group, ok := each.(string)
		if !ok {
			return true, wrongAt(p.value, path, "%v must be a text; write it in quotes", each)
		}
		*to = append(*to, group)
	}
	return true, nil
}

// override reads kubespawner_override and notes settings that nothing reads.
func (o *one) override(p pair, path string, to *json.RawMessage) (bool, error) {
	v, err := o.r.value(p.value, path, o.lines)
	if err != nil || v == nil {
		return true, err
	}
	all, ok := v.(map[string]any)
	if !ok {
		return true, wrongAt(p.value, path, "it must be a mapping of settings")
	}
	for key := range all {
		if !settings[key] {
			o.r.mention(anOverride, key, o.lines[join(path, key)])
		}
	}
	*to, err = json.Marshal(all)
	return true, err
}

// profile reads entry i of the list.
func (r *reader) profile(n *yaml.Node, i int) (*Loaded, error) {
	l := &Loaded{Index: i, line: n.Line, lines: map[string]int{}}
	l.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindNotebookProfile}
	s := &l.Spec
	of, line := r.file.of.at(n.Line)
	s.Order, s.Source = int32(i), fmt.Sprintf("%s:%d", filepath.Base(of.name), line)
	o := &one{r: r, lines: l.lines, what: aProfile}
	err := o.each(n, func(p pair, path string) (bool, error) {
		switch p.key {
		case "display_name":
			return o.text(p, path, &s.DisplayName)
		case "slug":
			return o.text(p, path, &s.Slug)
		case "description":
			return o.text(p, path, &s.Description)
		case "default":
			return o.flag(p, path, &s.Default)
		case "allowed_groups":
			return o.groups(p, path, &s.AllowedGroups)
		case "kubespawner_override":
			return o.override(p, path, &s.Override)
		case "profile_options":
			return true, o.options(p, path, &s.Options)
		}
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	if s.Extra, err = o.rest(); err != nil {
		return nil, err
	}
	if s.DisplayName == "" {
		return nil, wrongAt(n, "display_name", "a profile needs a display_name")
	}
	if s.Slug == "" {
		if s.Slug, err = core.Slugify(s.DisplayName); err != nil {
			return nil, wrongAt(n, "display_name", "%v", err)
		}
	}
	l.Name = safeSlug(s.Slug, 63, func(s string) bool { return len(validation.IsDNS1123Label(s)) == 0 })
	return l, nil
}

// entries calls read for each entry of a mapping of names, with what reads its keys:
// what says what the entries are. Null is no entries.
func (o *one) entries(p pair, path, what string, read func(each pair, in *one) error) error {
	if target(p.value).ShortTag() == "!!null" {
		return nil
	}
	list, err := o.r.pairs(p.value, path)
	if err != nil {
		return err
	}
	for _, each := range list {
		at := join(path, each.key)
		o.lines[at] = each.at.Line
		if err := read(each, o.in(at, what)); err != nil {
			return err
		}
	}
	return nil
}

// options reads profile_options.
func (o *one) options(p pair, path string, to *[]v1alpha1.ProfileOption) error {
	return o.entries(p, path, anOption, func(each pair, in *one) error {
		option := v1alpha1.ProfileOption{Key: each.key}
		err := in.each(each.value, func(p pair, path string) (bool, error) {
			switch p.key {
			case "display_name":
				return in.text(p, path, &option.DisplayName)
			case "choices":
				return true, in.choices(p, path, &option.Choices)
			case "unlisted_choice":
				return true, in.unlisted(p, path, &option.UnlistedChoice)
			}
			return false, nil
		})
		if err != nil {
			return err
		}
		if option.Extra, err = in.rest(); err != nil {
			return err
		}
		if len(option.Choices) == 0 && (option.UnlistedChoice == nil || !option.UnlistedChoice.Enabled) {
			return wrongAt(each.at, in.path, "the option has no choices and no unlisted_choice that is enabled")
		}
		*to = append(*to, option)
		return nil
	})
}

// choices reads the choices of an option.
func (o *one) choices(p pair, path string, to *[]v1alpha1.ProfileChoice) error {
	return o.entries(p, path, aChoice, func(each pair, in *one) error {
		c := v1alpha1.ProfileChoice{Key: each.key}
		err := in.each(each.value, func(p pair, path string) (bool, error) {
			switch p.key {
			case "display_name":
				return in.text(p, path, &c.DisplayName)
			case "description":
				return in.text(p, path, &c.Description)
			case "default":
				return in.flag(p, path, &c.Default)
			case "allowed_groups":
				return in.groups(p, path, &c.AllowedGroups)
			case "kubespawner_override":
				return in.override(p, path, &c.Override)
			}
			return false, nil
		})
		if err != nil {
			return err
		}
		if c.Extra, err = in.rest(); err != nil {
			return err
		}
		*to = append(*to, c)
		return nil
	})
}

// unlisted reads unlisted_choice.
func (o *one) unlisted(p pair, path string, to **v1alpha1.UnlistedChoice) error {
	if target(p.value).ShortTag() == "!!null" {
		return nil
	}
	u := &v1alpha1.UnlistedChoice{}
	in := o.in(path, anUnlisted)
	err := in.each(p.value, func(p pair, path string) (bool, error) {
		switch p.key {
		case "enabled":
			return in.flag(p, path, &u.Enabled)
		case "display_name":
			return in.text(p, path, &u.DisplayName)
		case "display_name_in_choices":
			return in.text(p, path, &u.DisplayNameInChoices)
		case "description_in_choices":
			return in.text(p, path, &u.DescriptionInChoices)
		case "validation_regex":
			return in.text(p, path, &u.ValidationRegex)
		case "validation_message":
			return in.text(p, path, &u.ValidationMessage)
		case "allowed_groups":
			return in.groups(p, path, &u.AllowedGroups)
		case "kubespawner_override":
			return in.override(p, path, &u.Override)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	u.Extra, err = in.rest()
	*to = u
	return err
}

// names takes out profiles whose slug another has.
func (r *reader) names() {
	first := map[string]int{}
	var kept []Loaded
	for _, l := range r.file.Profiles {
		if line, taken := first[l.Spec.Slug]; taken {
			r.find(Finding{
				Line: l.line, Profile: l.Spec.DisplayName, Key: r.file.key(l.line, l.Index, ""), Code: CodeSameSlug, Level: Wrong,
				Text: fmt.Sprintf("its slug %q is that of the profile on line %d, which JupyterHub would start instead; give it a slug of its own", l.Spec.Slug, r.file.of.own(line)),
			})
			continue
		}
		first[l.Spec.Slug] = l.line
		kept = append(kept, l)
	}
	r.file.Profiles = kept
}
