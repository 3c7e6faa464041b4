// Command parts runs the parts of `make test`, those of different lanes beside each
// other, and prints the output of each as one piece and how long each took.
//
// The parts stand on its standard input, one a line: the lane, how nice it is (0 to 19,
// see nice(1)), the name and a command for sh, with a tab between them. Parts of one
// lane run one after the other, in the order of the lines. A part of the lane "alone"
// begins when all before it have ended, and those after it when it has.
//
// The first part that fails ends all others, unless BERTH_KEEP_GOING=1, and the program
// with status 1. The table of times names what failed in it. SIGINT and
// SIGTERM end all of them, and the program with status 130.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	list, err := parse(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "parts:", err)
		os.Exit(2)
	}
	r := &runner{out: os.Stdout, grace: 30 * time.Second, keepGoing: os.Getenv("BERTH_KEEP_GOING") == "1"}
	failed := r.run(ctx, list)
	fmt.Print(r.table())
	switch {
	case failed:
		os.Exit(1)
	case ctx.Err() != nil:
		os.Exit(130)
	}
}
