package profile

import "strings"

// Allowed returns the profiles that a member of groups may use, each with only the
// choices and values of their own that they may use. What is not allowed is not
// there, so that nothing else need ask again. The profiles given are not changed.
//
// Source: the behavior of allowed_groups in 2i2c's basehub, where the case of
// group names does not count.
func Allowed(list []Profile, groups []string) []Profile {
	var out []Profile
	for _, p := range list {
		if !admits(p.Groups, groups) {
			continue
		}
		options := make([]Option, len(p.Options))
		for i, o := range p.Options {
			var choices []Choice
			for _, c := range o.Choices {
				if admits(c.Groups, groups) {
					choices = append(choices, c)
				}
			}
			o.Choices = choices
			if o.Unlisted != nil && !admits(o.Unlisted.Groups, groups) {
				o.Unlisted = nil
			}
			options[i] = o
		}
		p.Options = options
		out = append(out, p)
	}
	return out
}

// admits reports whether one of groups is allowed; nil allows everybody.
func admits(allowed, groups []string) bool {
	if allowed == nil {
		return true
	}
	for _, a := range allowed {
		for _, g := range groups {
			if strings.EqualFold(a, g) {
				return true
			}
		}
	}
	return false
}
