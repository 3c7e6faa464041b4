package profile

import (
	encoding "encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/json"

	"berth.dev/berth/api/v1alpha1"
	core "berth.dev/berth/core/profile"
)

// plainOf returns a profile as plain values.
func plainOf(p *v1alpha1.NotebookProfile) (core.Profile, error) {
	s := &p.Spec
	out := core.Profile{Slug: slugOf(p), Name: s.DisplayName, Default: s.Default, Groups: s.AllowedGroups}
	var err error
	if out.Override, err = object(s.Override); err != nil {
		return out, fmt.Errorf("profile %s: spec.override: %w", out.Slug, err)
	}
	for i := range s.Options {
		o, err := plainOption(&s.Options[i])
		if err != nil {
			return out, fmt.Errorf("profile %s: spec.options: %s: %w", out.Slug, s.Options[i].Key, err)
		}
		out.Options = append(out.Options, o)
	}
	return out, nil
}

// plainOption returns an option as plain values.
func plainOption(o *v1alpha1.ProfileOption) (core.Option, error) {
	out := core.Option{Key: o.Key}
	for i := range o.Choices {
		c := &o.Choices[i]
		override, err := object(c.Override)
		if err != nil {
			return out, fmt.Errorf("choice %s: %w", c.Key, err)
		}
		out.Choices = append(out.Choices, core.Choice{Key: c.Key, Default: c.Default, Groups: c.AllowedGroups, Override: override})
	}
	u := o.UnlistedChoice
	if u == nil {
		return out, nil
	}
	override, err := object(u.Override)
	if err != nil {
		return out, fmt.Errorf("unlistedChoice: %w", err)
	}
	out.Unlisted = &core.Unlisted{
		Enabled: u.Enabled, Groups: u.AllowedGroups, Regex: u.ValidationRegex, Message: u.ValidationMessage, Override: override,
	}
	return out, nil
}

// object reads a JSON object, whole numbers kept whole. None is an empty one.
func object(raw encoding.RawMessage) (map[string]any, error) {
	out := map[string]any{}
	if len(raw) == 0 {
		return out, nil
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("read a JSON object: %w", err)
	}
	if out == nil {
		out = map[string]any{}
	}
	return out, nil
}
