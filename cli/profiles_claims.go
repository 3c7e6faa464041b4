package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/kube/profile"
)

// profilesClaims is `berth profiles claims`.
type profilesClaims struct {
	profilesRender
	output outputFlags
	users  []string
}

func newProfilesClaims(o Options) *cobra.Command {
	c := &profilesClaims{profilesRender: profilesRender{notebookCommand: notebookCommand{o: o}}}
	cmd := &cobra.Command{
		Use:   "claims FILE|PROFILE",
		Short: "List the home volume that each user would get",
		Long: "List the PersistentVolumeClaim that a notebook of each user would mount as their home: those of the users given\n" +
			"with --for, or else of all users whose claims are in the namespace. Names are the same as with kubespawner,\n" +
			"and a claim that kubespawner created before version 7 is found by its older name. Nothing is changed.",
		Example: "  berth profiles claims values.yaml -n jhub\n  berth profiles claims gpu --for ada --for grace@example.org",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: c.completeProfiles,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	c.flags(cmd)
	c.values.add(cmd)
	c.output.add(cmd)
	f := cmd.Flags()
	f.StringVar(&c.profile, "profile", "", "slug of the profile in the file (default: the file's default)")
	f.StringArrayVar(&c.users, "for", nil, "user (repeatable; default: all users whose claims are in the namespace)")
	f.StringArrayVar(&c.choices.Groups, "group", nil, "group of the users (repeatable)")
	return cmd
}

func (c *profilesClaims) run(ctx context.Context, arg string) error {
	if err := c.output.check(); err != nil {
		return err
	}
	p, err := c.find(ctx, arg)
	if err != nil {
		return err
	}
	n, err := c.connect()
	if err != nil {
		return err
	}
	claims, err := n.claims(ctx)
	if err != nil {
		return n.failed("list PersistentVolumeClaims", err)
	}
	users := c.users
	if len(users) == 0 {
		users = profile.UsersOf(claims)
	}
	if len(users) == 0 {
		return fmt.Errorf("no claim in namespace %s names its user; name users with --for", n.namespace)
	}
	c.choices.Namespace, c.choices.Claims = n.namespace, namesOf(claims)
	homes := make([]profile.Home, len(users))
	for i, user := range users {
		c.choices.User = user
		if homes[i], err = profile.HomeOf(p, c.choices); err != nil {
			return fmt.Errorf("user %q: %w", user, err)
		}
	}
	return c.print(homes)
}

func (c *profilesClaims) print(homes []profile.Home) error {
	if c.output.object() {
		return write(c.o.Out, &c.output, newList("HomeList", homes))
	}
	words := map[string]string{
		profile.HomeExists: "exists", profile.HomeOlder: "exists, by its name before kubespawner 7",
		profile.HomeNew: "new and empty", profile.HomeNone: "no volume: files are lost when the notebook stops",
	}
	t := &table{head: []string{"USER", "CLAIM", "STATE"}, gap: 2}
	for _, h := range homes {
		if c.output.format == outputName {
			printLine(c.o.Out, "persistentvolumeclaim/"+h.Claim)
			continue
		}
		t.add(h.User, dash(h.Claim), words[h.State])
	}
	if c.output.format == outputName {
		return nil
	}
	return t.write(c.o.Out, screenOf(c.o.Out), c.output.noHeaders)
}

// claims lists the volume claims of the namespace.
func (n *notebooks) claims(ctx context.Context) ([]v1.PersistentVolumeClaim, error) {
	list, err := n.CoreV1().PersistentVolumeClaims(n.namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func namesOf(claims []v1.PersistentVolumeClaim) []string {
	out := make([]string, len(claims))
	for i := range claims {
		out[i] = claims[i].Name
	}
	return out
}
