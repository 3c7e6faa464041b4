// Package profiles is `berth profiles`: what a JupyterHub's values files offer, what is wrong
// with them, and the notebooks that come of them.
package profiles

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/profile"
)

// New makes `berth profiles`.
func New(o client.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "profiles",
		Aliases: []string{"profile"},
		Short:   "Check, import, render, and list the profiles of a JupyterHub",
		Long: "Manage the profiles of a JupyterHub: singleuser.profileList in the values file of zero-to-jupyterhub, or of a\n" +
			"chart around it (under jupyterhub: or basehub:). A profile results in the same pod as with kubespawner.\n" +
			"An imported profile is a NotebookProfile, from which `berth notebook create --profile` creates notebooks.",
		Example: "  berth profiles lint values.yaml\n  berth profiles import values.yaml\n  berth profiles list\n" +
			"  berth profiles render values.yaml --profile gpu --for ada --option image=pytorch",
		Args: term.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newProfilesLint(o), newProfilesImport(o), newProfilesRender(o), newProfilesList(o), newProfilesClaims(o))
	return cmd
}

// valuesFlags are the values files under the one with the profiles.
type valuesFlags struct{ under []string }

func (v *valuesFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&v.under, "values", "f", nil, "values file that FILE overrides, as with helm -f (repeatable, lowest precedence first)")
}

// read reads a values file over those under it; "-" is standard input.
func (v *valuesFlags) read(o client.Options, path string) (*profile.File, error) {
	var all []profile.Source
	for _, each := range append(slices.Clone(v.under), path) {
		source, err := client.ReadFile(o, each, func(name string, r io.Reader) (profile.Source, error) {
			raw, err := io.ReadAll(io.LimitReader(r, profile.LargestFile+1))
			if err != nil {
				return profile.Source{}, fmt.Errorf("read %s: %w", name, err)
			}
			return profile.Source{Name: name, Raw: raw}, nil
		})
		if err != nil {
			return nil, err
		}
		all = append(all, source)
	}
	last := len(all) - 1
	return profile.Read(all[last].Name, all[last].Raw, all[:last]...)
}

// isFile reports whether an argument that is a file or a profile's name is a file.
func isFile(arg string) bool {
	if arg == "-" || strings.ContainsAny(arg, `/\`) || strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml") {
		return true
	}
	info, err := os.Stat(arg)
	return err == nil && info.Mode().IsRegular()
}

// tally counts findings by level.
func tally(list []profile.Finding) (wrong, doubt, remarks int) {
	for i := range list {
		switch list[i].Level {
		case profile.Wrong:
			wrong++
		case profile.Doubt:
			doubt++
		default:
			remarks++
		}
	}
	return wrong, doubt, remarks
}
