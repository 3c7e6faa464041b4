package smi

import (
	"context"
	"fmt"
	"io"
)

// Exit codes, as nvidia-smi documents them.
const (
	exitOK           = 0
	exitUsage        = 2  // a bad argument
	exitNotSupported = 3  // the operation is not available
	exitNotFound     = 6  // no such GPU
	exitLost         = 15 // a GPU has fallen off the bus
)

// Run answers one call of nvidia-smi with args, without the program's name, and
// returns its exit code. view is asked once for each row or round of a loop.
// A loop ends when its count is reached or ctx is done.
func Run(ctx context.Context, view func() View, args []string, stdout, stderr io.Writer) int {
	v := view()
	if len(v.Devices) == 0 {
		fmt.Fprintln(stdout, "No devices were found")
		return exitNotFound
	}
	list(stdout, v)
	return exitOK
}
