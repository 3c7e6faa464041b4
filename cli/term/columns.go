package term

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"

	"berth.dev/berth/internal/input"
	"berth.dev/berth/internal/visible"
)

// noValue stands where a row has nothing at a column's path, as in kubectl.
const noValue = "<none>"

// column is one column of -o custom-columns.
type column struct {
	name string
	text string // of the path, in braces
	path *jsonpath.JSONPath
}

// parseColumns reads what follows -o, in kubectl's two forms:
// custom-columns=NAME:PATH,NAME:PATH with no spaces, and
// custom-columns-file=FILE, a file with the names in its first line and the
// paths below them. A path may leave out the braces and the first dot.
func parseColumns(format string) ([]column, error) {
	kind, rest, _ := strings.Cut(format, "=")
	var names, paths []string
	switch {
	case kind == "custom-columns" && rest != "":
		for part := range strings.SplitSeq(rest, ",") {
			name, path, ok := strings.Cut(part, ":")
			if !ok {
				return nil, fmt.Errorf("invalid column %q: must be NAME:PATH, such as NODE:.node", part)
			}
			names, paths = append(names, name), append(paths, path)
		}
	case kind == "custom-columns-file" && rest != "":
		raw, err := input.ReadFile(rest, input.Config)
		if err != nil {
			return nil, fmt.Errorf("read the columns: %w", err)
		}
		lines := strings.SplitN(string(raw), "\n", 3)
		if len(lines) < 2 {
			return nil, fmt.Errorf("%s: the first line must have the names and the second the paths", rest)
		}
		names, paths = strings.Fields(lines[0]), strings.Fields(lines[1])
		if len(names) != len(paths) || len(names) == 0 {
			return nil, fmt.Errorf("%s: %d names but %d paths; each column needs both", rest, len(names), len(paths))
		}
	default:
		return nil, fmt.Errorf("use custom-columns=NAME:PATH,... or custom-columns-file=FILE")
	}
	columns := make([]column, len(names))
	for i := range names {
		p := jsonpath.New(names[i]).AllowMissingKeys(true)
		if err := p.Parse(fullPath(paths[i])); err != nil {
			return nil, fmt.Errorf("column %s: path %q: %w", names[i], paths[i], err)
		}
		columns[i] = column{name: names[i], text: fullPath(paths[i]), path: p}
	}
	return columns, nil
}

// fullPath adds to a path the braces and the dot that it may leave out.
func fullPath(path string) string {
	path = strings.TrimSuffix(strings.TrimPrefix(path, "{"), "}")
	if !strings.HasPrefix(path, ".") && !strings.HasPrefix(path, "[") {
		path = "." + path
	}
	return "{" + path + "}"
}

// writeColumns prints rows, each as its JSON has it, in aligned columns.
func writeColumns(w io.Writer, columns []column, noHeaders bool, rows []map[string]any) error {
	table := printers.GetNewTabWriter(w)
	cells := make([]string, len(columns))
	if !noHeaders {
		for i := range columns {
			cells[i] = visible.Line(columns[i].name)
		}
		io.WriteString(table, strings.Join(cells, "\t")+"\n")
	}
	for _, row := range rows {
		for i := range columns {
			cell, err := columns[i].of(row)
			if err != nil {
				return err
			}
			cells[i] = visible.Line(cell)
		}
		io.WriteString(table, strings.Join(cells, "\t")+"\n")
	}
	return table.Flush()
}

// of is a row's cell: what is found at the path, several values with commas.
func (c *column) of(row map[string]any) (string, error) {
	found, err := c.path.FindResults(row)
	if err != nil {
		return "", fmt.Errorf("column %s: %w", c.name, err)
	}
	var values []string
	for _, list := range found {
		for _, v := range list {
			values = append(values, fmt.Sprint(v.Interface()))
		}
	}
	if len(values) == 0 {
		return noValue, nil
	}
	return strings.Join(values, ","), nil
}
