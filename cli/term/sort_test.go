package term_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/cli/term"
)

func TestSort(t *testing.T) {
	for _, tt := range []struct {
		by, want, err string
	}{
		{"", "b 10 | a 9 | c - | TOTAL 19", ""},
		{"node", "a 9 | b 10 | c - | TOTAL 19", ""},
		{"GPUS", "c - | a 9 | b 10 | TOTAL 19", ""},
		{"-gpus", "b 10 | a 9 | c - | TOTAL 19", ""},
		{"gpu", "", `invalid --sort-by "gpu": there is no such column; did you mean "gpus"?`},
		{"price", "", `invalid --sort-by "price": must be one of the columns node, gpus`},
	} {
		t.Run("by "+tt.by, func(t *testing.T) {
			table := &term.Table{Head: []string{"NODE", "GPUS"}, Gap: 1}
			table.Add("b", "10 (80%)")
			table.Add("a", "9")
			table.Add("c", "-")
			table.Add("TOTAL", "19")
			err := table.Sort(tt.by, 1)
			if err != nil {
				if err.Error() != tt.err {
					t.Errorf("got %q, want %q", err, tt.err)
				}
				return
			}
			var out strings.Builder
			if err := table.Write(&out, term.Screen{}, true); err != nil {
				t.Fatal(err)
			}
			var rows []string
			for line := range strings.Lines(out.String()) {
				rows = append(rows, strings.Join(strings.Fields(line)[:2], " "))
			}
			if diff := cmp.Diff(tt.want, strings.Join(rows, " | ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
