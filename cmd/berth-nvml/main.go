// Command berth-nvml owns NVML for the node agent, which runs it as its child
// and talks to it in lines of JSON on stdin and stdout. It ends when its stdin
// does. It is not run by hand.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"

	"berth.dev/berth/agent/fakegpu"
	"berth.dev/berth/agent/nvml"
)

// roots say where the driver is; package real says what each means.
type roots struct{ driver, hostDriver, dev, hostDev, hook string }

func main() {
	var r roots
	fake := flag.String("fake", "", "serve the fake GPUs of this `file`")
	node := flag.String("node", "", "name of the node, which determines the UUIDs of fake GPUs (default: the host's name)")
	state := flag.String("fake-state", "", "save the state of fake GPUs in this `file`")
	devices := flag.String("fake-devices", "", "`paths`, separated by commas, of devices of the node that a file of fake GPUs may name")
	flag.StringVar(&r.driver, "driver-root", "", "`folder` that holds the driver's files")
	flag.StringVar(&r.hostDriver, "host-driver-root", "", "the same `folder` as the container runtime sees it")
	flag.StringVar(&r.dev, "dev-root", "", "`folder` that holds dev; the driver root by default")
	flag.StringVar(&r.hostDev, "host-dev-root", "", "the same `folder` as the container runtime sees it")
	flag.StringVar(&r.hook, "hook", "", "`path` of nvidia-cdi-hook on the host")
	flag.Parse()

	// What lives long is small: collect often rather than grow.
	debug.SetGCPercent(20)
	debug.SetMemoryLimit(32 << 20)

	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var lib nvml.Library
	var err error
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("%q is not a known argument; see berth-nvml --help", flag.Arg(0))
	case *fake != "":
		lib, err = fakegpu.Open(*fake, fakegpu.Options{Node: *node, State: *state, Devices: strings.FieldsFunc(*devices, func(r rune) bool { return r == ',' }), Log: log})
	default:
		lib, err = native(r)
	}
	if err == nil {
		err = nvml.Serve(context.Background(), os.Stdin, os.Stdout, lib, log)
	}
	if err != nil {
		log.Error("berth-nvml ends", "error", err)
		if errors.Is(err, nvml.ErrReload) {
			os.Exit(3)
		}
		os.Exit(1)
	}
}
