package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

// transcript PAGE: run the commands of the page's transcripts, which are the blocks of
// kind text that begin with "$ ", and compare what they print with what stands there.
// Times are compared as times: their numbers differ. With -update the page is rewritten.
func transcript(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: transcript PAGE")
	}
	page := filepath.Join(ts.Getenv("DOCS"), args[0])
	raw, err := os.ReadFile(page)
	ts.Check(err)
	text, blocks := string(raw), 0
	for _, block := range transcriptBlock.FindAllStringSubmatch(text, -1) {
		blocks++
		var got strings.Builder
		for line := range strings.Lines(block[1]) {
			if shell, ok := strings.CutPrefix(line, "$ "); ok {
				out, err := run(ts, []string{"sh", "-c", shell})
				if err != nil {
					ts.Fatalf("%s: %s%v\n%s", args[0], shell, err, out)
				}
				got.WriteString(line + clusterNote.ReplaceAllString(string(out), ""))
			}
		}
		if diff := cmp.Diff(timeless(block[1]), timeless(got.String())); diff == "" {
			continue
		} else if !*update {
			ts.Fatalf("%s (-page +output):\n%s", args[0], diff)
		}
		text = strings.Replace(text, block[0], "```text\n"+got.String()+"```", 1)
	}
	if blocks == 0 {
		ts.Fatalf("%s has no transcript", args[0])
	}
	if *update && text != string(raw) {
		ts.Check(os.WriteFile(page, []byte(text), 0o600))
	}
}

var (
	transcriptBlock = regexp.MustCompile("(?s)```text\n(\\$ .*?)```")
	clusterNote     = regexp.MustCompile(`(?m)^cluster: \$KUBECONFIG .*\n`)
	// These have times: steps of a start, of which some may be missing, and ages.
	transcriptStep = regexp.MustCompile(`(?m)^ +\d+\.\ds  .*\n`)
	transcriptAge  = regexp.MustCompile(`\b\d+(ms|s|m)(\d+s)?\b`)
	transcriptGap  = regexp.MustCompile(` {2,}`)
)

// timeless returns an output without its times, and without the widths that they have.
func timeless(text string) string {
	text = transcriptStep.ReplaceAllString(text, "")
	text = transcriptAge.ReplaceAllString(text, "TIME")
	return transcriptGap.ReplaceAllString(text, "  ")
}
