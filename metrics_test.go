package berth_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMetricsPage holds docs/metrics.md to the metrics that the activator, the scheduler, the controllers, and what sends
// readings have, with their labels.
// rows: GS-87
func TestMetricsPage(t *testing.T) {
	inCode := map[string]string{}
	for _, dir := range []string{"activator", "scheduler", "controller", "metrics/send"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				var name string
				var labels []string
				switch n := n.(type) {
				case *ast.CallExpr:
					name, labels = metricOf(n)
				case *ast.CompositeLit:
					name, labels = familyOf(n)
				}
				if name != "" {
					inCode[name] = strings.Join(labels, ",")
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile("docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	onPage := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+_[a-z_]+)(?:\\{([A-Za-z,]*)\\})?` \\|").FindAllStringSubmatch(string(page), -1) {
		onPage[row[1]] = row[2]
	}
	if diff := cmp.Diff(inCode, onPage); diff != "" {
		t.Errorf("metrics and their labels, -code +docs/metrics.md\n%s", diff)
	}
	if !slices.Contains(slices.Collect(maps.Keys(inCode)), "berth_queue_oldest_wait_seconds") || len(inCode) < 30 {
		t.Errorf("only %d metrics were found in the code: the test reads it no longer", len(inCode))
	}
}

// TestMetricsPageOfTheAgent holds docs/reference/node-metrics.md to the metrics of the node agent that are Berth's own.
// rows: GS-87
func TestMetricsPageOfTheAgent(t *testing.T) {
	var inCode, onPage []string
	files, err := filepath.Glob("agent/exporter/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(files, "docs/reference/node-metrics.md") {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasSuffix(path, ".md"):
			for _, row := range regexp.MustCompile("(?m)^\\| `(berth_[a-z_]+)` \\|").FindAllSubmatch(raw, -1) {
				onPage = append(onPage, string(row[1]))
			}
		case !strings.HasSuffix(path, "_test.go"):
			for _, head := range regexp.MustCompile(`appendHead\(b, "(berth_[a-z_]+)"`).FindAllSubmatch(raw, -1) {
				inCode = append(inCode, string(head[1]))
			}
		}
	}
	slices.Sort(inCode)
	slices.Sort(onPage)
	if diff := cmp.Diff(inCode, onPage); diff != "" || len(inCode) < 9 {
		t.Errorf("metrics of the agent, -code +docs/reference/node-metrics.md\n%s", diff)
	}
}

var makesMetric = regexp.MustCompile(`^New(Counter|Gauge|Histogram)(Vec)?$`)

// metricOf returns the name and labels of a metric that a call makes; "" is none.
func metricOf(call *ast.CallExpr) (name string, labels []string) {
	var makes string
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		makes = f.Sel.Name
	case *ast.Ident:
		makes = f.Name
	}
	switch {
	case len(call.Args) == 0:
	case makes == "gauge" || makes == "desc":
		return text(call.Args[0]), texts(call.Args[min(2, len(call.Args)):])
	case makes == "NewDesc" && len(call.Args) > 2:
		return text(call.Args[0]), texts(listed(call.Args[2]))
	case makesMetric.MatchString(makes):
		options, _ := call.Args[0].(*ast.UnaryExpr)
		literal, _ := call.Args[0].(*ast.CompositeLit)
		if options != nil {
			literal, _ = options.X.(*ast.CompositeLit)
		}
		if literal == nil {
			return "", nil
		}
		for _, e := range literal.Elts {
			if field, ok := e.(*ast.KeyValueExpr); ok && field.Key.(*ast.Ident).Name == "Name" {
				name = text(field.Value)
			}
		}
		if len(call.Args) > 1 {
			labels = texts(listed(call.Args[1]))
		}
	}
	return name, labels
}

// familyOf returns the name and labels of a metric that is written out as a value, as those of the meter are; "" is none.
func familyOf(l *ast.CompositeLit) (name string, labels []string) {
	if of, ok := l.Type.(*ast.Ident); !ok || of.Name != "family" || len(l.Elts) != 3 {
		return "", nil
	}
	return text(l.Elts[0]), texts(listed(l.Elts[2]))
}

// listed is the elements of a list that is written out; nil is another expression.
func listed(e ast.Expr) []ast.Expr {
	if list, ok := e.(*ast.CompositeLit); ok {
		return list.Elts
	}
	return nil
}

func texts(list []ast.Expr) (out []string) {
	for _, e := range list {
		out = append(out, text(e))
	}
	return out
}

// text is a string that is written out; "" is another expression.
func text(e ast.Expr) string {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	out, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return out
}
