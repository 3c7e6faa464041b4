package term_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/cli/term"
)

func TestNarrowScreens(t *testing.T) {
	table := func() *term.Table {
		t := &term.Table{Head: []string{"NODE", "STATE", "GPUS", "WHY"}, Gap: 1, Spare: []string{"GPUS"}}
		t.Add("a-node-with-a-name-of-32-letters", "Ready", "8", "it waits for a GPU of another kind")
		return t
	}
	for _, tt := range []struct {
		name   string
		screen term.Screen
		wrap   bool
		want   []string
	}{
		{"programs read all", term.Screen{Width: 40}, false, []string{
			"NODE                             STATE GPUS WHY",
			"a-node-with-a-name-of-32-letters Ready 8    it waits for a GPU of another kind",
		}},
		{"a long name is cut before a column is left out", term.Screen{Width: 65, Cut: true}, true, []string{
			"NODE                          STATE GPUS WHY",
			"a-node-with-a-…-of-32-letters Ready 8    it waits for a GPU of",
			"                                         another kind",
		}},
		{"what is left out is named", term.Screen{Width: 48, Cut: true, Wider: "-o wide"}, true, []string{
			"NODE              STATE WHY",
			"a-node-w…-letters Ready it waits for a GPU of",
			"                        another kind",
			"left out: GPUS; -o wide shows them",
		}},
		{"without room for text the columns go from the right, and the first stays", term.Screen{Width: 17, Cut: true}, false, []string{
			"NODE       STATE",
			"a-nod…ters Ready",
			"left out: GPUS, WHY; a",
			"  wider terminal shows",
			"  them",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := table()
			table.Wrap = tt.wrap
			var out strings.Builder
			if err := table.Write(&out, tt.screen, false); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Join(tt.want, "\n")+"\n", out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatesHaveColors(t *testing.T) {
	table := &term.Table{Head: []string{"NAME", "STATE"}, Gap: 1}
	table.Add("ready", "Ready")
	table.Add("b", "Queued")
	table.Add("c", "Failed")
	table.Add("d", "Stopped")
	var out strings.Builder
	w := term.Guard(&out)
	if err := table.Write(w, term.Screen{Color: true}, true); err != nil {
		t.Fatal(err)
	}
	term.Flush(w)
	want := "ready \x1b[32mReady\x1b[m\nb     \x1b[33mQueued\x1b[m\nc     \x1b[31mFailed\x1b[m\nd     Stopped\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
