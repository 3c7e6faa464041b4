package why

import (
	"strings"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/causes"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	reasons "berth.dev/berth/core/explain"
)

// NewExplain makes `berth explain`.
func NewExplain(o client.Options) *cobra.Command {
	example := false
	cmd := &cobra.Command{
		Use:   "explain [CODE]",
		Short: "Explain a cause that `why` names by its code, or list all causes",
		Long: "Explain a cause by the code that `berth why` prints with it, such as BERTH-C12: what shows it, what helps,\n" +
			"and how to see it in a simulated cluster. Without a code, list all of them. No cluster is needed.",
		Example: "  berth explain BERTH-C12\n  berth explain\n  berth explain BERTH-C12 --example | kubectl apply -f -",
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var out []string
			for i := range reasons.Catalog {
				out = append(out, string(reasons.Catalog[i].Code))
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if example {
				return printExample(o, args)
			}
			return explainCode(o, args)
		},
	}
	cmd.Flags().BoolVar(&example, "example", false, "print objects that show the cause when they are applied to a cluster of berth up")
	return cmd
}

// printExample prints the objects of a cause, without what the cluster makes of them.
func printExample(o client.Options, args []string) error {
	if len(args) == 0 {
		return term.Usagef("name the cause, as in `%s explain BERTH-C12 --example`", o.Name)
	}
	e, ok := reasons.Find(args[0])
	if !ok {
		return term.Usagef("there is no cause %s; `%s explain` lists all", args[0], o.Name)
	}
	data, err := causes.Files.ReadFile(string(e.Code) + ".yaml")
	if err != nil {
		return term.Usagef("there are no objects that show %s; to see it: %s", e.Code, e.Try())
	}
	var out []string
	for doc := range strings.SplitSeq(string(data), "---\n") {
		if strings.HasPrefix(doc, "# state\n") {
			continue
		}
		doc, _, _ = strings.Cut(doc, "\nstatus:\n")
		out = append(out, strings.TrimSuffix(doc, "\n")+"\n")
	}
	_, err = term.PrintBlock(o.Out, term.Block(strings.Join(out, "---\n")))
	return err
}

func explainCode(o client.Options, args []string) error {
	if len(args) == 0 {
		t := &term.Table{Head: []string{"CODE", "CAUSE"}, Gap: 2, Wrap: true}
		for i := range reasons.Catalog {
			t.Add(string(reasons.Catalog[i].Code), reasons.Catalog[i].Title)
		}
		return t.Write(o.Out, term.ScreenOf(o.Out), false)
	}
	e, ok := reasons.Find(args[0])
	if !ok {
		return term.Usagef("there is no cause %s; `%s explain` lists all", args[0], o.Name)
	}
	screen := term.ScreenOf(o.Out)
	text := screen.Wrapped(string(e.Code) + ": " + e.Title)
	for _, part := range [][2]string{{"PROOF", e.Proof}, {"HELPS", e.Helps}, {"TRY", e.Try()}} {
		text += "\n" + screen.Section(part[0], part[1])
	}
	_, err := term.PrintBlock(o.Out, text)
	return err
}
