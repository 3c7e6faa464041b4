package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// pageHead is what the page begins with.
const pageHead = `# Benchmarks

Written by ` + "`make bench`" + `; do not edit. Each part says when it was measured; ` + "`go run ./test/bench -only PART`" + ` measures one
part anew and leaves the others as they are. CPU figures are what counts: a wall figure taken while the machine did
something else is marked invalid. Medians, with the range in brackets.
`

// section is what one part measured, as it stands on the page below its
// heading.
type section struct{ name, text string }

// putSection puts a section on the page at path: in the place of the one of its
// name, or where it belongs by the order of parts. Path - is standard output,
// which gets the section alone.
func putSection(path string, s section) error {
	if path == "-" {
		_, err := os.Stdout.WriteString(page([]section{s}))
		return err
	}
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.WriteFile(path, []byte(page(merge(readSections(string(old)), s))), 0o644)
}

// readSections takes a page apart. What stands before the first heading is made
// anew each time, so it is left out.
func readSections(page string) []section {
	var out []section
	for _, chunk := range strings.Split("\n"+page, "\n## ")[1:] {
		name, text, _ := strings.Cut(chunk, "\n")
		name, _, _ = strings.Cut(name, ":")
		out = append(out, section{strings.TrimSpace(name), strings.TrimSpace(text)})
	}
	return out
}

// merge replaces or adds s, in the order of parts. Sections of parts that there
// are no more are dropped.
func merge(old []section, s section) []section {
	var out []section
	for _, p := range parts() {
		if p.name == s.name {
			out = append(out, s)
			continue
		}
		for _, was := range old {
			if was.name == p.name {
				out = append(out, was)
			}
		}
	}
	return out
}

// page writes sections out.
func page(sections []section) string {
	titles := map[string]string{}
	for _, p := range parts() {
		titles[p.name] = p.title
	}
	var b strings.Builder
	b.WriteString(pageHead)
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s: %s\n\n%s\n", s.name, titles[s.name], s.text)
	}
	return b.String()
}

// section writes down what a part measured.
func (r *report) section(began, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, commit %s. %s, %d cores, %s, %s/%s; load average before the run %.2f; took %s.\n",
		now.UTC().Format("2006-01-02"), commit(), model(), runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		r.loadAt, now.Sub(began).Round(time.Second))
	if r.divide > 1 {
		fmt.Fprintf(&b, "**Tried out with a %dth of the load: no figure counts.**\n", r.divide)
	}
	b.WriteString("\n| figure | measured | aim | | how |\n|---|---|---|---|---|\n")
	for _, f := range r.figures {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", f.what, f.text(), f.aimText(), f.verdict(), f.how)
	}
	return strings.TrimSpace(b.String())
}

// commit is the short hash of what is checked out, with a + where files differ
// from it.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty=+", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// model is the processor's name.
func model() string {
	out, err := exec.Command("sh", "-c", "grep -m1 'model name' /proc/cpuinfo | cut -d: -f2").Output()
	if name := strings.TrimSpace(string(out)); err == nil && name != "" {
		return name
	}
	return "unknown processor"
}
