package notebook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/profile"
)

// ProfileChoice is a notebook of a profile as flags describe it.
type ProfileChoice struct {
	Name     string // slug or object's name
	Options  map[string]string
	Unlisted map[string]string
	User     string
	Groups   []string
}

func (p *ProfileChoice) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.Name, "profile", "", "create it from this NotebookProfile, which sets all other values (see 'berth profiles list')")
	f.StringToStringVar(&p.Options, "option", nil, "with --profile: choice for an option, as OPTION=CHOICE (repeatable)")
	f.StringToStringVar(&p.Unlisted, "unlisted", nil, "with --profile: custom value for an option, as OPTION=VALUE (repeatable)")
	f.StringVar(&p.User, "for", "", "with --profile: user of the notebook and its home volume (default: your user name on the API server)")
	f.StringArrayVar(&p.Groups, "group", nil, "with --profile: group of the user (repeatable; default: your groups on the API server)")
}

// check refuses flags that go with a profile alone, or not with one.
func (p *ProfileChoice) check(cmd *cobra.Command) error {
	if p.Name == "" {
		for _, name := range []string{"option", "unlisted", "for", "group"} {
			if cmd.Flags().Changed(name) {
				return term.Usagef("--%s requires --profile", name)
			}
		}
		return nil
	}
	for _, name := range []string{"image", "gpus", "gpu-memory", "mig", "cpu", "memory", "volume", "new-volume", "node-selector"} {
		if cmd.Flags().Changed(name) {
			return term.Usagef("--%s cannot be used with --profile, which sets it: use --option or --unlisted, or omit --profile", name)
		}
	}
	return nil
}

// fromProfile renders a notebook of a profile of the cluster, and its home
// volume's claim or nil.
func (n *Notebooks) fromProfile(ctx context.Context, p *ProfileChoice, me authenticationv1.UserInfo, name string) (*kubeflow.Notebook, *v1.PersistentVolumeClaim, error) {
	list, err := n.Profiles(ctx)
	if err != nil {
		return nil, nil, err
	}
	c := profile.Choices{
		User: p.User, Name: name, Namespace: n.Namespace, Groups: p.Groups, Options: p.Options, Unlisted: p.Unlisted,
	}
	if c.User == "" {
		if c.User = me.Username; c.User == "" {
			return nil, nil, term.Usagef("--profile %s: the API server does not report your user name; set the user with --for", p.Name)
		}
	}
	if len(c.Groups) == 0 && p.User == "" {
		c.Groups = me.Groups
	}
	of, err := profile.Pick(list, p.Name, c.Groups)
	if err != nil {
		return nil, nil, fmt.Errorf("--profile %s: %w", p.Name, err)
	}
	if there, err := n.Claims(ctx); err == nil {
		c.Claims = ClaimNames(there)
	} else {
		term.Printf(n.Options.Err, "warning: %s; a home volume that JupyterHub created before kubespawner 7 is not looked for\n", n.Failed("list PersistentVolumeClaims", err))
	}
	nb, claim, warnings, err := profile.Render(of, c)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range warnings {
		term.Printf(n.Options.Err, "warning: profile %s: %s: %s\n", of.Name, w.Key, w.Text)
	}
	return nb, claim, nil
}

// Profiles lists the NotebookProfiles of the cluster.
func (n *Notebooks) Profiles(ctx context.Context) ([]v1alpha1.NotebookProfile, error) {
	found, err := n.Client.Resource(v1alpha1.NotebookProfiles).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if NoSuchKind(err) {
		return nil, fmt.Errorf("list profiles on %s: this cluster does not serve NotebookProfiles; install `%s controller`", n.Name, n.Program())
	}
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("list profiles on %s: %w; an administrator can grant it with `kubectl create clusterrolebinding notebook-profiles --clusterrole=berth-profile-view --user=NAME`", n.Name, err)
	}
	if err != nil {
		return nil, n.Failed("list profiles", err)
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
		return nil, fmt.Errorf("%s has no profiles; `%s profiles import values.yaml` imports those of a JupyterHub", n.Name, n.Program())
	}
	return slices.Clip(out), nil
}

// Claims lists the volume claims of the namespace.
func (n *Notebooks) Claims(ctx context.Context) ([]v1.PersistentVolumeClaim, error) {
	list, err := n.CoreV1().PersistentVolumeClaims(n.Namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// ClaimNames returns the names of volume claims.
func ClaimNames(claims []v1.PersistentVolumeClaim) []string {
	out := make([]string, len(claims))
	for i := range claims {
		out[i] = claims[i].Name
	}
	return out
}

// CompleteProfiles completes the first argument with the names of profiles.
func (n *Command) CompleteProfiles(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
	n.Options.Err = cmd.ErrOrStderr()
	nb, err := n.Connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	found, err := nb.Client.Resource(v1alpha1.NotebookProfiles).List(cmd.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var names []string
	for i := range found.Items {
		if name := found.Items[i].GetName(); strings.HasPrefix(name, begin) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveDefault // or a file
}
