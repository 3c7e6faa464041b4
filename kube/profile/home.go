package profile

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
)

// Home is the volume claim of one user's home, as a notebook of a profile would mount it.
type Home struct {
	User  string `json:"user"`
	Claim string `json:"claim,omitempty"` // "" where the profile has no volume of the user's own
	// State is HomeExists, HomeOlder, HomeNew or HomeNone.
	State string `json:"state"`
}

// States of a home.
const (
	HomeExists = "Exists"    // the claim is there
	HomeOlder  = "OlderName" // the claim is there, by the name that kubespawner gave it before version 7
	HomeNew    = "New"       // there is no claim: the notebook's first start makes an empty one
	HomeNone   = "None"      // the profile has no volume of the user's own
)

// HomeOf returns the home of c.User in a notebook of a profile, with the choices of c
// and the claims that are there, c.Claims. The errors are Render's.
func HomeOf(p *v1alpha1.NotebookProfile, c Choices) (Home, error) {
	_, claim, _, err := Render(p, c)
	home := Home{User: c.User, State: HomeNone}
	if err != nil || claim == nil {
		return home, err
	}
	there := c.Claims
	c.Claims = nil
	_, today, _, err := Render(p, c)
	if err != nil {
		return home, err
	}
	home.Claim = claim.Name
	switch {
	case !slices.Contains(there, claim.Name):
		home.State = HomeNew
	case claim.Name == today.Name:
		home.State = HomeExists
	default:
		home.State = HomeOlder
	}
	return home, nil
}

// UsersOf returns the users whose homes claims are, sorted, as JupyterHub and Berth
// write them on the claims that they make.
func UsersOf(claims []corev1.PersistentVolumeClaim) []string {
	var out []string
	for i := range claims {
		if user := claims[i].Annotations[api.AnnotationHubUser]; user != "" {
			out = append(out, user)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
