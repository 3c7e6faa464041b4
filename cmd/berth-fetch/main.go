// Command berth-fetch downloads a model into a folder: `berth fetch` without the rest of berth, for the init containers of model
// services. usage: berth-fetch SRC DIR
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"berth.dev/berth/fetch"
	"berth.dev/berth/internal/visible"
)

func main() { os.Exit(run()) }

// run returns the exit code.
func run() int {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: berth-fetch SRC DIR\nSRC is an address such as s3://BUCKET/PATH, gs://BUCKET/PATH, hf://OWNER/NAME, or https://HOST/FILE")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	src, dir := os.Args[1], os.Args[2]
	got, err := fetch.Fetch(ctx, src, dir, fetch.Options{Log: func(line string) { fmt.Println(visible.Line(line)) }})
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %s\n", visible.Line(err.Error()))
		return 1
	}
	fmt.Println(visible.Line(got.Sentence(dir)))
	return 0
}
