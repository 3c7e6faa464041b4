package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"berth.dev/berth/kube/profile"
)

// profilesLint is `berth profiles lint`.
type profilesLint struct {
	o       Options
	cluster clusterFlags
	output  outputFlags
	values  valuesFlags
	live    bool
}

func newProfilesLint(o Options) *cobra.Command {
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
	l.cluster.add(cmd, false)
	l.output.add(cmd)
	l.values.add(cmd)
	cmd.Flags().BoolVar(&l.live, "from-cluster", false, "also check whether each profile fits a node of the cluster")
	return cmd
}

func (l *profilesLint) run(ctx context.Context, path string) error {
	if err := l.output.check(); err != nil {
		return err
	}
	f, err := l.values.read(l.o, path)
	if err != nil {
		return err
	}
	f.Check()
	if l.live {
		c, err := l.cluster.connect(l.o)
		if err != nil {
			return err
		}
		offers, err := c.offers(ctx, l.o)
		if err != nil {
			return err
		}
		f.CheckCluster(offers)
	}
	wrong, doubt, remarks := tally(f.Findings)
	if l.output.object() {
		err = write(l.o.Out, &l.output, newList("ProfileFindingList", f.Findings))
	} else {
		err = printFindings(l.o.Out, f.Findings)
	}
	if err != nil {
		return err
	}
	printf(l.o.Err, "%s: %s: %s, %s, %s\n", f.Name, countText(f.Entries, "profile"),
		countText(wrong, "error"), countText(doubt, "warning"), countText(remarks, "note"))
	if wrong+doubt > 0 {
		return errFound
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
		if _, err := printf(w, "%s: %s: %s%s (%s)\n", at, f.Level, key, f.Text, f.Code); err != nil {
			return err
		}
	}
	return nil
}

// offers reads the cluster for trying notebooks on it.
func (c *cluster) offers(ctx context.Context, o Options) (*profile.Cluster, error) {
	nodes, pods, err := c.list(ctx, "")
	if err != nil {
		return nil, err
	}
	on, err := profile.NewCluster(nodes, pods)
	if err == nil {
		on.Growing(c.growth(ctx, o, "", nodes))
	}
	return on, err
}
