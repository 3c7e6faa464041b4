package process

import (
	"strings"

	"github.com/spf13/pflag"

	"berth.dev/berth/cli/term"
)

// UserPolicy says whose word counts about the user of an object: see docs/users.md.
type UserPolicy struct {
	Speakers    []string // may name another user
	Controllers []string // create objects for their owners, beside Kubernetes' and Berth's
}

// AddFlags are those of the process that applies the policies, wherever it runs.
func (p *UserPolicy) AddFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&p.Speakers, "user-speaker", nil, "NAME: let this user of the API server, such as a JupyterHub's ServiceAccount, name the user that it creates objects for (repeatable)")
	f.StringArrayVar(&p.Controllers, "user-controller", nil, "NAME: what this user of the API server, such as an operator's ServiceAccount, creates for an object has that object's user (repeatable)")
}

// Check refuses what cannot be meant.
func (p *UserPolicy) Check() error {
	for flag, names := range map[string][]string{"--user-speaker": p.Speakers, "--user-controller": p.Controllers} {
		for _, name := range names {
			if name == "" || strings.TrimSpace(name) != name {
				return term.Usagef("invalid %s %q: must be the whole name of a user, such as system:serviceaccount:NAMESPACE:NAME", flag, name)
			}
		}
	}
	return nil
}

// Args are the flags that give p, for another process.
func (p *UserPolicy) Args() []string {
	var out []string
	for _, name := range p.Speakers {
		out = append(out, "--user-speaker", name)
	}
	for _, name := range p.Controllers {
		out = append(out, "--user-controller", name)
	}
	return out
}
