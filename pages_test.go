package berth_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// plainMap are the top folders whose own folders the map does not list.
var plainMap = []string{"cmd", "deploy", "docs", "examples", "test", "tools"}

// TestEveryFolderIsInTheMap holds ARCHITECTURE.md's map to the tree: the top
// folders, and the packages in them.
func TestEveryFolderIsInTheMap(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text2, _ := strings.Cut(string(text), "```text\n")
	text2, _, _ = strings.Cut(text2, "```")
	sections := map[string]string{} // by top folder
	top := ""
	for line := range strings.Lines(text2) {
		if !strings.HasPrefix(line, " ") {
			top, _, _ = strings.Cut(line, "/")
		}
		sections[top] += line
	}
	for _, dir := range folders(t, ".") {
		section, there := sections[dir]
		if !there {
			t.Errorf("ARCHITECTURE.md: folder %s/ is not in the map of section 2", dir)
			continue
		}
		if slices.Contains(plainMap, dir) {
			continue
		}
		for _, sub := range folders(t, dir) {
			if files, _ := filepath.Glob(filepath.Join(dir, sub, "*.go")); len(files) > 0 && !regexp.MustCompile(`\b`+sub+`\b`).MatchString(section) {
				t.Errorf("ARCHITECTURE.md: package %s/%s is not in the map of section 2", dir, sub)
			}
		}
	}
}

// folders lists the folders of dir that are ours.
func folders(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && e.Name() != "bin" && e.Name() != "testdata" {
			out = append(out, e.Name())
		}
	}
	return out
}

// The rows that a test claims, on a line of its own, and a row or a run of rows.
var (
	claims = regexp.MustCompile(`(?m)^\s*(?://|#|--)?\s*rows:\s*(.*)$`)
	rows   = regexp.MustCompile(`\b([A-Z]{2})-(\d\d)(?:\.\.[A-Z]{2}-(\d\d))?`)
)

// expand lists the rows that text names.
func expand(text string) []string {
	var out []string
	for _, m := range rows.FindAllStringSubmatch(text, -1) {
		from, _ := strconv.Atoi(m[2]) // two digits
		to := from
		if m[3] != "" {
			to, _ = strconv.Atoi(m[3])
		}
		for n := from; n <= to; n++ {
			out = append(out, fmt.Sprintf("%s-%02d", m[1], n))
		}
	}
	return out
}

// TestTheAcceptancePagesSayWhatTestsShow holds docs/acceptance to the tests: a row
// that a test claims is in a table of its page, and a row of a table is claimed
// unless the table is of what is shown in part.
func TestTheAcceptancePagesSayWhatTestsShow(t *testing.T) {
	claimed := map[string]string{} // by row, the file that claims it
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch ext := filepath.Ext(path); {
		case err != nil:
			return err
		case d.IsDir() && (path == "bin" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go") && ext != ".txtar" && !(strings.HasPrefix(path, "test"+string(filepath.Separator)) && (ext == ".sh" || ext == ".txt")):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, line := range claims.FindAllStringSubmatch(string(text), -1) {
			for _, row := range expand(line[1]) {
				claimed[row] = path
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	shown, partly := pages(t)
	for _, row := range slices.Sorted(maps.Keys(claimed)) {
		if shown[row] == "" {
			t.Errorf("%s claims %s, which no page of docs/acceptance says", claimed[row], row)
		}
		if page := partly[row]; page != "" {
			t.Errorf("%s says that %s is shown in part, and %s claims it", page, row, claimed[row])
		}
	}
	for _, row := range slices.Sorted(maps.Keys(shown)) {
		if claimed[row] == "" {
			t.Errorf("%s says that %s is shown, and no test claims it", shown[row], row)
		}
	}
}

// pages returns the rows of the tables of docs/acceptance, with their pages.
func pages(t *testing.T) (shown, partly map[string]string) {
	t.Helper()
	shown, partly = map[string]string{}, map[string]string{}
	files, err := filepath.Glob("docs/acceptance/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal("no pages in docs/acceptance", err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		into := shown
		for line := range strings.Lines(string(text)) {
			switch {
			case strings.HasPrefix(line, "| row | shown | not yet"):
				into = partly
			case strings.HasPrefix(line, "| row |"):
				into = shown
			case strings.HasPrefix(line, "| "):
				cell, _, _ := strings.Cut(line[2:], "|")
				for _, row := range expand(cell) {
					if shown[row]+partly[row] != "" {
						t.Errorf("%s: row %s is there twice", path, row)
					}
					into[row] = path
				}
			}
		}
	}
	return shown, partly
}
