// Command bench measures the built bin/berth and writes docs/benchmarks.md:
// each figure with its aim, the machine, its load and the command. CPU figures
// are what counts; a wall figure from a machine that was busy with something
// else is marked invalid.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "comma-separated parts: start,scale,pods,simulate,build; empty is all")
	out := flag.String("out", "docs/benchmarks.md", "file to write; - is stdout")
	flag.Parse()
	if err := run(*only, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(only, out string) error {
	work, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	r := newReport()
	parts := []struct {
		name string
		fn   func(*report, string) error
	}{{"start", benchStart}, {"scale", benchScale}, {"pods", benchPods}, {"simulate", benchSimulate}, {"build", benchBuild}}
	for _, p := range parts {
		if only != "" && !strings.Contains(","+only+",", ","+p.name+",") {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", p.name)
		if err := p.fn(r, filepath.Join(work, p.name)); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if out == "-" {
		_, err = os.Stdout.WriteString(r.markdown(time.Now()))
		return err
	}
	return os.WriteFile(out, []byte(r.markdown(time.Now())), 0o644)
}
