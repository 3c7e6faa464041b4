package profile

import (
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api/v1alpha1"
)

// Offer tells how a notebook of a profile stands on the cluster: one with the
// default choices, for a user who may have them. For an option without choices
// something is written.
func (c *Cluster) Offer(p *v1alpha1.NotebookProfile) (Standing, error) {
	whole, err := plainOf(p)
	if err != nil {
		return Standing{}, err
	}
	for i := range whole.Options {
		if u := whole.Options[i].Unlisted; u != nil {
			u.Regex = ""
		}
	}
	m, err := try(p, &whole, trialPicks(&whole)[0].picks)
	if err != nil {
		return Standing{}, err
	}
	return c.standing(&corev1.Pod{Spec: m.pod}), nil
}
