package explain_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth.dev/berth/core/explain"
)

// TestEveryCodeIsInTheCatalog holds the constants of codes and the catalog to one
// another, and the catalog to its order.
func TestEveryCodeIsInTheCatalog(t *testing.T) {
	var codes []explain.Code
	for _, name := range []string{"code.go", "codes.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(lit.Value, `"BERTH-`) {
				text, _ := strconv.Unquote(lit.Value)
				codes = append(codes, explain.Code(text))
			}
			return true
		})
	}
	for _, code := range codes {
		if _, ok := explain.Find(string(code)); !ok {
			t.Errorf("%s is not in the catalog", code)
		}
	}
	for i, e := range explain.Catalog {
		if !slices.Contains(codes, e.Code) || i > 0 && e.Code <= explain.Catalog[i-1].Code {
			t.Errorf("%s is not a constant, or out of order", e.Code)
		}
		if e.Title == "" || e.Proof == "" || e.Helps == "" || e.Try() == "" || strings.HasSuffix(e.Helps, ".") {
			t.Errorf("%s: %+v lacks a part, or ends with a full stop", e.Code, e)
		}
	}
}

func TestFindTakesACodeAsPeopleWriteIt(t *testing.T) {
	for _, text := range []string{"BERTH-C12", "c12", " berth-c12"} {
		if e, ok := explain.Find(text); !ok || e.Code != explain.CodeCPU {
			t.Errorf("Find(%q) = %v, %v", text, e.Code, ok)
		}
	}
	if _, ok := explain.Find("Z99"); ok {
		t.Error("there is no BERTH-Z99")
	}
}
