package finding_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/internal/finding"
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
	if err := finding.Print(&got, list); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("Print (-want +got):\n%s", diff)
	}
	if n := finding.Failed(list); n != 1 {
		t.Errorf("Failed gives %d, want 1: a warning is no failure", n)
	}
}

func TestPrintKeepsToItsLines(t *testing.T) {
	var got strings.Builder
	list := []finding.Finding{{Name: "driver", Status: finding.Fail, Seen: "x\x1b[2J\nok    driver", Do: "y\r\u202e"}}
	if err := finding.Print(&got, list); err != nil {
		t.Fatal(err)
	}
	want := "fail  driver  x\\x1b[2J\\nok    driver\n              -> y\\r\\u202e\n0 ok, 0 to look at, 1 in the way of GPUs\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("Print (-want +got):\n%s", diff)
	}
}
