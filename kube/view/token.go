package view

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// TokenVariable is the variable in which Jupyter's server finds the token that it asks
// for; see Jupyter Server's IdentityProvider.token.
const TokenVariable = "JUPYTER_TOKEN"

// NotebookToken is the token that the server of a notebook asks for, where the pod
// says it in plain words; "" is that it does not. Of a value that refers to other
// variables nothing is known.
func NotebookToken(pod *v1.PodSpec) string {
	if len(pod.Containers) == 0 {
		return ""
	}
	token := ""
	for _, e := range pod.Containers[0].Env { // the last of a name counts
		if e.Name == TokenVariable {
			token = e.Value
		}
	}
	if strings.Contains(token, "$") {
		return ""
	}
	return token
}
