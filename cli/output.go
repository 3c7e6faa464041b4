package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
)

const (
	outputTable = ""
	outputWide  = "wide"
	outputName  = "name"
)

// list is what a command prints as an object. Rows are never changed once they
// are in it.
type list[T any] struct {
	metav1.TypeMeta `json:",inline"`
	Items           []T `json:"items"`
	Total           any `json:"total,omitempty"`
}

func newList[T any](kind string, rows []T) *list[T] {
	if rows == nil {
		rows = []T{}
	}
	return &list[T]{TypeMeta: metav1.TypeMeta{APIVersion: "berth.dev/v1alpha1", Kind: kind}, Items: rows}
}

// DeepCopyObject is a copy that shares the rows.
func (l *list[T]) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = slices.Clone(l.Items)
	return &c
}

// outputFlags are --output and what goes with it.
type outputFlags struct {
	format    string
	noHeaders bool
	print     *genericclioptions.PrintFlags
}

func (f *outputFlags) add(cmd *cobra.Command) {
	f.print = genericclioptions.NewPrintFlags("")
	f.print.JSONYamlPrintFlags.ShowManagedFields = true // there are none to leave out
	f.print.OutputFormat = &f.format
	f.print.TemplatePrinterFlags.AddFlags(cmd)
	for _, name := range []string{"template", "allow-missing-template-keys"} {
		cmd.Flags().Lookup(name).Hidden = true
	}
	cmd.Flags().StringVarP(&f.format, "output", "o", "", "json, yaml, wide, name, jsonpath=..., go-template=... or custom-columns=...")
	cmd.Flags().BoolVar(&f.noHeaders, "no-headers", false, "leave out the line of column names")
	f.print.OutputFlagSpecified = func() bool { return cmd.Flags().Changed("output") }
}

// object tells whether an object is to be printed, not a table or names.
func (f *outputFlags) object() bool {
	return f.format != outputTable && f.format != outputWide && f.format != outputName || *f.print.TemplatePrinterFlags.TemplateArgument != ""
}

// check refuses a format that no printer understands, before any call is made.
func (f *outputFlags) check() error {
	if !f.object() {
		return nil
	}
	if !f.columns() {
		_, err := f.printer()
		return err
	}
	if _, err := parseColumns(f.format); err != nil {
		return usagef("--output %s: %w", f.format, err)
	}
	return nil
}

func (f *outputFlags) printer() (printers.ResourcePrinter, error) {
	p, err := f.print.ToPrinter()
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return nil, usagef("--output %q: choose json, yaml, wide, name, jsonpath=..., go-template=... or custom-columns=...", f.format)
	}
	if err != nil {
		return nil, usagef("--output %s: %w", f.format, err)
	}
	return p, nil
}

func (f *outputFlags) columns() bool { return strings.HasPrefix(f.format, "custom-columns") }

// write prints a list in the format asked for.
func write[T any](w io.Writer, f *outputFlags, l *list[T]) error {
	if !f.columns() {
		p, err := f.printer()
		if err != nil {
			return err
		}
		return p.PrintObj(l, w)
	}
	columns, err := parseColumns(f.format)
	if err != nil {
		return usagef("--output %s: %w", f.format, err)
	}
	rows := make([]map[string]any, len(l.Items))
	for i := range l.Items {
		if rows[i], err = asMap(l.Items[i]); err != nil {
			return fmt.Errorf("print row %d: %w", i, err)
		}
	}
	return writeColumns(w, columns, f.noHeaders, rows)
}

// asMap is a row as its JSON has it, whole numbers kept whole.
func asMap(row any) (map[string]any, error) {
	raw, err := json.Marshal(row)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	err = json.Unmarshal(raw, &out)
	return out, err
}
