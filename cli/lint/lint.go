// Package lint is `berth lint`: it reads manifests, and prints what kube/lint finds in them.
package lint

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/internal/buildinfo"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/lint"
)

// PluginConfig reads a configuration of NVIDIA's device plugin; the strings are warnings.
type PluginConfig = lint.PluginConfig

// command is `berth lint`.
type command struct {
	o      client.Options
	read   lint.Reader
	files  []string
	output term.Output
}

// New makes `berth lint`.
func New(o client.Options, read PluginConfig) *cobra.Command {
	l := &command{o: o, read: lint.Reader{PluginConfig: read}}
	cmd := &cobra.Command{
		Use:   "lint -f FILE",
		Short: "Find in manifests what keeps pods from using GPUs, before they are applied",
		Long: "Read manifests and print, with file and line, what Kubernetes would refuse, what keeps pods from using GPUs, and\n" +
			"what does something other than it says: requests unlike limits, quotas and LimitRanges that do not limit GPUs,\n" +
			"fields in the wrong place, misspelled resources, labels that no node has, configurations of the device plugin, and\n" +
			"more. Each finding is ok, warn (it works, but may surprise you), or fail (it does not work), and suggests a fix.\n" +
			"No cluster is needed, and nothing is applied. Exits with code 3 if a finding is a fail.",
		Example: "  berth lint -f job.yaml\n  berth lint -f manifests/ -o json\n  kubectl kustomize overlays/prod | berth lint -f -",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return l.run() },
	}
	l.output.AddFlags(cmd, term.Rows{Kind: "FindingList", Row: lint.Finding{}})
	cmd.Flags().Lookup("output").Usage += "; sarif and junit for CI"
	cmd.Flags().StringArrayVarP(&l.files, "filename", "f", nil, "file or folder with manifests (*.yaml, *.yml, and *.json); - is standard input; may be repeated")
	return cmd
}

func (l *command) run() error {
	switch l.output.Format {
	case term.OutputName:
		return term.Usagef("--output name: not supported for findings; use json, yaml, sarif, junit, jsonpath=..., or go-template=...")
	case finding.FormatSARIF, finding.FormatJUnit:
	default:
		if err := l.output.Check(); err != nil {
			return err
		}
	}
	if len(l.files) == 0 {
		return term.Usagef("-f is missing: name a file or a folder with manifests, or - for standard input")
	}
	paths, err := client.Manifests(l.files)
	if err != nil {
		return err
	}
	found := []lint.Finding{}
	var unread []error
	for _, path := range paths {
		list, err := client.ReadFile(l.o, path, func(name string, r io.Reader) ([]lint.Finding, error) {
			data, err := io.ReadAll(r)
			return lint.Check(name, data, l.read), err
		})
		if err != nil {
			unread = append(unread, err)
			continue
		}
		found = append(found, list...)
	}
	if err := l.write(found, len(paths)-len(unread)); err != nil {
		return err
	}
	if len(unread) > 0 {
		return errors.Join(unread...)
	}
	if slices.ContainsFunc(found, func(f lint.Finding) bool { return f.Status == finding.Fail }) {
		return term.ErrFound
	}
	return nil
}

// write prints the findings as was asked for, and for a person a last line that counts them.
func (l *command) write(found []lint.Finding, files int) error {
	if l.output.Format == finding.FormatSARIF || l.output.Format == finding.FormatJUnit {
		placed := make([]finding.Placed, len(found))
		for i := range found {
			placed[i] = finding.Placed{Finding: found[i].Finding, File: found[i].File, Line: found[i].Line, Object: found[i].Object}
		}
		return finding.Encode(l.o.Out, l.output.Format, "berth lint", buildinfo.Version, placed)
	}
	if l.output.Object() {
		return term.Write(l.o.Out, &l.output, term.NewList("FindingList", found))
	}
	counts, screen := map[finding.Status]int{}, term.ScreenOf(l.o.Out)
	for i := range found {
		f := &found[i]
		counts[f.Status]++
		where := strings.Join(slices.DeleteFunc([]string{f.Object, f.Field}, func(s string) bool { return s == "" }), ", ")
		text := fmt.Sprintf("%s:%d: %s %s: %s", f.File, f.Line, f.Status, f.Name, cmp.Or(where, "the document"))
		lines := []string{text}
		for _, part := range []string{f.Seen, arrow(f.Do)} {
			if part != "" {
				lines = append(lines, "  "+part)
			}
		}
		if _, err := term.PrintBlock(l.o.Out, screen.Wrapped(lines...)); err != nil {
			return err
		}
	}
	_, err := term.PrintLine(l.o.Out, fmt.Sprintf("%s: %d ok, %d to look at, %d to change", term.Count(files, "file"), counts[finding.OK], counts[finding.Warn], counts[finding.Fail]))
	return err
}

func arrow(do string) string {
	if do == "" {
		return ""
	}
	return "-> " + do
}
