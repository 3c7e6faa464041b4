package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/kube/profile"
)

// profileChoice is a notebook of a profile as flags describe it.
type profileChoice struct {
	name     string // slug or object's name
	options  map[string]string
	unlisted map[string]string
	user     string
	groups   []string
}

func (p *profileChoice) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.name, "profile", "", "create it from this NotebookProfile, which sets all other values (see 'berth profiles list')")
	f.StringToStringVar(&p.options, "option", nil, "with --profile: choice for an option, as OPTION=CHOICE (repeatable)")
	f.StringToStringVar(&p.unlisted, "unlisted", nil, "with --profile: custom value for an option, as OPTION=VALUE (repeatable)")
	f.StringVar(&p.user, "for", "", "with --profile: user of the notebook and its home volume (default: your user name on the API server)")
	f.StringArrayVar(&p.groups, "group", nil, "with --profile: group of the user (repeatable; default: your groups on the API server)")
}

// check refuses flags that go with a profile alone, or not with one.
func (p *profileChoice) check(cmd *cobra.Command) error {
	if p.name == "" {
		for _, name := range []string{"option", "unlisted", "for", "group"} {
			if cmd.Flags().Changed(name) {
				return usagef("--%s requires --profile", name)
			}
		}
		return nil
	}
	for _, name := range []string{"image", "gpus", "gpu-memory", "mig", "cpu", "memory", "volume", "new-volume", "node-selector"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s cannot be used with --profile, which sets it: use --option or --unlisted, or omit --profile", name)
		}
	}
	return nil
}

// fromProfile renders a notebook of a profile of the cluster, and its home
// volume's claim or nil.
func (n *notebooks) fromProfile(ctx context.Context, p *profileChoice, me authenticationv1.UserInfo, name string) (*kubeflow.Notebook, *v1.PersistentVolumeClaim, error) {
	list, err := n.profiles(ctx)
	if err != nil {
		return nil, nil, err
	}
	c := profile.Choices{
		User: p.user, Name: name, Namespace: n.namespace, Groups: p.groups, Options: p.options, Unlisted: p.unlisted,
	}
	if c.User == "" {
		if c.User = me.Username; c.User == "" {
			return nil, nil, usagef("--profile %s: the API server does not report your user name; set the user with --for", p.name)
		}
	}
	if len(c.Groups) == 0 && p.user == "" {
		c.Groups = me.Groups
	}
	of, err := profile.Pick(list, p.name, c.Groups)
	if err != nil {
		return nil, nil, fmt.Errorf("--profile %s: %w", p.name, err)
	}
	if there, err := n.claims(ctx); err == nil {
		c.Claims = namesOf(there)
	} else {
		printf(n.o.Err, "warning: %s; a home volume that JupyterHub created before kubespawner 7 is not looked for\n", n.failed("list PersistentVolumeClaims", err))
	}
	nb, claim, warnings, err := profile.Render(of, c)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range warnings {
		printf(n.o.Err, "warning: profile %s: %s: %s\n", of.Name, w.Key, w.Text)
	}
	return nb, claim, nil
}

// profiles lists the NotebookProfiles of the cluster.
func (n *notebooks) profiles(ctx context.Context) ([]v1alpha1.NotebookProfile, error) {
	found, err := n.client.Resource(v1alpha1.NotebookProfiles).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if noSuchKind(err) {
		return nil, fmt.Errorf("list profiles on %s: this cluster does not serve NotebookProfiles; install `%s controller`", n.name, n.program())
	}
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("list profiles on %s: %w; an administrator can grant it with `kubectl create clusterrolebinding notebook-profiles --clusterrole=berth-profile-view --user=NAME`", n.name, err)
	}
	if err != nil {
		return nil, n.failed("list profiles", err)
	}
	out := make([]v1alpha1.NotebookProfile, 0, len(found.Items))
	for i := range found.Items {
		raw, err := found.Items[i].MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("read profile %s: %w", found.Items[i].GetName(), err)
		}
		var p v1alpha1.NotebookProfile
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, fmt.Errorf("read profile %s: %w", found.Items[i].GetName(), err)
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no profiles; `%s profiles import values.yaml` imports those of a JupyterHub", n.name, n.program())
	}
	return slices.Clip(out), nil
}
