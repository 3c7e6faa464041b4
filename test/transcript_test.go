package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

// transcript PAGE: run the commands of the page's transcripts, which are the blocks of
// kind text that begin with "$ ", and compare what they print with what stands there.
// Times are compared as times: their numbers differ. With -update the page is rewritten.
// Where the commands only read what changes by itself (transcript reads PAGE), a block is run again
// until it prints that, as eventually does.
func transcript(ts *testscript.TestScript, neg bool, args []string) {
	reads := len(args) == 2 && args[0] == "reads"
	if neg || len(args) != 1 && !reads {
		ts.Fatalf("usage: transcript [reads] PAGE")
	}
	name := args[len(args)-1]
	file, anchor, _ := strings.Cut(name, "#")
	page := filepath.Join(ts.Getenv("DOCS"), file)
	raw, err := os.ReadFile(page)
	ts.Check(err)
	text, blocks := string(raw), 0
	for _, block := range transcriptBlock.FindAllStringSubmatch(section(text, anchor), -1) {
		blocks++
		got, diff := replay(ts, name, block[1])
		for end := time.Now().Add(patience); reads && !*update && diff != "" && time.Now().Before(end); {
			q := ask(ts)
			q.pause()
			got, diff = replay(ts, name, block[1])
		}
		if diff == "" {
			continue
		} else if !*update {
			ts.Fatalf("%s (-page +output):\n%s", name, diff)
		}
		text = strings.Replace(text, block[0], "```text\n"+got+"```", 1)
	}
	if blocks == 0 {
		ts.Fatalf("%s has no transcript", name)
	}
	if *update && text != string(raw) {
		ts.Check(os.WriteFile(page, []byte(text), 0o600))
	}
}

// section returns the part of a page below the heading (of two #) with an anchor, up to the next one; "" is the whole page.
func section(page, anchor string) string {
	if anchor == "" {
		return page
	}
	for _, part := range strings.Split(page, "\n## ")[1:] {
		if title, _, _ := strings.Cut(part, "\n"); strings.ReplaceAll(strings.ToLower(title), " ", "-") == anchor {
			return part
		}
	}
	return ""
}

// replay runs the commands of a block, and returns the block with what they print, and how that differs.
func replay(ts *testscript.TestScript, name, block string) (got, diff string) {
	var b strings.Builder
	for line := range strings.Lines(block) {
		if shell, ok := strings.CutPrefix(line, "$ "); ok {
			out, err := run(ts, []string{"sh", "-c", shell})
			if err != nil {
				ts.Fatalf("%s: %s%v\n%s", name, shell, err, out)
			}
			b.WriteString(line + clusterNote.ReplaceAllString(string(out), ""))
		}
	}
	return b.String(), cmp.Diff(timeless(block), timeless(b.String()))
}

var (
	transcriptBlock = regexp.MustCompile("(?s)```text\n(\\$ .*?)```")
	clusterNote     = regexp.MustCompile(`(?m)^cluster: \$KUBECONFIG .*\n`)
	// These have times: steps of a start, of which some may be missing, ages, and times of the day; and these are names that a controller makes.
	transcriptStep = regexp.MustCompile(`(?m)^ +\d+\.\ds  .*\n`)
	transcriptAge  = regexp.MustCompile(`\b\d+(ms|s|m)(\d+s)?\b`)
	transcriptTime = regexp.MustCompile(`\b(\d{4}-\d\d-\d\d[T ])?\d\d:\d\d(:\d\dZ)?\b`)
	transcriptName = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	transcriptGap  = regexp.MustCompile(` {2,}`)
)

// timeless returns an output without its times, and without the widths that they have.
func timeless(text string) string {
	text = transcriptStep.ReplaceAllString(text, "")
	text = transcriptTime.ReplaceAllString(text, "CLOCK")
	text = transcriptName.ReplaceAllString(text, "-NAME")
	text = transcriptAge.ReplaceAllString(text, "TIME")
	return transcriptGap.ReplaceAllString(text, "  ")
}
