package profiles

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/profile"
)

// profilesClaims is `berth profiles claims`.
type profilesClaims struct {
	profilesRender
	output term.Output
	users  []string
}

func newProfilesClaims(o client.Options) *cobra.Command {
	c := &profilesClaims{profilesRender: profilesRender{Command: notebook.Command{Options: o}}}
	cmd := &cobra.Command{
		Use:   "claims FILE|PROFILE",
		Short: "List the home volume that each user would get",
		Long: "List the PersistentVolumeClaim that a notebook of each user would mount as their home: those of the users given\n" +
			"with --for, or else of all users whose claims are in the namespace. Names are the same as with kubespawner,\n" +
			"and a claim that kubespawner created before version 7 is found by its older name. Nothing is changed.",
		Example: "  berth profiles claims values.yaml -n jhub\n  berth profiles claims gpu --for ada --for grace@example.org",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: c.CompleteProfiles,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	c.AddFlags(cmd)
	c.values.add(cmd)
	c.output.AddFlags(cmd, term.Rows{Kind: "HomeList", Row: profile.Home{}})
	f := cmd.Flags()
	f.StringVar(&c.profile, "profile", "", "slug of the profile in the file (default: the file's default)")
	f.StringArrayVar(&c.users, "for", nil, "user (repeatable; default: all users whose claims are in the namespace)")
	f.StringArrayVar(&c.choices.Groups, "group", nil, "group of the users (repeatable)")
	return cmd
}

func (c *profilesClaims) run(ctx context.Context, arg string) error {
	if err := c.output.Check(); err != nil {
		return err
	}
	p, err := c.find(ctx, arg)
	if err != nil {
		return err
	}
	n, err := c.Connect()
	if err != nil {
		return err
	}
	claims, err := n.Claims(ctx)
	if err != nil {
		return n.Failed("list PersistentVolumeClaims", err)
	}
	users := c.users
	if len(users) == 0 {
		users = profile.UsersOf(claims)
	}
	if len(users) == 0 {
		return fmt.Errorf("no claim in namespace %s names its user; name users with --for", n.Namespace)
	}
	c.choices.Namespace, c.choices.Claims = n.Namespace, notebook.ClaimNames(claims)
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
	if c.output.Object() {
		return term.Write(c.Options.Out, &c.output, term.NewList("HomeList", homes))
	}
	words := map[string]string{
		profile.HomeExists: "exists", profile.HomeOlder: "exists, by its name before kubespawner 7",
		profile.HomeNew: "new and empty", profile.HomeNone: "no volume: files are lost when the notebook stops",
	}
	t := &term.Table{Head: []string{"USER", "CLAIM", "STATE"}, Gap: 2, Wrap: true}
	for _, h := range homes {
		if c.output.Format == term.OutputName {
			term.PrintLine(c.Options.Out, "persistentvolumeclaim/"+h.Claim)
			continue
		}
		t.Add(h.User, dash(h.Claim), words[h.State])
	}
	if c.output.Format == term.OutputName {
		return nil
	}
	return t.Write(c.Options.Out, c.output.Screen(c.Options.Out), c.output.NoHeaders)
}
