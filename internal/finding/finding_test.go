package finding_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/internal/finding"
	"berth.dev/berth/internal/visible"
)

func TestPrint(t *testing.T) {
	list := []finding.Finding{
		{Name: "driver", Status: finding.OK, Seen: "580.65.06"},
		{Name: "device-plugin", Status: finding.Fail, Seen: "none", Do: "install one"},
		{Name: "taints", Status: finding.Warn, Seen: "none", Do: "add one"},
	}
	want := `ok    driver         580.65.06
fail  device-plugin  none
                     -> install one
warn  taints         none
                     -> add one
1 ok, 1 to look at, 1 in the way of GPUs
`
	var got strings.Builder
	if err := finding.Print(&got, finding.Screen{}, list); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("Print (-want +got):\n%s", diff)
	}
	if n := finding.Failed(list); n != 1 {
		t.Errorf("Failed gives %d, want 1: a warning is no failure", n)
	}
}

func TestPrintOnATerminalBreaksLinesAndColorsStates(t *testing.T) {
	list := []finding.Finding{
		{Name: "taints", Status: finding.Warn, Seen: "2 nodes with GPUs have no taint", Do: "kubectl taint nodes, and see docs"},
	}
	var got strings.Builder
	w := visible.NewWriter(&got)
	if err := finding.Print(w, finding.Screen{Width: 40, Color: true}, list); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "\x1b[33mwarn\x1b[m  taints  2 nodes with GPUs have no\n              taint\n" +
		"              -> kubectl taint nodes,\n                 and see docs\n0 ok, 1 to look at, 0 in the way of GPUs\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("Print (-want +got):\n%s", diff)
	}
}

func TestPrintKeepsToItsLines(t *testing.T) {
	var got strings.Builder
	list := []finding.Finding{{Name: "driver", Status: finding.Fail, Seen: "x\x1b[2J\nok    driver", Do: "y\r\u202e"}}
	if err := finding.Print(&got, finding.Screen{}, list); err != nil {
		t.Fatal(err)
	}
	want := "fail  driver  x\\x1b[2J\\nok    driver\n              -> y\\r\\u202e\n0 ok, 0 to look at, 1 in the way of GPUs\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("Print (-want +got):\n%s", diff)
	}
}
