package profile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/profile"
)

type object = map[string]any

// hub is a list of two profiles with options of every kind.
func hub() []profile.Profile {
	image := func(name string) object { return object{"image": name} }
	return []profile.Profile{
		{Slug: "small", Name: "Small", Override: object{"mem_guarantee": "1G"}},
		{
			Slug: "gpu", Name: "GPU", Override: object{"image": "base:1", "mem_guarantee": "14G"},
			Options: []profile.Option{
				{
					Key: "image",
					Choices: []profile.Choice{
						{Key: "tf", Override: image("tf:1")},
						{Key: "torch", Default: true, Override: image("torch:1")},
						{Key: "secret", Groups: []string{"Staff"}, Override: image("secret:1")},
					},
					Unlisted: &profile.Unlisted{
						Enabled: true, Regex: `^[a-z/]+:.+$`, Message: "write NAME:TAG",
						Override: object{"image": "{value}", "environment": object{"{value}": []any{"as {value} of {username}"}}},
					},
				},
				{Key: "size", Choices: []profile.Choice{{Key: "s", Override: object{"mem_guarantee": "4G"}}, {Key: "l", Override: object{"mem_guarantee": "8G"}}}},
			},
		},
		{Slug: "own", Name: "Own", Options: []profile.Option{
			{Key: "image", Unlisted: &profile.Unlisted{Enabled: true, Override: image("{value}")}},
			{Key: "closed", Choices: []profile.Choice{{Key: "only"}}, Unlisted: &profile.Unlisted{Override: image("{value}")}},
		}},
	}
}

// rows: JH-14 JH-16 JH-18 JH-19 JH-41
func TestStepsOfAChoice(t *testing.T) {
	one := func(k, v string) map[string]string { return map[string]string{k: v} }
	tests := []struct {
		name  string
		slug  string
		picks profile.Picks
		want  []string // path of each step, and its image or mem_guarantee
		err   string
	}{
		{name: "nothing chosen is the first profile", want: []string{"kubespawner_override 1G"}},
		{
			name: "the profile's override goes first, then each option in order; default, else the first",
			slug: "gpu", want: []string{
				"kubespawner_override 14G", "profile_options.image.choices.torch.kubespawner_override torch:1",
				"profile_options.size.choices.s.kubespawner_override 4G",
			},
		},
		{
			name: "a choice replaces the default", slug: "gpu", picks: profile.Picks{Options: map[string]string{"image": "tf", "size": "l"}},
			want: []string{
				"kubespawner_override 14G", "profile_options.image.choices.tf.kubespawner_override tf:1",
				"profile_options.size.choices.l.kubespawner_override 8G",
			},
		},
		{
			name: "a value of one's own goes before a choice", slug: "gpu",
			picks: profile.Picks{Options: one("image", "tf"), Unlisted: one("image", "quay/my:3")},
			want: []string{
				"kubespawner_override 14G", "profile_options.image.unlisted_choice.kubespawner_override quay/my:3",
				"profile_options.size.choices.s.kubespawner_override 4G",
			},
		},
		{name: "an unknown choice is refused with the list", slug: "gpu", picks: profile.Picks{Options: one("image", "jax")}, err: "option image=jax: choose tf, torch, secret"},
		{name: "an unknown option is refused with the list", slug: "gpu", picks: profile.Picks{Options: one("imge", "tf")}, err: `option "imge": profile "gpu" has image, size`},
		{name: "an option of a profile without any", slug: "small", picks: profile.Picks{Unlisted: one("image", "x")}, err: `profile "small" has no options`},
		{name: "an unknown profile is refused with the list", slug: "big", err: `no profile "big": choose small, gpu, own`},
		{name: "the regex is told by its message", slug: "gpu", picks: profile.Picks{Unlisted: one("image", "NO")}, err: `"NO" is not allowed: write NAME:TAG`},
		{name: "no choices and nothing written", slug: "own", err: "option image: it has no choices, so a value of your own is needed"},
		{name: "a choice where there are none", slug: "own", picks: profile.Picks{Options: one("image", "tf")}, err: "option image=tf: it has no choices, only a value of your own"},
		{name: "a value that is not enabled", slug: "own", picks: profile.Picks{Unlisted: map[string]string{"image": "a", "closed": "b"}}, err: "option closed: a value of your own is not allowed here"},
		{name: "two lines", slug: "own", picks: profile.Picks{Unlisted: one("image", "a\nb")}, err: "is one line"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			p, err := profile.Find(hub(), tt.slug)
			if err == nil {
				var steps []profile.Step
				steps, err = p.Steps(tt.picks)
				for _, s := range steps {
					what := s.Override["image"]
					if m, ok := s.Override["mem_guarantee"]; ok {
						what = m
					}
					got = append(got, s.Path+" "+what.(string))
				}
			}
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("error %v; steps (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestAValueIsPutEverywhereInItsOverride(t *testing.T) {
	p, err := profile.Find(hub(), "gpu")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := p.Steps(profile.Picks{Unlisted: map[string]string{"image": "a:{username}"}})
	if err != nil {
		t.Fatal(err)
	}
	// What the user writes is data: its own braces are not looked at here.
	want := object{"image": "a:{username}", "environment": object{"a:{username}": []any{"as a:{username} of {username}"}}}
	if diff := cmp.Diff(want, steps[1].Override); diff != "" {
		t.Errorf("override (-want +got):\n%s", diff)
	}
}

// rows: JH-40
func TestAllowedGroups(t *testing.T) {
	list := hub()
	list[0].Groups = []string{"Org:Admins"}
	list[1].Options[0].Unlisted.Groups = []string{"org:staff"}
	list[2].Groups = []string{}
	tests := []struct {
		name   string
		groups []string
		want   string // profiles, with the choices of gpu's image
	}{
		{"who is in none gets what is for all", nil, "gpu[tf torch]"},
		{"the case of a group does not count", []string{"ORG:admins"}, "small gpu[tf torch]"},
		{"a group of a choice", []string{"staff"}, "gpu[tf torch secret]"},
		{"a group of the user's own values", []string{"Org:Staff"}, "gpu[tf torch own]"},
		{"an empty list is nobody", []string{"own", ""}, "gpu[tf torch]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, p := range profile.Allowed(list, tt.groups) {
				name := p.Slug
				if p.Slug == "gpu" {
					var keys []string
					for _, c := range p.Options[0].Choices {
						keys = append(keys, c.Key)
					}
					if p.Options[0].Unlisted != nil {
						keys = append(keys, "own")
					}
					name += "[" + strings.Join(keys, " ") + "]"
				}
				got = append(got, name)
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("Allowed(%v) = %s, want %s", tt.groups, s, tt.want)
			}
		})
	}
	if len(list[1].Options[0].Choices) != 3 {
		t.Error("Allowed changed the list that it was given")
	}
}
