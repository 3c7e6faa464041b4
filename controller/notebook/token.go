package notebook

import (
	"crypto/rand"
	"slices"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/view"
)

// build makes the children, with the token that the notebook's server is to ask for.
func (p *pass) build() (invalid, err error) {
	token, err := p.token()
	if err != nil {
		return nil, err
	}
	p.made, invalid = build(p.nb, &p.o, token)
	return invalid, nil
}

// token is what the server of a notebook that takes a token is to ask for; "" is
// nothing. Behind Istio's route people are known already, and the route brings no
// token. What runs keeps what it has.
func (p *pass) token() (string, error) {
	if p.nb.Annotations[api.AnnotationNotebookToken] != api.TokenJupyter {
		return "", nil
	}
	has := ""
	if p.set != nil {
		has = view.NotebookToken(&p.set.Spec.Template.Spec)
		if replicas(p.set) > 0 {
			return has, nil
		}
	}
	if p.o.Istio {
		if _, routed, err := p.istioKind(); routed || err != nil {
			return "", err
		}
	}
	if has != "" {
		return has, nil
	}
	return rand.Text(), nil
}

// takeToken adds the token to the variables of a container, unless the user has said
// something there.
func takeToken(container map[string]any, token string) {
	env, _ := container["env"].([]any)
	if token == "" || slices.ContainsFunc(env, named(view.TokenVariable)) {
		return
	}
	container["env"] = append(slices.Clone(env), map[string]any{"name": view.TokenVariable, "value": token})
}

// named reports whether a variable has a name.
func named(name string) func(any) bool {
	return func(e any) bool {
		m, _ := e.(map[string]any)
		return m["name"] == name
	}
}
