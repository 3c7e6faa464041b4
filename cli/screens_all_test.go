package cli_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// madeHeads are words of the heads of tables that are not written in one place, by file and function.
var madeHeads = map[string][]string{
	"query/query.go table":          {"HOSTNAME", "GPU", "VALUE"},
	"simulate/table.go reportTable": {"POLICY", "AT 100%", "RUN S", "US EACH"},
	"simulate/table.go waitTable":   {"POLICY", "LOAD", "ALLOCATED"},
	"cost/cost.go print":            {"NAMESPACE", "GPU-HOURS", "COST"},
	"nodes/by.go print":             {"NODES", "GPUS", "HELD"},
}

// TestEachTableHasScreens finds where commands make tables, and for each a reviewed file of screens that shows it.
func TestEachTableHasScreens(t *testing.T) {
	var heads []string // lines of the files on their widest screen
	for _, pattern := range []string{"testdata/screens*.txt", "*/testdata/screens*.txt"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			_, wide, _ := strings.Cut(string(text), "-- 200 columns --\n")
			heads = append(heads, strings.Split(wide, "\n")...)
		}
	}
	shown := func(words []string) bool {
		for _, line := range heads {
			if inOrder(line, words) {
				return true
			}
		}
		return false
	}
	found := 0
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "term/") {
			return err
		}
		tables, err := tablesOf(path)
		for at, words := range tables {
			if made := madeHeads[at]; made != nil {
				words = made
			}
			if found++; len(words) == 0 {
				t.Errorf("%s: the head of this table is not read; name words of it in madeHeads", at)
			} else if !shown(words) {
				t.Errorf("%s: no file of screens has a line with %q; add the command to TestScreens", at, words)
			}
		}
		return err
	})
	if err != nil || found < 35 {
		t.Fatalf("%d tables are found, %v", found, err)
	}
}

// inOrder reports whether a line has words, each after the one before it.
func inOrder(line string, words []string) bool {
	for _, word := range words {
		_, rest, found := strings.Cut(line, word)
		if !found {
			return false
		}
		line = rest
	}
	return true
}

// tablesOf are the words of the heads of tables that a file makes, by file and function.
func tablesOf(path string) (map[string][]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lists := map[string][]string{} // of words, by variable
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Names) == 1 && len(v.Values) == 1 {
			lists[v.Names[0].Name] = texts(v.Values[0])
		}
		return true
	})
	out := map[string][]string{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			c, ok := n.(*ast.CompositeLit)
			if !ok || !isTable(c.Type) {
				return true
			}
			var words []string
			for _, e := range c.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok && kv.Key.(*ast.Ident).Name == "Head" {
					words = texts(kv.Value)
					ast.Inspect(kv.Value, func(n ast.Node) bool {
						if name, ok := n.(*ast.Ident); ok {
							words = append(words, lists[name.Name]...)
						}
						return true
					})
				}
			}
			out[path+" "+f.Name.Name] = words
			return true
		})
	}
	return out, nil
}

// texts are the strings written in an expression.
func texts(e ast.Expr) (out []string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if text, err := strconv.Unquote(l.Value); err == nil {
				out = append(out, text)
			}
		}
		return true
	})
	return out
}

// isTable reports whether a type is term.Table.
func isTable(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Table" {
		return false
	}
	of, ok := s.X.(*ast.Ident)
	return ok && of.Name == "term"
}
