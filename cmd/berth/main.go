// Command berth gives every workload on Kubernetes its place on a GPU.
package main

import (
	"context"
	"os"

	"berth.dev/berth/cli"
	"berth.dev/berth/controlplane"
)

func main() {
	os.Exit(cli.Main(os.Args, cli.Options{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Up: up}))
}

// up joins the command to the control plane, which the cli layer may not import.
func up(ctx context.Context, o cli.UpOptions) error {
	return controlplane.Run(ctx, controlplane.Options{
		Dir: o.Dir, Fleet: o.Fleet, Port: o.Port, Began: o.Began, Scheduler: o.Scheduler, HoldScheduler: o.HoldScheduler,
		Laid: o.Laid, Died: o.Died, Step: o.Step, Ready: o.Ready,
	})
}
