package sharing_test

import (
	"strings"
	"testing"

	"berth.dev/berth/core/sharing"
)

func TestWays(t *testing.T) {
	for text, want := range map[string]sharing.Ways{
		"":                                       0,
		"Whole":                                  sharing.WayWhole,
		"MIG or MPS":                             sharing.WayMPS | sharing.WayMIG,
		"Whole, TimeSlicing or Memory":           sharing.WayMemory | sharing.WayTimeSlicing | sharing.WayWhole,
		"Whole, MIG, TimeSlicing, MPS or Memory": sharing.AllWays,
	} {
		if got := want.Text("or"); got != text {
			t.Errorf("Text of %b = %q, want %q", want, got, text)
		}
		var back sharing.Ways
		for _, name := range strings.FieldsFunc(strings.ReplaceAll(text, " or ", ", "), func(r rune) bool { return r == ',' || r == ' ' }) {
			back |= sharing.Way(name)
		}
		if back != want {
			t.Errorf("the names of %q are %b, want %b", text, back, want)
		}
	}
	if got := sharing.Way("mps"); got != 0 {
		t.Errorf("there is no way mps, and it is %b", got)
	}
	if both := sharing.WayMIG | sharing.WayMPS; !both.In(both|sharing.WayWhole) || both.In(sharing.WayMIG) || !sharing.Ways(0).In(0) {
		t.Error("In does not compare sets")
	}
}
