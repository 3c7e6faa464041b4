// Command berth-agent serves the GPUs of one node. It is a program of its own so
// that a GPU node does not carry the control plane and the scheduler in memory;
// `berth agent` runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/pflag"

	"berth.dev/berth/agent"
	"berth.dev/berth/internal/visible"
)

// A node agent lives for months beside work that needs the memory more.
const growth = 50

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(growth)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) > 0 && args[0] == "doctor" {
		return diagnose(ctx, args[1:])
	}
	f := newFlags()
	if err := f.set.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return 0
		}
		return usage(err)
	}
	if f.set.NArg() > 0 {
		return usage(fmt.Errorf("unknown argument %q", f.set.Arg(0)))
	}
	o, err := f.options(os.Getenv)
	if err == nil {
		err = o.Validate()
	}
	if err == nil {
		err = o.CheckFiles()
	}
	if err != nil {
		return usage(err)
	}
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-4 * f.verbosity)}))
	if err := agent.Run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "error: %s\n", visible.Under(err.Error(), "  "))
		return 1
	}
	return 0
}

func usage(err error) int {
	fmt.Fprintf(os.Stderr, "error: %s\nsee `berth agent --help`\n", visible.Under(err.Error(), "  "))
	return 2
}
