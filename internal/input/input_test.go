package input_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth.dev/berth/internal/input"
)

func TestReadFileStopsAtItsBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("12345678"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := input.ReadFile(path, 8); err != nil || string(got) != "12345678" {
		t.Errorf("ReadFile of 8 bytes with a bound of 8 = %q, %v", got, err)
	}
	_, err := input.ReadFile(path, 7)
	if want := path + " is too large: more than 7 bytes"; err == nil || err.Error() != want || !errors.Is(err, input.ErrTooLarge) {
		t.Errorf("ReadFile of 8 bytes with a bound of 7: %v, want %s", err, want)
	}
}

func TestAFileWithoutEndIsRefused(t *testing.T) {
	_, err := input.ReadFile("/dev/zero", input.Config)
	if want := "/dev/zero is too large: more than 1 MiB"; err == nil || err.Error() != want {
		t.Errorf("ReadFile(/dev/zero): %v, want %s", err, want)
	}
}

func TestBoundedGivesWhatIsWithinItsBoundAndThenAnError(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		most       int64
		want       string
		tooLarge   bool
	}{
		{"less than the bound", "abc", 4, "abc", false},
		{"just the bound", "abcd", 4, "abcd", false},
		{"one more than the bound", "abcde", 4, "abcd", true},
		{"nothing at all", "", 0, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := io.ReadAll(input.Bounded("f", strings.NewReader(tt.text), tt.most))
			if string(got) != tt.want || errors.Is(err, input.ErrTooLarge) != tt.tooLarge {
				t.Errorf("read %q, %v; want %q, too large %v", got, err, tt.want, tt.tooLarge)
			}
		})
	}
}
