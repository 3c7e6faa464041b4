package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// alone is the lane of parts beside which nothing runs.
const alone = "alone"

// part is a piece of `make test` that has a time of its own.
type part struct {
	lane    string
	nice    int // 0 to 19
	name    string
	command string // for sh -c
}

// parse reads parts, one a line. Empty lines are left out.
func parse(r io.Reader) ([]part, error) {
	var out []part
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20) // the names of all packages are on one line
	for n := 1; s.Scan(); n++ {
		if strings.TrimSpace(s.Text()) == "" {
			continue
		}
		f := strings.SplitN(s.Text(), "\t", 4)
		if len(f) < 4 || f[0] == "" || f[2] == "" || strings.TrimSpace(f[3]) == "" {
			return nil, fmt.Errorf("line %d: %q: want LANE, NICE, NAME and COMMAND with a tab between them", n, s.Text())
		}
		nice, err := strconv.Atoi(f[1])
		if err != nil || nice < 0 || nice > 19 {
			return nil, fmt.Errorf("line %d: nice is %q, want 0 to 19", n, f[1])
		}
		out = append(out, part{f[0], nice, f[2], f[3]})
	}
	return out, s.Err()
}

// stages cuts parts at those that run alone: what is in one stage may run at the same
// time, lane beside lane.
func stages(parts []part) [][]part {
	var out [][]part
	for i, p := range parts {
		if i == 0 || p.lane == alone || parts[i-1].lane == alone {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], p)
	}
	return out
}

// lanes sorts the parts of a stage by lane. Lanes are in the order of their first part.
func lanes(stage []part) [][]part {
	var out [][]part
	at := map[string]int{}
	for _, p := range stage {
		i, ok := at[p.lane]
		if !ok {
			i = len(out)
			at[p.lane] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], p)
	}
	return out
}
