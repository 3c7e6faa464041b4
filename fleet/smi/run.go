package smi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"
)

// Exit codes, as nvidia-smi's manual lists them.
const (
	exitOK      = 0
	exitFailed  = 1  // the output could not be written
	exitUsage   = 2  // a bad argument
	exitRefused = 3  // the operation is not available on this device
	exitNone    = 6  // no such GPU
	exitDriver  = 9  // the driver is not loaded
	exitLost    = 15 // a GPU has fallen off the bus
)

// Run answers one call of nvidia-smi with args, without the program's name, and
// returns its exit code: 0 done, 2 a bad argument, 3 refused because it would
// change a GPU, 6 no GPU, 9 no driver, 15 a GPU that has fallen off the bus.
//
// view is asked once for each round of a loop (-l, dmon, pmon). A loop waits
// between rounds only, and ends when its count is reached, ctx is done or
// stdout is gone. Texts of nvidia-smi's own go to stdout as there; what Berth
// adds to an error goes to stderr.
func Run(ctx context.Context, view func() View, args []string, stdout, stderr io.Writer) int {
	c := &call{view: view, stdout: stdout, stderr: stderr}
	if len(args) > 0 {
		if run, ok := subcommands[args[0]]; ok {
			return run(ctx, c, args[1:])
		}
	}
	return top(ctx, c, args)
}

// call is one call of nvidia-smi.
type call struct {
	view           func() View
	stdout, stderr io.Writer
}

var subcommands = map[string]func(context.Context, *call, []string) int{
	"dmon": dmon,
	"pmon": pmon,
	"mig":  mig,
	"topo": topo,
}

// topFlags are the options without a subcommand.
var topFlags = flagSet{
	"-h": {name: "help"}, "--help": {name: "help"}, "--version": {name: "version"},
	"-L": {name: "list"}, "--list-gpus": {name: "list"},
	"-q": {name: "report"}, "--query": {name: "report"},
	"-i": {name: "id", value: true}, "--id": {name: "id", value: true},
	"-d": {name: "display", value: true}, "--display": {name: "display", value: true},
	"-l": {name: "loop", value: true}, "--loop": {name: "loop", value: true},
	"-lms": {name: "loop-ms", value: true}, "--loop-ms": {name: "loop-ms", value: true},
	"--query-gpu": {name: "gpu", value: true}, "--query-compute-apps": {name: "apps", value: true},
	"--format": {name: "format", value: true}, "--help-query-gpu": {name: "fields"},
	"--help-query-compute-apps": {name: "app-fields"},
}

func top(ctx context.Context, c *call, args []string) int {
	o, code := topFlags.parse(c, args)
	if code != exitOK {
		return code
	}
	every, code := o.interval(c)
	if code != exitOK {
		return code
	}
	switch {
	case o.has("help"):
		return c.text(help)
	case o.has("fields"):
		return c.text(fieldHelp("gpu", gpuFields))
	case o.has("app-fields"):
		return c.text(fieldHelp("compute-apps", appFields))
	case o.has("gpu"):
		return query(ctx, c, o, every, gpuFields, gpuRows)
	case o.has("apps"):
		return query(ctx, c, o, every, appFields, appRows)
	}
	return c.loop(ctx, o, every, 0, func(b *bytes.Buffer, v View, _ int) int {
		switch {
		case o.has("version"):
			version(b, v)
		case o.has("list"):
			list(b, v)
		case o.has("report"):
			return report(c, b, v, o["display"])
		default:
			table(b, v)
		}
		return exitOK
	})
}

// text writes what does not depend on the GPUs.
func (c *call) text(s string) int {
	if _, err := io.WriteString(c.stdout, s); err != nil {
		return exitFailed
	}
	return exitOK
}

// usage ends a call with a bad argument: nvidia-smi's words on stdout, and what
// to do on stderr where there is something to say.
func (c *call) usage(theirs, hint string) int {
	fmt.Fprintln(c.stdout, theirs)
	if hint != "" {
		fmt.Fprintln(c.stderr, hint)
	}
	return exitUsage
}

// loop calls round with the GPUs that -i names and writes what it puts into the
// buffer: count times, or until the end with a count of 0, or once if every is
// 0. n counts the rounds from 0.
func (c *call) loop(ctx context.Context, o options, every time.Duration, count int, round func(b *bytes.Buffer, v View, n int) int) int {
	var tick <-chan time.Time
	for n := 0; ; {
		var b bytes.Buffer
		v, code := pick(&b, c.view(), o["id"])
		if code == exitOK {
			code = round(&b, v, n)
		}
		if _, err := c.stdout.Write(b.Bytes()); err != nil {
			return exitFailed
		}
		n++
		if code != exitOK || every == 0 || n == count {
			return code
		}
		if tick == nil {
			t := time.NewTicker(every)
			defer t.Stop()
			tick = t.C
		}
		select {
		case <-ctx.Done():
			return exitOK
		case <-tick:
		}
	}
}
