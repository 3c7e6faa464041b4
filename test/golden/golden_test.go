package golden_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"berth.dev/berth/test/golden"
)

// said is a test that notes why it failed, and goes on.
type said struct {
	testing.TB
	why string
}

func (s *said) Helper()                           {}
func (s *said) Errorf(format string, args ...any) { s.why = fmt.Sprintf(format, args...) }
func (s *said) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	panic(s)
}

// file returns what File says of got.
func file(t *testing.T, name, got string) (why string) {
	s := &said{TB: t}
	defer func() {
		if r := recover(); r != nil && r != any(s) {
			panic(r)
		}
		why = s.why
	}()
	golden.File(s, name, got)
	return s.why
}

func TestFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("testdata", 0o700); err != nil {
		t.Fatal(err)
	}
	if why := file(t, "a.txt", "one\n"); !strings.Contains(why, "no such file") || !strings.Contains(why, "-update writes it") {
		t.Errorf("of a file that is not there it says %q", why)
	}
	if err := flag.Set("update", "true"); err != nil || !golden.Updates() {
		t.Fatal("-update is not understood", err)
	}
	why := file(t, "a.txt", "one\n")
	if err := flag.Set("update", "false"); err != nil || why != "" {
		t.Fatal(why, err)
	}
	if raw, err := os.ReadFile(filepath.Join("testdata", "a.txt")); err != nil || string(raw) != "one\n" {
		t.Errorf("-update wrote %q, %v", raw, err)
	}
	if why := file(t, "a.txt", "one\n"); why != "" {
		t.Errorf("of the same it says %q", why)
	}
	if why := file(t, "a.txt", "two\n"); !strings.Contains(why, "-want +got") || !strings.Contains(why, "two") {
		t.Errorf("of another text it says %q", why)
	}
}

func TestPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txt")
	a := &txtar.Archive{Files: []txtar.File{{Name: "in", Data: []byte("in\n")}, {Name: "want", Data: []byte("one\n")}}}
	s := &said{TB: t}
	if golden.Part(s, path, a, "want", "one\n"); s.why != "" {
		t.Errorf("of the same it says %q", s.why)
	}
	if golden.Part(s, path, a, "want", "two\n"); !strings.Contains(s.why, "part want differs") || !strings.Contains(s.why, "two") {
		t.Errorf("of another text it says %q", s.why)
	}
	if err := flag.Set("update", "true"); err != nil {
		t.Fatal(err)
	}
	golden.Part(t, path, a, "want", "two\n")
	if err := flag.Set("update", "false"); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil || string(raw) != "-- in --\nin\n-- want --\ntwo\n" {
		t.Errorf("-update wrote %q, %v", raw, err)
	}
}
