package can

import (
	"os"
	"strings"
	"testing"
)

// TestThePageHasWhatToUseInstead: the page on manifests names each kind that berth can has an answer for, with that answer.
func TestThePageHasWhatToUseInstead(t *testing.T) {
	page, err := os.ReadFile("../../docs/tasks/check-manifests.md")
	if err != nil {
		t.Fatal(err)
	}
	for kind, do := range instead {
		row := ""
		for line := range strings.Lines(string(page)) {
			if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| ") && strings.Contains(", "+strings.TrimPrefix(cells[0], "| ")+",", ", "+kind+",") {
				row = line
			}
		}
		if want := strings.TrimPrefix(do, "use "); !strings.Contains(row, want) {
			t.Errorf("the row of %s is %q, want %q in it", kind, row, want)
		}
	}
}
