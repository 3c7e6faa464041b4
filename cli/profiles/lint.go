package profiles

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/profile"
)

// profilesLint is `berth profiles lint`.
type profilesLint struct {
	o       client.Options
	cluster client.Flags
	output  term.Output
	values  valuesFlags
	live    bool
}

func newProfilesLint(o client.Options) *cobra.Command {
	l := &profilesLint{o: o}
	cmd := &cobra.Command{
		Use:   "lint FILE",
		Short: "Check the profiles in a values file, and report problems by line",
		Long: "Check the profiles in a values file: each is rendered with its defaults, and with each choice in turn. An\n" +
			"error prevents a notebook; a warning means that the notebook differs from the profile's description; a note\n" +
			"has no effect. With --from-cluster it also reports profiles that fit no node. Images are not pulled, only\n" +
			"their names are checked. Exits with code 3 if there are errors or warnings.",
		Example: "  berth profiles lint values.yaml\n  berth profiles lint values.yaml --from-cluster\n  helm get values hub | berth profiles lint -",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), args[0]) },
	}
	l.cluster.AddFlags(cmd, false)
	l.output.AddFlags(cmd, term.Rows{Kind: "ProfileFindingList", Row: profile.Finding{}})
	l.values.add(cmd)
	cmd.Flags().BoolVar(&l.live, "from-cluster", false, "also check whether each profile fits a node of the cluster")
	return cmd
}

func (l *profilesLint) run(ctx context.Context, path string) error {
	if err := l.output.Check(); err != nil {
		return err
	}
	f, err := l.values.read(l.o, path)
	if err != nil {
		return err
	}
	f.Check()
	if l.live {
		c, err := l.cluster.Connect(l.o)
		if err != nil {
			return err
		}
		offers, err := offers(ctx, c, l.o)
		if err != nil {
			return err
		}
		f.CheckCluster(offers)
	}
	wrong, doubt, remarks := tally(f.Findings)
	if l.output.Object() {
		err = term.Write(l.o.Out, &l.output, term.NewList("ProfileFindingList", f.Findings))
	} else {
		err = printFindings(l.o.Out, f.Findings)
	}
	if err != nil {
		return err
	}
	term.Printf(l.o.Err, "%s: %s: %s, %s, %s\n", f.Name, term.Count(f.Entries, "profile"),
		term.Count(wrong, "error"), term.Count(doubt, "warning"), term.Count(remarks, "note"))
	if wrong+doubt > 0 {
		return term.ErrFound
	}
	return nil
}

// printFindings writes a line for each finding.
func printFindings(w io.Writer, list []profile.Finding) error {
	for i := range list {
		f := &list[i]
		at := f.File
		if f.Line > 0 {
			at = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		key := f.Key
		if key != "" {
			key += ": "
		}
		if _, err := term.Printf(w, "%s: %s: %s%s (%s)\n", at, f.Level, key, f.Text, f.Code); err != nil {
			return err
		}
	}
	return nil
}

// offers reads the cluster for trying notebooks on it.
func offers(ctx context.Context, c *client.Cluster, o client.Options) (*profile.Cluster, error) {
	nodes, pods, err := c.NodesAndPods(ctx, "")
	if err != nil {
		return nil, err
	}
	on, err := profile.NewCluster(nodes, pods)
	if err == nil {
		on.Growing(c.Growth(ctx, o, "", nodes))
	}
	return on, err
}
