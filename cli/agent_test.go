package cli_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth.dev/berth/cli"
)

// beside lays a program on the PATH, as `make agent` lays it beside berth.
func beside(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	return path
}

func TestTheAgentIsAProgramOfItsOwnAndGetsEveryFlag(t *testing.T) {
	path := beside(t, "berth-agent")
	for _, c := range []struct{ args, want []string }{
		{[]string{"berth", "agent", "--fake", "gpus.yaml", "--help"}, []string{"berth-agent", "--fake", "gpus.yaml", "--help"}},
		{[]string{"berth", "doctor", "node", "-o", "json"}, []string{"berth-agent", "doctor", "-o", "json"}},
	} {
		var out bytes.Buffer
		var ran string
		var got []string
		code := cli.Main(c.args, cli.Options{Out: &out, Err: &out, Exec: func(path string, args, _ []string) error {
			ran, got = path, args
			return nil
		}})
		if code != 0 || ran != path || !slices.Equal(got, c.want) {
			t.Errorf("%v: code %d, ran %s with %v; want 0, %s with %v\n%s", c.args, code, ran, got, path, c.want, &out)
		}
	}
}

func TestAnAgentThatIsNotThereIsSaid(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out bytes.Buffer
	code := cli.Main([]string{"berth", "agent"}, cli.Options{Out: &out, Err: &out})
	if code != 1 || !strings.Contains(out.String(), "make agent") {
		t.Errorf("code %d, want 1; it says %q, which is to name `make agent`", code, &out)
	}
}

func TestAnAgentThatDoesNotRunIsSaid(t *testing.T) {
	beside(t, "berth-agent")
	var out bytes.Buffer
	code := cli.Main([]string{"berth", "agent"}, cli.Options{Out: &out, Err: &out, Exec: func(string, []string, []string) error { return errors.New("exec format error") }})
	if code != 1 || !strings.Contains(out.String(), "exec format error") {
		t.Errorf("code %d, want 1; it says %q", code, &out)
	}
}
