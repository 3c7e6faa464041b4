// Command bench measures the built bin/berth and writes docs/benchmarks.md:
// each figure with its aim, the machine, its load and the command. CPU figures
// are what counts; a wall figure from a machine that was busy with something
// else is marked invalid. It is not a test: an aim that is missed is shown, and
// only what cannot be measured is an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// part is one group of measurements, and a section of the page.
type part struct {
	name, title string
	fn          func(ctx context.Context, r *report, dir string) error // dir is for its files; it does not exist yet
}

func parts() []part {
	return []part{
		{"start", "Start and stop", benchStart},
		{"scale", "A cluster at rest", benchScale},
		{"pods", "Pods to running, stock scheduler", benchPods},
		{"schedule", "Scheduling a backlog", benchSchedule},
		{"urgent", "An urgent pod behind a backlog", benchUrgent},
		{"gang", "A gang", benchGang},
		{"shapes", "Gangs of every shape", benchShapes},
		{"queues", "Pods of a thousand queues, 500 nodes", benchQueues(queuedSmall())},
		{"queues-large", "Pods of a thousand queues, 5,000 nodes", benchQueues(queuedLarge())},
		{"queues-beside", "Pods of a thousand queues, beside a control plane without", benchQueuesBeside},
		{"queues-rest", "A thousand queues at rest", benchQueuesRest},
		{"training", "Training jobs", benchTraining},
		{"jobs", "The controllers beside training jobs", benchJobs},
		{"fractions", "Halves of GPUs", benchFractions},
		{"impossible", "Pods that fit nowhere", benchImpossible},
		{"openb", "The openb trace as real pods", benchOpenb},
		{"commands", "Commands on a large cluster", benchCommands},
		{"decisions", "Decisions in memory", benchDecisions},
		{"ledger", "The ledger", benchLedger},
		{"metrics", "Metrics and alerts", benchMetrics},
		{"rest", "Ledger, readings, and alerts of berth up", benchRest},
		{"serving", "Serving", benchServing},
		{"services", "Model services at rest", benchServices},
		{"heap", "Memory of the scheduler", benchHeap},
		{"notebooks", "Notebooks", benchNotebooks},
		{"agent", "The node agent", benchAgent},
		{"simulate", "Simulation", benchSimulate},
		{"build", "Build", benchBuild},
	}
}

func main() {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	only := flag.String("only", "", "comma-separated parts: "+strings.Join(names, ",")+"; empty is all. The page keeps what it says of the others")
	out := flag.String("out", "docs/benchmarks.md", "page to write; - is stdout, with nothing of what was measured before")
	divide := flag.Int("divide", 1, "divide nodes and pods of the scheduler's parts by this, to try a part out; writes to stdout, and reaches no aim")
	nodes := flag.Int("nodes", 0, "of schedule and queues-rest, only so many nodes; writes to stdout")
	profiles := flag.String("profiles", "", "folder to keep CPU profiles in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *divide > 1 || *nodes > 0 {
		*out = "-"
	}
	r := &report{loadAt: load(), divide: max(1, *divide), nodes: *nodes, profiles: *profiles}
	if err := run(ctx, r, *only, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run runs the parts that only names and puts each on the page out as soon as
// it is measured. One that cannot be measured does not keep the others back.
func run(ctx context.Context, r *report, only, out string) error {
	work, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	all := parts()
	wanted := strings.FieldsFunc(only, func(c rune) bool { return c == ',' })
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("-only %s: there is no such part; see -help", name)
		}
	}
	var failed []error
	for _, p := range all {
		if ctx.Err() != nil {
			break
		}
		if only != "" && !slices.Contains(wanted, p.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", p.name)
		began := time.Now()
		r.figures = nil
		put := func() error { return putSection(out, section{p.name, r.section(began, time.Now())}) }
		if r.keep = put; out == "-" {
			r.keep = func() error { return nil } // it is shown at the end, once
		}
		if err := p.fn(ctx, r, filepath.Join(work, p.name)); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
			fmt.Fprintf(os.Stderr, "  not measured: %v\n", err)
			continue
		}
		if err := put(); err != nil {
			return err
		}
	}
	return errors.Join(append(failed, context.Cause(ctx))...)
}
