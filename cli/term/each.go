package term

import (
	"errors"
	"io"
)

// Each calls do with every name, writes to w what went wrong with each but the last, and returns that.
func Each(w io.Writer, names []string, do func(name string) error) error {
	var failed []error
	for _, name := range names {
		if err := do(name); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) < 2 {
		return errors.Join(failed...)
	}
	last := len(failed) - 1
	for _, err := range failed[:last] {
		Printf(w, "error: %v\n", err)
	}
	return failed[last]
}
