package train

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// logOf is the stream of a log.
func logOf(rank int, text string) *stream {
	body := io.NopCloser(strings.NewReader(text))
	return &stream{rank: rank, body: body, in: bufio.NewReaderSize(body, longestLine)}
}

// merged prints the merged lines of logs.
func merged(t *testing.T, logs ...*stream) []string {
	t.Helper()
	var out []string
	err := mergeLines(logs, func(rank int, line string) error {
		out = append(out, fmt.Sprintf("%d %s", rank, line))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMergedLines(t *testing.T) {
	const one, two, three = "2026-11-20T12:00:00.000000001Z ", "2026-11-20T12:00:00.000000002Z ", "2026-11-20T12:00:03Z "
	for _, tt := range []struct {
		name string
		logs []string
		want []string
	}{
		{"lines come in the order of their times", []string{one + "a\n" + three + "b\n", two + "c\n"}, []string{"0 a", "1 c", "0 b"}},
		{"at one time the lower rank comes first", []string{one + "a\n", one + "b\n"}, []string{"0 a", "1 b"}},
		{"a last line without its end", []string{one + "a"}, []string{"0 a"}},
		{"an empty line stays", []string{one + "\n"}, []string{"0 "}},
		{"an empty log", []string{"", one + "a\n"}, []string{"1 a"}},
		{"a line without a time keeps its place in its log", []string{two + "a\nno time\n", one + "b\n" + three + "c\n"}, []string{"1 b", "0 a", "0 no time", "1 c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var logs []*stream
			for i, text := range tt.logs {
				logs = append(logs, logOf(i, text))
			}
			if got := merged(t, logs...); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	long := strings.Repeat("x", longestLine+10)
	if got := merged(t, logOf(0, one+long+"\n")); len(got) != 2 || strings.Count(strings.Join(got, ""), "x") != len(long) {
		t.Errorf("a long line becomes %d lines", len(got))
	}
}

// TestMergeIsASort compares the merge with its slow twin: all lines sorted by time and rank.
func TestMergeIsASort(t *testing.T) {
	type timed struct {
		at   time.Time
		text string
	}
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		var logs []*stream
		var all []timed
		for rank := range 1 + r.IntN(5) {
			var text strings.Builder
			at := start
			for i := range r.IntN(6) {
				at = at.Add(time.Duration(r.IntN(3)) * time.Millisecond)
				fmt.Fprintf(&text, "%s line %d\n", at.Format(time.RFC3339Nano), i)
				all = append(all, timed{at, fmt.Sprintf("%d line %d", rank, i)})
			}
			logs = append(logs, logOf(rank, text.String()))
		}
		slices.SortStableFunc(all, func(a, b timed) int { return a.at.Compare(b.at) })
		var want []string
		for _, l := range all {
			want = append(want, l.text)
		}
		if got := merged(t, logs...); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %q, want %q", seed, got, want)
		}
	}
}
