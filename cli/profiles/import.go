package profiles

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/profile"
)

// profilesImport is `berth profiles import`.
type profilesImport struct {
	notebook.Command
	values  valuesFlags
	skipBad bool
	dryRun  bool
}

func newProfilesImport(o client.Options) *cobra.Command {
	p := &profilesImport{Command: notebook.Command{Options: o}}
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import the profiles of a values file as NotebookProfiles",
		Long: "Import the profiles of a values file to the cluster, each as a NotebookProfile named by its slug. If any\n" +
			"profile has an error, none is imported, unless --skip-bad skips those. The API server validates all of them\n" +
			"before the first is written. Existing NotebookProfiles are updated. Warnings and notes do not prevent the\n" +
			"import; `berth profiles lint` shows them.",
		Example: "  berth profiles import values.yaml\n  berth profiles import values.yaml --dry-run\n  berth profiles import hub.yaml -f common.yaml",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return p.run(cmd.Context(), args[0]) },
	}
	p.Cluster.AddFlags(cmd, false)
	p.values.add(cmd)
	f := cmd.Flags()
	f.BoolVar(&p.skipBad, "skip-bad", false, "import the valid profiles, and skip the others")
	f.BoolVar(&p.dryRun, "dry-run", false, "validate on the API server, and write nothing")
	return cmd
}

func (p *profilesImport) run(ctx context.Context, path string) error {
	f, err := p.values.read(p.Options, path)
	if err != nil {
		return err
	}
	f.Check()
	var wrong []profile.Finding
	for _, each := range f.Findings {
		if each.Level == profile.Wrong {
			wrong = append(wrong, each)
		}
	}
	if err := printFindings(p.Options.Err, wrong); err != nil {
		return err
	}
	switch {
	case len(f.Profiles) == 0:
		return fmt.Errorf("%s: none of its profiles is valid, so nothing was imported", f.Name)
	case len(wrong) > 0 && !p.skipBad:
		return fmt.Errorf("%s: nothing was imported because of the errors above; fix them, or import the other %s with --skip-bad",
			f.Name, term.Count(len(f.Profiles), "profile"))
	}
	n, err := p.Connect()
	if err != nil {
		return err
	}
	return p.write(ctx, n, f)
}

// write writes the profiles: all of them to the API server's check, then all for
// good.
func (p *profilesImport) write(ctx context.Context, n *notebook.Notebooks, f *profile.File) error {
	to := n.Client.Resource(v1alpha1.NotebookProfiles)
	for _, dry := range [][]string{{metav1.DryRunAll}, nil} {
		if p.dryRun && dry == nil {
			break
		}
		for i := range f.Profiles {
			l := &f.Profiles[i]
			did, err := put(ctx, to, &l.NotebookProfile, dry)
			if err != nil {
				what := fmt.Sprintf("import profile %s (%s)", l.Name, l.Spec.Source)
				if notebook.NoSuchKind(err) {
					return fmt.Errorf("%s on %s: this cluster does not serve NotebookProfiles; install `%s controller`", what, n.Name, n.Program())
				}
				return n.Failed(what, err)
			}
			if (dry == nil) != p.dryRun {
				term.Printf(p.Options.Out, "profile %s %s%s\n", l.Name, did, map[bool]string{true: " (dry run)"}[p.dryRun])
			}
		}
	}
	return p.left(ctx, n, f)
}

// put creates or changes one profile, and says which. What is as the file says is
// not written.
func put(ctx context.Context, to dynamic.ResourceInterface, p *v1alpha1.NotebookProfile, dry []string) (did string, err error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	want := &unstructured.Unstructured{}
	if err := want.UnmarshalJSON(raw); err != nil {
		return "", err
	}
	unstructured.RemoveNestedField(want.Object, "metadata", "creationTimestamp")
	there, err := to.Get(ctx, p.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && !notebook.NoSuchKind(err):
		_, err = to.Create(ctx, want, metav1.CreateOptions{DryRun: dry, FieldManager: "berth", FieldValidation: metav1.FieldValidationStrict})
		return "imported", err
	case err != nil:
		return "", err
	case reflect.DeepEqual(there.Object["spec"], want.Object["spec"]):
		return "unchanged", nil
	}
	there.Object["spec"] = want.Object["spec"]
	_, err = to.Update(ctx, there, metav1.UpdateOptions{DryRun: dry, FieldManager: "berth", FieldValidation: metav1.FieldValidationStrict})
	return "changed", err
}

// left tells of profiles of the same file that are not in it any more.
func (p *profilesImport) left(ctx context.Context, n *notebook.Notebooks, f *profile.File) error {
	has := map[string]bool{}
	for i := range f.Profiles {
		has[f.Profiles[i].Name] = true
	}
	list, err := n.Profiles(ctx)
	if err != nil {
		return nil //nolint:nilerr // what was asked for is done; this was to be told besides
	}
	for i := range list {
		name := list[i].Name
		if from, _, _ := strings.Cut(list[i].Spec.Source, ":"); from == filepath.Base(f.Name) && !has[name] {
			term.Printf(p.Options.Err, "profile %s was imported from %s, which no longer has it; `kubectl delete notebookprofile %s` deletes it\n", name, from, name)
		}
	}
	return nil
}
