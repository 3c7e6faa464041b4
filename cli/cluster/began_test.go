package cluster

import (
	"strconv"
	"testing"
	"time"
)

func TestWhenACommandBegan(t *testing.T) {
	now := time.Now()
	text := func(at time.Time) string { return strconv.FormatInt(at.UnixNano(), 10) }
	process := processStart()
	for _, tt := range []struct {
		name, child, script string
		want                time.Time
	}{
		{"a command by itself began with its process", "", "", process},
		{"one that a script became began when the script says so", "", text(now.Add(-2 * time.Second)), now.Add(-2 * time.Second)},
		{"one in the background began with its parent", text(now.Add(-5 * time.Second)), text(now.Add(-2 * time.Second)), now.Add(-5 * time.Second)},
		{"a script that says nothing that can be read", "", "1796000000N", process},
		{"a script of the day before", "", text(now.Add(-24 * time.Hour)), process},
		{"a script of the day after", "", text(now.Add(24 * time.Hour)), process},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(childVariable, tt.child)
			t.Setenv(beganVariable, tt.script)
			if got := began(); got.Sub(tt.want).Abs() > 100*time.Millisecond {
				t.Errorf("began at %v, want %v", got, tt.want)
			}
		})
	}
}
