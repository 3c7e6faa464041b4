package doctor

import (
	"bufio"
	"fmt"
	"io"
)

// Print writes findings as a table, the next step of each below it, and a last
// line that counts them.
func Print(w io.Writer, findings []Finding) error {
	out := bufio.NewWriter(w)
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Name))
	}
	counts := map[Status]int{}
	for _, f := range findings {
		counts[f.Status]++
		fmt.Fprintf(out, "%-4s  %-*s  %s\n", f.Status, width, f.Name, f.Seen)
		if f.Do != "" {
			fmt.Fprintf(out, "      %*s  -> %s\n", width, "", f.Do)
		}
	}
	fmt.Fprintf(out, "%d ok, %d to look at, %d in the way of GPUs\n", counts[OK], counts[Warn], counts[Fail])
	return out.Flush()
}
