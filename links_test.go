package berth_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A link of a page, the text of a heading, and a page that code or a manifest names.
var (
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fences   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	named    = regexp.MustCompile(`\bdocs/[\w./-]+\.md\b`)
	unslug   = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestLinks checks that every relative link of a page leads to a file, and to a
// heading of it if it has a fragment, and that every page that code, a manifest or
// a script names exists.
func TestLinks(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "bin" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		switch filepath.Ext(path) {
		case ".md":
			checkLinks(t, path)
		case ".go", ".yaml", ".txtar", ".sh", ".golden":
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, page := range named.FindAllString(string(text), -1) {
				if _, err := os.Stat(page); err != nil && !upstreams(page) {
					t.Errorf("%s names %s, which does not exist", path, page)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// upstreams reports whether page belongs to another project.
func upstreams(page string) bool {
	return strings.HasSuffix(page, "web-configuration.md")
}

// checkLinks checks the relative links of the page at path.
func checkLinks(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range links.FindAllStringSubmatch(fences.ReplaceAllString(string(text), ""), -1) {
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		file, fragment, _ := strings.Cut(m[1], "#")
		target := path
		if file != "" {
			target = filepath.Join(filepath.Dir(path), file)
		}
		info, err := os.Stat(target)
		if err != nil {
			t.Errorf("%s: link %s leads nowhere", path, m[1])
			continue
		}
		if fragment == "" || info.IsDir() {
			continue
		}
		page, err := os.ReadFile(target)
		if err != nil {
			t.Fatal(err)
		}
		if !slugs(string(page))[fragment] {
			t.Errorf("%s: link %s: the page has no such heading", path, m[1])
		}
	}
}

// slugs returns the fragments of the headings of a page, as GitHub makes them.
func slugs(page string) map[string]bool {
	out := map[string]bool{}
	for _, m := range headings.FindAllStringSubmatch(fences.ReplaceAllString(page, ""), -1) {
		text := links.ReplaceAllString(strings.ReplaceAll(m[1], "[", ""), "")
		out[strings.ReplaceAll(unslug.ReplaceAllString(strings.ToLower(text), ""), " ", "-")] = true
	}
	return out
}

// TestTutorial checks that test/script/tutorial.txtar runs every command of the
// tutorial.
func TestTutorial(t *testing.T) {
	page, err := os.ReadFile("docs/tutorial/README.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("test/script/tutorial.txtar")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^\$ (.*)$`).FindAllStringSubmatch(string(page), -1)
	if len(commands) == 0 {
		t.Fatal("the tutorial has no commands")
	}
	for _, m := range commands {
		if !strings.Contains(string(script), m[1]) {
			t.Errorf("test/script/tutorial.txtar does not run %q", m[1])
		}
	}
}

// TestTheArchitectureNamesFilesThatExist checks the Go files that ARCHITECTURE.md and CONTRIBUTING.md name by a folder: from
// the root, or from scheduler/, which has the plugins.
func TestTheArchitectureNamesFilesThatExist(t *testing.T) {
	goFiles, count := regexp.MustCompile("`([a-z_]+/[a-z_/]*\\.go)`"), 0
	for _, page := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range goFiles.FindAllStringSubmatch(string(text), -1) {
			_, atRoot := os.Stat(name[1])
			_, ofPlugins := os.Stat(filepath.Join("scheduler", name[1]))
			if count++; atRoot != nil && ofPlugins != nil {
				t.Errorf("%s names %s, which does not exist", page, name[1])
			}
		}
	}
	if count < 20 {
		t.Errorf("%d files are named; the pattern finds too few", count)
	}
}
