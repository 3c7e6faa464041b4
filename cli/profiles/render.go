package profiles

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/profile"
)

// profilesRender is `berth profiles render`.
type profilesRender struct {
	notebook.Command
	values  valuesFlags
	choices profile.Choices
	profile string
	output  string
}

func newProfilesRender(o client.Options) *cobra.Command {
	r := &profilesRender{Command: notebook.Command{Options: o}}
	cmd := &cobra.Command{
		Use:   "render FILE|PROFILE",
		Short: "Print the Notebook that a profile results in",
		Long: "Print the Notebook that a profile and choices result in, and the PersistentVolumeClaim of its user's home\n" +
			"volume, for kubectl apply. The profile is in a values file or in the cluster. Nothing is created.",
		Example: "  berth profiles render values.yaml --for ada\n" +
			"  berth profiles render values.yaml --profile gpu --option image=pytorch --group staff\n" +
			"  berth profiles render gpu --unlisted image=quay.io/ada/mine:1 | kubectl apply -f -",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: r.CompleteProfiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args[0]) },
	}
	r.AddFlags(cmd)
	r.values.add(cmd)
	f := cmd.Flags()
	f.StringVar(&r.profile, "profile", "", "slug of the profile in the file (default: the file's default)")
	f.StringVar(&r.choices.User, "for", "jovyan", "user of the notebook and its home volume")
	f.StringVar(&r.choices.Name, "name", "", "name of the notebook (default: jupyter-USER)")
	f.StringToStringVar(&r.choices.Options, "option", nil, "choice for an option of the profile, as OPTION=CHOICE")
	f.StringToStringVar(&r.choices.Unlisted, "unlisted", nil, "custom value for an option, as OPTION=VALUE")
	f.StringArrayVar(&r.choices.Groups, "group", nil, "group of the user (repeatable)")
	f.StringVarP(&r.output, "output", "o", "yaml", "yaml or json")
	return cmd
}

func (r *profilesRender) run(ctx context.Context, arg string) error {
	if r.output != "yaml" && r.output != "json" {
		return term.Usagef("invalid --output %q: must be yaml or json", r.output)
	}
	r.choices.Namespace = r.Cluster.Overrides.Context.Namespace
	p, err := r.find(ctx, arg)
	if err != nil {
		return err
	}
	nb, claim, warnings, err := profile.Render(p, r.choices)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		term.Printf(r.Options.Err, "warning: %s: %s\n", w.Key, w.Text)
	}
	first, err := notebook.ToObject(nb)
	if err != nil {
		return err
	}
	out := []*unstructured.Unstructured{first}
	if claim != nil {
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(claim)
		if err != nil {
			return fmt.Errorf("write PersistentVolumeClaim %s: %w", claim.Name, err)
		}
		unstructured.RemoveNestedField(raw, "status")
		unstructured.RemoveNestedField(raw, "metadata", "creationTimestamp")
		out = append(out, &unstructured.Unstructured{Object: raw})
	}
	return r.print(out)
}

// find returns the profile of a file or of the cluster.
func (r *profilesRender) find(ctx context.Context, arg string) (*v1alpha1.NotebookProfile, error) {
	var list []v1alpha1.NotebookProfile
	slug := r.profile
	if isFile(arg) {
		f, err := r.values.read(r.Options, arg)
		if err != nil {
			return nil, err
		}
		for i := range f.Profiles {
			list = append(list, f.Profiles[i].NotebookProfile)
		}
		for i := range f.Findings {
			if f.Findings[i].Level == profile.Wrong {
				term.Printf(r.Options.Err, "omitted: %s\n", f.Findings[i].String())
			}
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("%s: none of its profiles can be read", f.Name)
		}
	} else {
		if slug != "" && slug != arg {
			return nil, term.Usagef("--profile requires a file; %s is a profile", arg)
		}
		n, err := r.Connect()
		if err != nil {
			return nil, err
		}
		if list, err = n.Profiles(ctx); err != nil {
			return nil, err
		}
		slug = arg
	}
	return profile.Pick(list, slug, r.choices.Groups)
}

// print writes documents of YAML, or one object of JSON: a List where there are
// several.
func (r *profilesRender) print(list []*unstructured.Unstructured) error {
	if r.output == "json" {
		var all runtime.Object = list[0]
		if len(list) > 1 {
			l := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{}}}
			for _, each := range list {
				l.Items = append(l.Items, *each)
			}
			all = l
		}
		return (&printers.JSONPrinter{}).PrintObj(all, term.Exact(r.Options.Out))
	}
	y := &term.YAMLPrinter{}
	for _, each := range list {
		if err := y.PrintObj(each, term.Exact(r.Options.Out)); err != nil {
			return err
		}
	}
	return nil
}
