package lint

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"berth.dev/berth/internal/strictyaml"
	"berth.dev/berth/kube/exporter"
)

// exprKey is where rules of Prometheus and dashboards of Grafana have an expression of PromQL.
const exprKey = "expr"

// query judges an expression of PromQL in an object; line 0 is that of the field. Names of series are judged as in any text: see metricNames.
func (o *object) query(line int, field, expr string) {
	for _, p := range exporter.CheckQuery(expr) {
		o.sayAt(line, field, warn("query", p.Seen, p.Do))
	}
}

// queriesIn judges the expressions in a document that is the text of a field of the object.
func (o *object) queriesIn(value, root *yaml.Node, field string, depth int) {
	root = strictyaml.Follow(root)
	if o.in.left--; root == nil || depth > mostWalk || o.in.left < 0 {
		return
	}
	if expr := at(root, exprKey); expr != nil && expr.Kind == yaml.ScalarNode {
		line := 0
		if value.Style == yaml.LiteralStyle {
			line = value.Line + expr.Line
		}
		o.query(line, field, expr.Value)
	}
	for _, n := range root.Content {
		o.queriesIn(value, n, field, depth+1)
	}
}

// queries judges a block of PromQL in a document: expressions with an empty line or a comment between them.
func (f *manifests) queries(b block) {
	expr, first := "", 0
	end := func() {
		say := func(name, seen, do string) {
			f.add(Finding{Finding: warn(name, seen, do), File: f.file, Line: first, Object: "PromQL"})
		}
		for _, s := range exporter.Unmeasured(expr) {
			say("metric-name", noSeries(s.Name), "use "+s.Instead)
		}
		for _, p := range exporter.CheckQuery(expr) {
			say("query", p.Seen, p.Do)
		}
		expr = ""
	}
	for i, line := range strings.Split(b.text, "\n") {
		switch text := strings.TrimSpace(line); {
		case text == "" || strings.HasPrefix(text, "#"):
			end()
		case expr == "":
			expr, first = text, i+1
		default:
			expr += " " + text
		}
	}
	end()
}

// noSeries says that exporters have no such series.
func noSeries(name string) string {
	return "no exporter of today has " + name + " by default, so the query returns nothing"
}
