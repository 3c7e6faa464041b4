package berth_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var updateWords = flag.Bool("update-words", false, "write the counts of TestWords to testdata/words.txt")

// A wording is a way of writing that a reader stumbles over. Only lines that contain
// one of its marks are matched, because regular expressions are slow.
type wording struct {
	name, write string // what it is, and what to write instead
	marks       []string
	pattern     *regexp.Regexp
}

// The wordings to avoid. Those that remain are counted in testdata/words.txt, and
// their number must not increase.
var wordings = []wording{
	{
		"who-subject", `"If you ..."; "Who may ..." reads as a question`,
		[]string{"Who", "What "},
		regexp.MustCompile(`(^|[.;:|>] +)(Who|Whoever|What) [a-z]+ [^?]*$`),
	},
	{
		"so-that", `", so ..." for a result`,
		[]string{", so that"},
		regexp.MustCompile(`, so that\b`),
	},
	{
		"fronted-of", "subject, verb, object",
		[]string{"Of "},
		regexp.MustCompile(`(^|[.;|] +)Of [a-z]`),
	},
	{
		"tell-of", `"shows", "reports", "explains"`,
		[]string{"tell", "told"},
		regexp.MustCompile(`\b(tells?|told) of\b|\b(is|are) (not )?told\b`),
	},
	{
		"is-no", `"is not a valid ..."`,
		[]string{" is no ", " are no "},
		regexp.MustCompile(`([^e \t][ \t]|[^r]e[ \t]|[^e]re[ \t]|[^h]ere[ \t])(is|are) no [a-z]`),
	},
	{
		"nobody", "the component or person",
		[]string{"body", "whoever", "Whoever", "whom", "Whom"},
		regexp.MustCompile(`(?i)\b(nobody|somebody|anybody|whoever|whom)\b`),
	},
	{
		"anew", `"again", "no longer", "except", "fix"`,
		[]string{"anew", "for ever", "meanwhile", "save for", "any more", "mend"},
		regexp.MustCompile(`\b(anew|for ever|meanwhile|save for|any more|mend)\b`),
	},
	{
		"of-its-own", "the possessive first",
		[]string{" of it", " of theirs", " of ours"},
		regexp.MustCompile(`\b(an?|the|one|no) \w+ of (it|its own|theirs|ours)\b`),
	},
	{
		"give-out", `"allocate", "release", "remove"`,
		[]string{"give", "given", "take"},
		regexp.MustCompile(`\b(gives?|given) (out|back)\b|\b(takes?|taken) (away|out)\b`),
	},
	{
		"says-whether", `"reports whether"`,
		[]string{" whether"},
		regexp.MustCompile(`(says|tells) whether`),
	},
	{
		"doc-gives", `"returns"`,
		[]string{" gives "},
		regexp.MustCompile(`^// \w+ gives`),
	},
	{
		"it-message", "messages that name their subject",
		[]string{`"it `},
		regexp.MustCompile(`"it (is|was|has|asks|waits|starts|does)\b`),
	},
	{
		"british", "US spelling",
		[]string{"ehaviour", "onour", "abelled", "atalogue", "icence"},
		regexp.MustCompile(`behaviour|honour|labelled|catalogue|[Ll]icence`),
	},
	{
		"usage-quotes", "'...': pflag takes words in backquotes for the name of the value",
		[]string{"Var"},
		regexp.MustCompile("\\.(\\w*Var|\\w*VarP)\\(.*\".*`.* .*`"),
	},
}

// A count is how many lines of pages and of other files have a wording.
type count struct{ pages, others int }

// TestWords compares the number of lines with each wording with the recorded one. Run
// go test . -run TestWords -update-words to record fewer.
func TestWords(t *testing.T) {
	counts := make([]count, len(wordings))
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "bin" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return fs.SkipDir
		case d.IsDir() || path == "words_test.go":
			return nil
		}
		switch filepath.Ext(path) {
		case ".md", ".go", ".yaml", ".txtar":
			return countWords(path, counts)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/words.txt"
	if *updateWords {
		var out strings.Builder
		for i, w := range wordings {
			fmt.Fprintf(&out, "%s %d %d\n", w.name, counts[i].pages, counts[i].others)
		}
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	recorded, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range wordings {
		var most count
		_, line, _ := strings.Cut("\n"+string(recorded), "\n"+w.name+" ")
		if _, err := fmt.Sscan(line, &most.pages, &most.others); err != nil {
			t.Fatalf("%s has no counts of %s: %v", file, w.name, err)
		}
		if counts[i].pages > most.pages || counts[i].others > most.others {
			t.Errorf("%s: %d lines of pages and %d of other files, more than the recorded %d and %d; write %s. Find yours with\n\tgit diff main | grep -P '^\\+.*(%s)'",
				w.name, counts[i].pages, counts[i].others, most.pages, most.others, w.write, w.pattern)
		}
	}
}

// countWords adds the lines of the file at path that have a wording.
func countWords(path string, counts []count) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		for i, w := range wordings {
			if !w.in(line) {
				continue
			}
			if strings.HasSuffix(path, ".md") {
				counts[i].pages++
			} else {
				counts[i].others++
			}
		}
	}
	return nil
}

// in reports whether line has the wording.
func (w wording) in(line string) bool {
	for _, mark := range w.marks {
		if strings.Contains(line, mark) {
			return w.pattern.MatchString(line)
		}
	}
	return false
}

// TestWordingsMatch shows a line that each wording finds, and one that it does not.
func TestWordingsMatch(t *testing.T) {
	for name, lines := range map[string][2]string{
		"who-subject":  {"Who may not list nodes gets the cause.", "Who may not list nodes?"},
		"so-that":      {"it is in the API, so that nothing is lost", "write it so that a reader sees it"},
		"fronted-of":   {"Of several racks the fullest.", "The fullest of several racks."},
		"tell-of":      {"the exporter tells of GPUs", "the exporter reports GPUs"},
		"is-no":        {"x is no count of pods", "there is no node, and there are no pods"},
		"nobody":       {"nobody offers GPUs", "no plugin offers GPUs"},
		"anew":         {"started anew", "started again"},
		"of-its-own":   {"a gang of its own", "a separate gang"},
		"give-out":     {"the device is given back", "the device is released"},
		"says-whether": {"held says whether it is held", "held reports whether it is held"},
		"doc-gives":    {"// Products gives every product", "// Products returns every product"},
		"it-message":   {`"it is refused"`, `"it"`},
		"british":      {"the behaviour", "the behavior"},
		"usage-quotes": {"f.StringVar(&s, \"p\", \"\", \"see `berth profiles list`\")", "f.StringVar(&s, \"p\", \"\", \"see 'berth profiles list'\")"},
	} {
		for _, w := range wordings {
			if w.name != name {
				continue
			}
			if !w.in(lines[0]) || w.in(lines[1]) {
				t.Errorf("%s: found in %q: %v, in %q: %v; want true and false", name, lines[0], w.in(lines[0]), lines[1], w.in(lines[1]))
			}
		}
	}
}
