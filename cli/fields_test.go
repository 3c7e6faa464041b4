package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/test/golden"
)

// TestFieldsReference compares docs/reference/output-fields.md with what commands print; with -update it writes the page.
func TestFieldsReference(t *testing.T) {
	var page strings.Builder
	page.WriteString("# Fields of `-o json`\n\nGenerated from the types: `go test ./cli -run TestFieldsReference -update` writes it. `-o fields` of a command prints its part.\n\n" +
		"`-o json`, `-o yaml`, and templates have the rows in `.items`; `-o custom-columns` starts at a row. Names say their units: `Bytes`, `Seconds`, `milliGPU` (1000 is a GPU), `Micros` (millionths\n" +
		"of the currency). `[*]` stands for each element of a list, and `KEY` for any key. [Tables and output formats](output.md) describes the formats.\n")
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if text := c.Annotations[term.FieldsAnnotation]; text != "" {
			fmt.Fprintf(&page, "\n## %s\n\n```text\n%s```\n", c.CommandPath(), text)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(cli.New(cli.Options{}))
	golden.File(t, "../../docs/reference/output-fields.md", page.String())
}

func TestFieldsAreKnown(t *testing.T) {
	for _, tt := range []struct {
		name, args, says string
		code             int
	}{
		{"a field with a letter too many", "nodes -o custom-columns=A:.noode", `column A: there is no field "noode"; did you mean "node"?`, 2},
		{"a field of a holder", "gpus -o custom-columns=A:.holders[*].nam", `there is no field "nam"; did you mean "name"?`, 2},
		{"a field that is like none", "gpus -n research -o custom-columns=C:.price.such", `there is no field "price" here, only `, 2},
		{"a field in jsonpath", "nodes -o jsonpath={.items[*].nod}", `there is no field "nod"; did you mean "node"?`, 2},
		{"a field in a filter", `doctor -o jsonpath={.items[?(@.statu=="fail")].seen}`, `there is no field "statu"; did you mean "status"?`, 2},
		{"a field in a range", "nodes -o jsonpath={range.items[*]}{.held}{.frei}{end}", `there is no field "frei"; did you mean "free"?`, 2},
		{"the list, as if it were a row", "nodes -o jsonpath={.node}", `there is no field "node" here, only apiVersion, items, kind, pools, total`, 2},
		{"keys of maps are free", "nodes -o custom-columns=A:.node", "gpu-a100-1", 0},
		{"what a command prints with --by is known, too", "nodes --by zone -o custom-columns=V:.value,N:.nodes", "V", 0},
		{"the fields of rows, without a cluster", "train show -o fields", "TrainingDetailList", 0},
		{"the fields of holders", "gpus -o fields", "holders[*].milliGPU", 0},
		{"a format that is misspelled", "nodes -o jsno", `invalid --output "jsno": must be json, yaml, wide, name, fields, or a template; did you mean "json"?`, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, code := newStage(t, lab()...).run(append([]string{"berth"}, strings.Split(tt.args, " ")...)...)
			if code != tt.code || !strings.Contains(stdout+stderr, tt.says) {
				t.Errorf("berth %s: exit code %d, want %d and %q; it says\n%s%s", tt.args, code, tt.code, tt.says, stdout, stderr)
			}
		})
	}
}
