// Package profile decides what a JupyterHub profile gives: which profile and
// which choices a user gets, and how their overrides change the settings of a
// notebook, as kubespawner does. It works on plain values and knows no file, no
// Kubernetes and no meaning of a setting; package kube/profile does.
//
// Source: kubespawner's documentation of profile_list and its behavior
// (github.com/jupyterhub/kubespawner, 7.0 and later).
package profile

import (
	"fmt"
	"strings"
)

// Profile is one entry of a profileList.
type Profile struct {
	Slug     string // names it in choices; see Slugify
	Name     string // display_name
	Default  bool
	Groups   []string       // whose members may use it; nil is every user, empty is none
	Override map[string]any // kubespawner_override
	Options  []Option       // in the order of the file
}

// Option is something to choose in a profile.
type Option struct {
	Key      string
	Choices  []Choice  // in the order of the file
	Unlisted *Unlisted // nil where the user may write no value
}

// Choice is one thing to choose.
type Choice struct {
	Key      string
	Default  bool
	Groups   []string // as in Profile
	Override map[string]any
}

// Unlisted is a value that the user writes.
type Unlisted struct {
	Enabled  bool
	Groups   []string // as in Profile
	Regex    string   // Python's; "" is any value
	Message  string   // what the user is told when the regex does not match
	Override map[string]any
}

// Picks is what a user chose in a profile, by option. What is not in it, or "",
// is the default.
type Picks struct {
	Options  map[string]string // keys of choices
	Unlisted map[string]string // values of the user's own; they go before Options
}

// Step is one override to apply, and where it stands in the profile, such as
// "profile_options.image.choices.pytorch.kubespawner_override".
type Step struct {
	Path     string
	Override map[string]any
}

// Find returns the profile of a slug; "" is the default: the first that says so,
// or the first. Of several with the same slug the first is meant. The error lists
// the slugs.
func Find(list []Profile, slug string) (*Profile, error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("there is no profile")
	}
	var slugs []string
	for i := range list {
		if p := &list[i]; slug == p.Slug || slug == "" && p.Default {
			return p, nil
		}
		slugs = append(slugs, list[i].Slug)
	}
	if slug == "" {
		return &list[0], nil
	}
	return nil, fmt.Errorf("no profile %q: choose %s", slug, strings.Join(slugs, ", "))
}

// Steps returns the overrides of the profile for what was chosen, in the order in
// which they apply: the profile's own, then one for each option. It refuses an
// option or choice that is not there, a value that its regex does not allow, and
// an option without choices for which nothing was written.
func (p *Profile) Steps(picks Picks) ([]Step, error) {
	if err := p.known(picks); err != nil {
		return nil, err
	}
	steps := []Step{{"kubespawner_override", p.Override}}
	for i := range p.Options {
		o := &p.Options[i]
		step, err := o.step(picks.Options[o.Key], picks.Unlisted[o.Key])
		if err != nil {
			return nil, err
		}
		step.Path = "profile_options." + o.Key + "." + step.Path
		steps = append(steps, step)
	}
	return steps, nil
}

// known refuses picks for options that the profile does not have.
func (p *Profile) known(picks Picks) error {
	has := map[string]bool{}
	var keys []string
	for i := range p.Options {
		has[p.Options[i].Key] = true
		keys = append(keys, p.Options[i].Key)
	}
	for _, key := range sortedKeys(picks.Options, picks.Unlisted) {
		switch {
		case has[key]:
		case len(keys) == 0:
			return fmt.Errorf("option %q: profile %q has no options", key, p.Slug)
		default:
			return fmt.Errorf("option %q: profile %q has %s", key, p.Slug, strings.Join(keys, ", "))
		}
	}
	return nil
}

// step returns the override for a choice or a written value.
func (o *Option) step(choice, written string) (Step, error) {
	if written != "" {
		return o.written(written)
	}
	if choice == "" {
		return o.standard()
	}
	var keys []string
	for i := range o.Choices {
		c := &o.Choices[i]
		if c.Key == choice {
			return Step{"choices." + c.Key + ".kubespawner_override", c.Override}, nil
		}
		keys = append(keys, c.Key)
	}
	if len(keys) == 0 {
		return Step{}, fmt.Errorf("option %s=%s: it has no choices, only a value of your own", o.Key, choice)
	}
	return Step{}, fmt.Errorf("option %s=%s: choose %s", o.Key, choice, strings.Join(keys, ", "))
}

// standard returns the override of the default choice: the first that says so, or
// the first.
func (o *Option) standard() (Step, error) {
	if len(o.Choices) == 0 {
		return Step{}, fmt.Errorf("option %s: it has no choices, so a value of your own is needed", o.Key)
	}
	chosen := &o.Choices[0]
	for i := range o.Choices {
		if o.Choices[i].Default {
			chosen = &o.Choices[i]
			break
		}
	}
	return Step{"choices." + chosen.Key + ".kubespawner_override", chosen.Override}, nil
}

// written returns the override of a value of the user's own.
func (o *Option) written(value string) (Step, error) {
	u := o.Unlisted
	if u == nil || !u.Enabled {
		return Step{}, fmt.Errorf("option %s: a value of your own is not allowed here", o.Key)
	}
	if strings.ContainsAny(value, "\n\r\x00") {
		return Step{}, fmt.Errorf("option %s: a value of your own is one line", o.Key)
	}
	if u.Regex != "" {
		re, err := Regex(u.Regex)
		if err != nil {
			return Step{}, fmt.Errorf("option %s: validation_regex: %w", o.Key, err)
		}
		if !re.MatchString(value) {
			why := u.Message
			if why == "" {
				why = "it must match " + u.Regex
			}
			return Step{}, fmt.Errorf("option %s: %q is not allowed: %s", o.Key, value, why)
		}
	}
	changed, err := formatAll(u.Override, value)
	if err != nil {
		return Step{}, fmt.Errorf("option %s: unlisted_choice.kubespawner_override%w", o.Key, err)
	}
	override, _ := changed.(map[string]any)
	return Step{"unlisted_choice.kubespawner_override", override}, nil
}

// Check says what is wrong with the regex or the places of the override,
// whatever the user will write.
func (u *Unlisted) Check() error {
	if u.Regex != "" {
		if _, err := Regex(u.Regex); err != nil {
			return &KeyError{Key: "validation_regex", Err: err}
		}
	}
	if _, err := formatAll(u.Override, "value"); err != nil {
		return fmt.Errorf("kubespawner_override%w", err)
	}
	return nil
}
