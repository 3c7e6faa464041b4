package profile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/v1alpha1"
	core "berth.dev/berth/core/profile"
)

// LongestName bounds the name of a Notebook: its StatefulSet's pods carry a label
// of the name, a dash and a hash of ten letters.
const LongestName = 52

// Choices is who wants a notebook of a profile, and what they chose in it.
type Choices struct {
	User      string // "" is refused
	Name      string // of the Notebook; "" is jupyter-USER
	Namespace string // "" leaves it out, for kubectl to fill in
	Groups    []string
	Options   map[string]string // option key: choice key; what is not there is the default
	Unlisted  map[string]string // option key: a value of the user's own
	// Claims are the names of the volume claims in the namespace. A claim of the user's
	// that kubespawner made before version 7, whose name is another, is found among them.
	Claims []string
}

// Warning is something that works and is not what the user may think.
type Warning struct {
	Key  string // the setting, as kubespawner names it
	Text string // a sentence without a stop at its end

	code  string // of the Finding that it is
	level Level
	at    string // path of the key, as in core/profile's Settings.From
}

// Render makes a Notebook and the claim of its user's home volume, as kubespawner
// would make a pod and a claim, for the base settings of the profile, its
// override and the user's choices. The claim is nil where the profile has none of
// the user's own. Nothing is sent. The error names the key that cannot be had; it
// is a *core/profile.KeyError where one key is at fault.
//
// The container is named "notebook". JupyterHub's own server, which needs a hub,
// is replaced by one that serves at $(NB_PREFIX). Init containers and sidecars are
// only those that the profile has.
func Render(p *v1alpha1.NotebookProfile, c Choices) (*kubeflow.Notebook, *corev1.PersistentVolumeClaim, []Warning, error) {
	whole, err := plainOf(p)
	if err != nil {
		return nil, nil, nil, err
	}
	if c.User == "" {
		return nil, nil, nil, fmt.Errorf("profile %s: whose notebook is it? Give a user", whole.Slug)
	}
	allowed := core.Allowed([]core.Profile{whole}, c.Groups)
	if len(allowed) == 0 {
		return nil, nil, nil, fmt.Errorf("profile %s is for members of %s; %s is in %s", whole.Slug, orNone(whole.Groups), c.User, orNone(c.Groups))
	}
	steps, err := allowed[0].Steps(core.Picks{Options: c.Options, Unlisted: c.Unlisted})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("profile %s: %w%s", whole.Slug, err, hidden(&whole, &allowed[0]))
	}
	return renderSteps(p, c, steps)
}

// renderSteps is Render for steps that were found already.
func renderSteps(p *v1alpha1.NotebookProfile, c Choices, steps []core.Step) (*kubeflow.Notebook, *corev1.PersistentVolumeClaim, []Warning, error) {
	m, err := newMaker(p.Spec.Base, c)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := m.set.Apply(steps); err != nil {
		return nil, nil, nil, err
	}
	if err := m.make(); err != nil {
		return nil, nil, nil, err
	}
	raw, err := json.Marshal(&m.pod)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("profile %s: write the pod: %w", p.Spec.Slug, err)
	}
	m.annotations[api.AnnotationNotebookProfile] = chosen(p, c)
	nb := &kubeflow.Notebook{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeflow.GroupVersion.String(), Kind: kubeflow.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: m.names.notebook, Namespace: c.Namespace, Labels: m.labels, Annotations: m.annotations,
		},
		Spec: kubeflow.NotebookSpec{Template: kubeflow.NotebookTemplate{Spec: runtime.RawExtension{Raw: raw}}},
	}
	claim, err := m.claim()
	return nb, claim, m.warnings, err
}

// hidden adds to an error that some of the profile's choices are for others.
func hidden(whole, allowed *core.Profile) string {
	for i := range whole.Options {
		if len(whole.Options[i].Choices) != len(allowed.Options[i].Choices) || whole.Options[i].Unlisted != nil && allowed.Options[i].Unlisted == nil {
			return " (some choices are only for members of groups)"
		}
	}
	return ""
}

func orNone(groups []string) string {
	if len(groups) == 0 {
		return "no group"
	}
	return strings.Join(groups, ", ")
}

// chosen writes the profile and the choices that were made, sorted, as the
// annotation has them. A value of the user's own is under kubespawner's name for
// it, with % and ; written as %25 and %3B.
func chosen(p *v1alpha1.NotebookProfile, c Choices) string {
	var parts []string
	for key, value := range c.Options {
		if value != "" && c.Unlisted[key] == "" {
			parts = append(parts, key+"="+value)
		}
	}
	for key, value := range c.Unlisted {
		if value != "" {
			parts = append(parts, key+"--unlisted-choice="+strings.NewReplacer("%", "%25", ";", "%3B").Replace(value))
		}
	}
	slices.Sort(parts)
	return strings.Join(append([]string{cmp.Or(p.Spec.Slug, p.Name)}, parts...), ";")
}

// Pick returns the profile of a slug or an object's name among those that a member
// of groups may use; "" is the default. list may be in any order. The error lists
// what there is.
func Pick(list []v1alpha1.NotebookProfile, slug string, groups []string) (*v1alpha1.NotebookProfile, error) {
	ordered := slices.Clone(list)
	slices.SortStableFunc(ordered, func(a, b v1alpha1.NotebookProfile) int {
		return cmp.Or(cmp.Compare(a.Spec.Order, b.Spec.Order), cmp.Compare(a.Name, b.Name))
	})
	var all []core.Profile
	at := map[string]int{}
	for i := range ordered {
		p := core.Profile{Slug: slugOf(&ordered[i]), Default: ordered[i].Spec.Default, Groups: ordered[i].Spec.AllowedGroups}
		if ordered[i].Name == slug {
			p.Slug = slug
		}
		if _, taken := at[p.Slug]; !taken {
			at[p.Slug] = i
		}
		all = append(all, p)
	}
	mine := core.Allowed(all, groups)
	if len(mine) == 0 && len(all) > 0 {
		return nil, fmt.Errorf("none of the %d profiles is for members of %s", len(all), orNone(groups))
	}
	found, err := core.Find(mine, slug)
	if err != nil {
		return nil, err
	}
	return &ordered[at[found.Slug]], nil
}

// slugOf is the slug of a profile; one without is known by its object's name.
func slugOf(p *v1alpha1.NotebookProfile) string { return cmp.Or(p.Spec.Slug, p.Name) }
