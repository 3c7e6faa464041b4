package term_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"berth.dev/berth/cli/term"
)

// TestTerminalsAreAsked opens a terminal of 60 columns. With NO_COLOR, and on a terminal that can do nothing, there are no colors.
func TestTerminalsAreAsked(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this machine makes no terminals: ", err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 60}); err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this machine has no /dev/pts: ", err)
	}
	defer tty.Close()
	for _, tt := range []struct {
		name, term, noColor string
		want                term.Screen
	}{
		{"a terminal cuts, and has colors", "xterm", "", term.Screen{Width: 60, Cut: true, Color: true}},
		{"NO_COLOR leaves them out", "xterm", "1", term.Screen{Width: 60, Cut: true}},
		{"a terminal that can do nothing is written to as a file is", "dumb", "", term.Screen{Width: term.PlainWidth}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TERM", tt.term)
			t.Setenv("NO_COLOR", tt.noColor)
			t.Setenv("CI", "")
			if got := term.ScreenOf(term.Guard(tty)); got != tt.want {
				t.Errorf("the screen is %+v, want %+v", got, tt.want)
			}
		})
	}
}
