// Package fakelib builds, for tests, a library that stands in for the driver's
// libnvidia-ml.so.1. Its sources and what it can do are in testdata/fake.h.
package fakelib

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// Lib is a built library and the file that it answers from.
type Lib struct {
	Root  string // a driver root: the library lies in Root/usr/lib64
	Dir   string // the folder of the library
	state string
	calls string
}

// Build compiles the library without the functions named: a driver that does
// not have them. It skips the test where there is no C compiler.
//
// Tests of this module alone may call it: the sources lie beside this file, and
// the layouts in the module cache.
func Build(t testing.TB, without ...string) Lib {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil || runtime.GOOS != "linux" {
		t.Skipf("skipped: the stand-in for libnvidia-ml.so.1 needs Linux and a C compiler (%s)", cc)
	}
	header, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml").Output()
	if err != nil {
		t.Fatalf("find nvml.h in the module go-nvml: %v", err)
	}
	root := t.TempDir()
	l := Lib{Root: root, Dir: filepath.Join(root, "usr/lib64"), state: filepath.Join(root, "state"), calls: filepath.Join(root, "calls")}
	if err := os.MkdirAll(l.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"-shared", "-fPIC", "-O1", "-Wl,-Bsymbolic,-soname,libnvidia-ml.so.1", "-I", filepath.Join(strings.TrimSpace(string(header)), "pkg/nvml")}
	for _, symbol := range without {
		args = append(args, "-D"+symbol+"=absent_"+symbol)
	}
	if err := os.Symlink(compile(t, cc, append(args, sources(t)...)), filepath.Join(l.Dir, "libnvidia-ml.so.1")); err != nil {
		t.Fatal(err)
	}
	return l
}

// compile returns the path of the library, which is kept in the folder for
// temporary files by what it is made of: tests of two packages want the same.
func compile(t testing.TB, cc string, args []string) string {
	t.Helper()
	made := sha256.New()
	fmt.Fprintln(made, cc, args)
	headers, _ := filepath.Glob(filepath.Join(filepath.Dir(sources(t)[0]), "*.h"))
	for _, path := range append(headers, sources(t)...) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		made.Write(data)
	}
	dir := filepath.Join(os.TempDir(), "berth-fakelib")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, hex.EncodeToString(made.Sum(nil)[:8])+".so")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	next := filepath.Join(t.TempDir(), "lib.so")
	if out, err := exec.CommandContext(t.Context(), cc, append([]string{"-o", next}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("compile the stand-in for libnvidia-ml.so.1: %v\n%s", err, out)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Env returns the variables that a program needs to load the library and to find
// its file.
func (l Lib) Env() []string {
	return []string{"LD_LIBRARY_PATH=" + l.Dir, "NVML_STATE=" + l.state, "NVML_CALLS=" + l.calls}
}

// Write replaces the file that the library answers from.
func (l Lib) Write(t testing.TB, lines ...string) {
	t.Helper()
	next := l.state + ".next"
	if err := os.WriteFile(next, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, l.state); err != nil {
		t.Fatal(err)
	}
}

// Calls returns what was changed through the library, one line for each call.
func (l Lib) Calls(t testing.TB) []string {
	t.Helper()
	data, err := os.ReadFile(l.calls)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
}

// GPU returns the line of a GPU with UUID GPU-<i>, an H200, and further keys such
// as "temp=71".
func GPU(i int, keys ...string) string {
	return strings.Join(append([]string{fmt.Sprintf("gpu uuid=GPU-%d name=NVIDIA_H200 bus=00000000:%02X:00.0", i, 0x1a+i)}, keys...), " ")
}

// Node returns the lines of a driver and n GPUs without further keys.
func Node(n int) []string {
	lines := []string{"driver 570.124.06 12080"}
	for i := range n {
		lines = append(lines, GPU(i))
	}
	return lines
}

// Symbols returns the names of all functions that the library has, sorted as its
// sources have them.
func Symbols(t testing.TB) []string {
	t.Helper()
	var out []string
	for _, path := range sources(t) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range definition.FindAllStringSubmatch(string(data), -1) {
			out = append(out, m[1])
		}
	}
	return out
}

var definition = regexp.MustCompile(`(?m)^(?:nvmlReturn_t |READING\()(nvml\w+)[(,]`)

// sources lists the C files beside this one.
func sources(t testing.TB) []string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	found, err := filepath.Glob(filepath.Join(filepath.Dir(here), "testdata", "*.c"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no C sources beside %s: %v", here, err)
	}
	return found
}
