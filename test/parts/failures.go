package main

import (
	"bytes"
	"regexp"
	"strings"
)

// What is shown again of the output of a part that failed, where logs of programs may
// stand between what a test said and the end.
const (
	failureLines = 12
	failureWidth = 240
)

// failureLine matches what Go says of a failed test, the lines that tests write by
// themselves, and the line of a script at which it failed.
var failureLine = regexp.MustCompile(`^(\s*--- FAIL|FAIL\t|panic: |WARNING: DATA RACE|\s+\w+_test\.go:\d+: |\s*FAIL: )`)

// failures returns the first lines of a part's output that say what failed, each of at
// most failureWidth bytes.
func failures(output []byte) (out []string) {
	for line := range bytes.Lines(output) {
		if len(out) == failureLines {
			break
		}
		if failureLine.Match(line) {
			text := strings.TrimRight(string(line), "\n")
			out = append(out, strings.ToValidUTF8(text[:min(len(text), failureWidth)], ""))
		}
	}
	return out
}
