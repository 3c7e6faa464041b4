package term

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/printers"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/input"
)

// The formats of --output that are not objects.
const (
	outputTable = ""
	OutputWide  = "wide"
	OutputName  = "name"
)

// List is what a command prints as an object. Rows are never changed once they
// are in it.
type List[T any] struct {
	metav1.TypeMeta `json:",inline"`
	Items           []T `json:"items"`
	Total           any `json:"total,omitempty"`
	Pools           any `json:"pools,omitempty"`
}

// NewList makes the list of a kind, such as "NodeList".
func NewList[T any](kind string, rows []T) *List[T] {
	if rows == nil {
		rows = []T{}
	}
	return &List[T]{TypeMeta: metav1.TypeMeta{APIVersion: "berth.dev/v1alpha1", Kind: kind}, Items: rows}
}

// DeepCopyObject is a copy that shares the rows.
func (l *List[T]) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = slices.Clone(l.Items)
	return &c
}

// Output are --output and what goes with it.
type Output struct {
	Format       string
	NoHeaders    bool
	rows         []Rows
	template     string // --template, as kubectl has it
	allowMissing bool
}

// AddFlags adds --output and its companions to a command that prints rows: -o fields lists their fields without a cluster, and
// Check holds the paths of other formats to them. The command has its RunE already.
func (f *Output) AddFlags(cmd *cobra.Command, rows ...Rows) {
	f.addRows(cmd, rows)
	own := cmd.Flags()
	own.StringVarP(&f.Format, "output", "o", "", "json, yaml, wide, name, fields, jsonpath=..., go-template=... or custom-columns=...")
	own.BoolVar(&f.NoHeaders, "no-headers", false, "omit the line of column names")
	own.StringVar(&f.template, "template", "", "template for -o go-template or jsonpath, or file for -o go-template-file")
	own.BoolVar(&f.allowMissing, "allow-missing-template-keys", true, "print nothing if a field or key of a template is missing")
	for _, name := range []string{"template", "allow-missing-template-keys"} {
		own.Lookup(name).Hidden = true
	}
}

// Object reports whether an object is to be printed, not a table or names.
func (f *Output) Object() bool {
	return f.Format != outputTable && f.Format != OutputWide && f.Format != OutputName || f.template != ""
}

// Screen is the screen that a table is shown on: with -o wide no column is left out, and no name is cut.
func (f *Output) Screen(w io.Writer) Screen {
	s := ScreenOf(w)
	s.Cut = s.Cut && f.Format != OutputWide
	s.Wider = "-o " + OutputWide
	return s
}

// Check refuses a format that no printer understands, before any call is made.
func (f *Output) Check() error {
	if !f.Object() {
		return nil
	}
	if !f.columns() {
		if _, err := f.printer(); err != nil {
			return err
		}
		format, text, _ := strings.Cut(f.Format, "=")
		if format != "jsonpath" && format != "jsonpath-as-json" {
			return nil
		}
		if err := f.known(cmp.Or(text, f.template), listOf); err != nil {
			return Usagef("--output %s: %w", f.Format, err)
		}
		return nil
	}
	columns, err := parseColumns(f.Format)
	if err != nil {
		return Usagef("--output %s: %w", f.Format, err)
	}
	for i := range columns {
		if err := f.known(columns[i].text, func(row reflect.Type) reflect.Type { return row }); err != nil {
			return Usagef("--output %s: column %s: %w", f.Format, columns[i].name, err)
		}
	}
	return nil
}

// formats are the names that --output begins with.
var formats = []string{
	"json", "yaml", "wide", "name", "fields", "jsonpath", "jsonpath-file", "jsonpath-as-json", "go-template", "go-template-file", "custom-columns", "custom-columns-file",
}

// printer makes the printer of a format other than columns.
func (f *Output) printer() (printers.ResourcePrinter, error) {
	format, template, given := strings.Cut(f.Format, "=")
	if !given {
		template = f.template
	}
	if format == "" {
		format = "go-template"
	}
	if (strings.HasSuffix(format, "-file") || format == "templatefile") && template != "" {
		raw, err := input.ReadFile(template, input.Config)
		if err != nil {
			return nil, Usagef("--output %s: read the template: %w", f.Format, err)
		}
		template = string(raw)
	}
	switch format {
	case "json":
		return &printers.JSONPrinter{}, nil
	case "yaml":
		return &YAMLPrinter{}, nil
	case "jsonpath", "jsonpath-file", "jsonpath-as-json", "go-template", "go-template-file", "template", "templatefile":
		if template == "" {
			return nil, Usagef("--output %s: it needs a template, such as -o jsonpath={.items}", f.Format)
		}
	default:
		if near := gpu.NearestWord(format, formats); near != "" {
			return nil, Usagef("invalid --output %q: must be json, yaml, wide, name, fields, or a template; did you mean %q?", f.Format, near)
		}
		return nil, Usagef("invalid --output %q: must be json, yaml, wide, name, fields, jsonpath=..., go-template=... or custom-columns=...", f.Format)
	}
	p, err := f.templatePrinter(format, template)
	if err != nil {
		return nil, Usagef("--output %s: %w", f.Format, err)
	}
	return p, nil
}

// templatePrinter makes the printer of a template.
func (f *Output) templatePrinter(format, template string) (printers.ResourcePrinter, error) {
	if strings.HasPrefix(format, "jsonpath") {
		p, err := printers.NewJSONPathPrinter(template)
		if err != nil {
			return nil, fmt.Errorf("jsonpath %s: %w", template, err)
		}
		p.AllowMissingKeys(f.allowMissing)
		p.EnableJSONOutput(format == "jsonpath-as-json")
		return p, nil
	}
	p, err := printers.NewGoTemplatePrinter([]byte(template))
	if err != nil {
		return nil, fmt.Errorf("template %s: %w", template, err)
	}
	p.AllowMissingKeys(f.allowMissing)
	return p, nil
}

func (f *Output) columns() bool { return strings.HasPrefix(f.Format, "custom-columns") }

// Write prints a list in the format asked for.
func Write[T any](w io.Writer, f *Output, l *List[T]) error {
	if !f.columns() {
		p, err := f.printer()
		if err != nil {
			return err
		}
		return p.PrintObj(l, Exact(w))
	}
	columns, err := parseColumns(f.Format)
	if err != nil {
		return Usagef("--output %s: %w", f.Format, err)
	}
	rows := make([]map[string]any, len(l.Items))
	for i := range l.Items {
		if rows[i], err = asMap(l.Items[i]); err != nil {
			return fmt.Errorf("print row %d: %w", i, err)
		}
	}
	return writeColumns(w, columns, f.NoHeaders, rows)
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
