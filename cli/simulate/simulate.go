// Package simulate is `berth simulate`: it reads a fleet and pods, runs package simulation over
// them, and prints tables and charts. No cluster changes.
package simulate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/simulate/simulation"
	"berth.dev/berth/cli/term"
	snapshot "berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/sim/baseline"
)

// simulateCommand is `berth simulate`.
type simulateCommand struct {
	o         client.Options
	cluster   client.Flags
	protocol  string
	nodes     string
	pods      string
	loads     []float64
	seeds     string
	policies  []string
	add       []string
	cut       []string
	share     []string
	live      bool
	empty     bool
	recut     string
	every     int
	failures  float64
	estimates int
	gangs     bool
	chart     string
	output    string
}

const simulateLong = `Place the pods of a trace on a cluster in virtual time, under several policies, and show how much GPU is
allocated and which pods fail, or how long they wait. Nothing is written to any cluster.

--nodes and --pods are CSV files in the format of Alibaba's openb trace, or with your own columns: see
docs/reference/simulate.md. With --from-cluster, the nodes, their running pods and, without --pods, the mix of pods
are those of the cluster that kubectl would use.

Protocol fgd is that of "Beware of Fragmentation" (USENIX ATC '23): pods arrive in random order until they
have requested --load times all GPUs; no pod leaves, and a pod that fits nowhere fails. Protocol churn keeps
the trace's order and run times: pods leave when they complete, and pods that do not fit wait. Protocol mig
needs no files: it requests MIG devices in four mixes on 104 A100, and shows how many requests fit. Protocol
queue compares orders and reservations: every pod waits until it starts.

The same input gives the same output, except timings. Ctrl-C prints partial results, marked as partial.`

// New makes `berth simulate`.
func New(o client.Options) *cobra.Command {
	s := &simulateCommand{o: o}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Compare placement policies on a trace of pods",
		Long:  simulateLong,
		Example: "  berth simulate --nodes nodes.csv --pods pods.csv\n" +
			"  berth simulate --nodes nodes.csv --pods pods.csv --policy berth,fgd,bestfit --seeds 1-3 --chart out.svg\n" +
			"  berth simulate --protocol fgd --nodes nodes.csv --pods pods.csv --load 1.3 --seeds 42-51 --policy berth,fgd -o json\n" +
			"  berth simulate --from-cluster --add 4xh100x8",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&s.protocol, "protocol", simulation.ProtocolFGD, "fgd (pods never leave), churn (pods leave when they complete), queue (pods wait until they start), or mig (requests for MIG devices)")
	f.StringVar(&s.nodes, "nodes", "", "CSV file of nodes")
	f.StringVar(&s.pods, "pods", "", "CSV file of pods")
	f.Float64SliceVar(&s.loads, "load", nil, "requested GPUs as a multiple of all GPUs (default 1.3; churn: 1.0 and 1.3; queue: 0.9, 1.0, and 1.3; mig: 0.85 and 1.3)")
	f.Lookup("load").DefValue = "" // its text says what stands for it
	f.StringVar(&s.seeds, "seeds", "", "seeds of the runs, such as 42-51,60 (default 42-51; queue: 1-3)")
	f.StringSliceVar(&s.policies, "policy", nil, "policies to compare, from "+strings.Join(baseline.Names(), ", ")+" (default berth,fgd; mig: berth,bestfit,first-fit); of queue: "+strings.Join(queueNames(), ", ")+" (default all but "+simulation.QueueExact+")")
	f.StringArrayVar(&s.add, "add", nil, "add nodes, such as 4xh100x8: 4 nodes of 8 H100 (repeatable)")
	f.StringArrayVar(&s.cut, "cut", nil, "partition the GPUs of a model with MIG, such as a100=1g.5gb or a100=3g.20gb,2g.10gb (repeatable)")
	f.StringArrayVar(&s.share, "share", nil, "share the GPUs of a model, such as t4=4 (repeatable)")
	f.BoolVar(&s.live, "from-cluster", false, "read the nodes and their running pods from a cluster")
	f.BoolVar(&s.empty, "empty", false, "with --from-cluster: ignore running pods")
	f.StringVar(&s.recut, "recut", simulation.Recuts[0].Name, "with --protocol mig: when GPUs are repartitioned: free (next to devices in use), empty, or never")
	f.IntVar(&s.every, "every", 0, "with --protocol queue: simulate only one of so many nodes (default about 64 nodes)")
	f.Lookup("every").DefValue = "" // its text says what stands for it
	f.Float64Var(&s.failures, "failures", 0, "with --protocol queue: how often each node fails in 30 days")
	f.IntVar(&s.estimates, "estimates", 0, "with --protocol queue: estimate the start of about so many jobs, and show the errors")
	f.BoolVar(&s.gangs, "gangs", false, "with --protocol queue: make gangs of 38 % of the pods, which wait until all of their pods fit")
	f.StringVar(&s.chart, "chart", "", "also draw the chart to this file, NAME.svg")
	f.StringVarP(&s.output, "output", "o", "", "json (default: a table and a chart)")
	s.cluster.AddFlags(cmd, false)
	_ = cmd.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(baseline.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions(simulation.Protocols, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (s *simulateCommand) run(ctx context.Context) error {
	plan, err := s.plan()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second Ctrl-C ends the program at once
	switch s.protocol {
	case simulation.ProtocolMIG:
		return s.runMIG(ctx, plan)
	case simulation.ProtocolQueue:
		return s.runQueue(ctx, plan)
	}
	in, err := s.read(ctx)
	if err != nil {
		return err
	}
	if plan.Cluster, err = snapshot.New(in.nodes); err != nil {
		return err
	}
	plan.Held, plan.Pods = in.held, in.pods
	if plan.Cluster.TotalGPUs() == 0 {
		return fmt.Errorf("%s: no node has a GPU", in.from)
	}
	for _, note := range slices.Concat(in.notes, impossibleNote(plan.Cluster, in.pods), gangsNote(in.pods)) {
		term.PrintLine(s.o.Err, note)
	}
	bar := newRunProgress(s.o.Err)
	plan.Progress = bar.show
	report, err := plan.Run(ctx)
	bar.end()
	if err != nil {
		return err
	}
	if err := s.print(in, plan, report); err != nil {
		return err
	}
	return incomplete(report.Ended, report.Planned)
}

// plan reads the flags that say what to run.
func (s *simulateCommand) plan() (*simulation.Plan, error) {
	p := &simulation.Plan{Protocol: s.protocol, Loads: s.loads}
	policies, mig := s.policies, s.protocol == simulation.ProtocolMIG
	switch {
	case !slices.Contains(simulation.Protocols, s.protocol):
		return nil, term.Usagef("invalid --protocol %q: must be one of %s", s.protocol, strings.Join(simulation.Protocols, ", "))
	case len(policies) == 0 && mig:
		policies = []string{"berth", "bestfit", "first-fit"}
	case len(policies) == 0:
		policies = []string{"berth", "fgd"}
	}
	if s.output != "" && s.output != "json" {
		return nil, term.Usagef("invalid --output %q: must be json, or omitted for a table", s.output)
	}
	if s.chart != "" && !strings.HasSuffix(s.chart, ".svg") {
		return nil, term.Usagef("invalid --chart %q: must be a file name that ends in .svg", s.chart)
	}
	if err := s.checkInput(); err != nil && !mig {
		return nil, err
	}
	switch {
	case len(p.Loads) > 1 && s.protocol == simulation.ProtocolFGD:
		return nil, term.Usagef("invalid --load: protocol fgd accepts one value")
	case len(p.Loads) == 0 && s.protocol == simulation.ProtocolFGD:
		p.Loads = []float64{1.3}
	case len(p.Loads) == 0 && mig:
		p.Loads = []float64{0.85, 1.3}
	case len(p.Loads) == 0 && s.protocol == simulation.ProtocolQueue:
		p.Loads = []float64{0.9, 1.0, 1.3}
	case len(p.Loads) == 0:
		p.Loads = []float64{1.0, 1.3}
	}
	for _, load := range p.Loads {
		if !(load > 0 && load <= 100) {
			return nil, term.Usagef("invalid --load %v: must be greater than 0 and at most 100", load)
		}
	}
	var err error
	if s.seeds == "" && s.protocol == simulation.ProtocolQueue {
		s.seeds = "1-3"
	}
	s.seeds = cmp.Or(s.seeds, "42-51")
	if p.Seeds, err = parseSeeds(s.seeds); err != nil {
		return nil, err
	}
	if s.protocol != simulation.ProtocolQueue {
		p.Policies, err = lookup(policies)
	}
	return p, err
}

// lookup finds policies by name; each may be there once.
func lookup(names []string) ([]simulation.Policy, error) {
	return policiesOf(names, baseline.Names(), "", func(name string) (simulation.Policy, bool) {
		maker, err := baseline.Lookup(name)
		return simulation.Policy{Name: name, Make: maker}, err == nil
	})
}

// policiesOf finds the policies that are asked for. protocol stands behind the word policy in what is said of a name that
// all does not have.
func policiesOf[T any](names, all []string, protocol string, find func(name string) (T, bool)) (out []T, err error) {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, term.Usagef("invalid --policy: duplicate %s", name)
		}
		policy, ok := find(name)
		if !ok {
			if near := gpu.NearestWord(name, all); near != "" {
				return nil, term.Usagef("--policy: unknown policy %q%s; did you mean %q?", name, protocol, near)
			}
			return nil, term.Usagef("--policy: unknown policy %q%s; must be one of %s", name, protocol, strings.Join(all, ", "))
		}
		out = append(out, policy)
	}
	return out, nil
}

// checkInput refuses flags that do not go together.
func (s *simulateCommand) checkInput() error {
	switch {
	case s.live && s.nodes != "":
		return term.Usagef("set either --nodes or --from-cluster")
	case s.empty && !s.live:
		return term.Usagef("--empty requires --from-cluster")
	case s.live && !s.empty && len(s.cut)+len(s.share) > 0:
		return term.Usagef("--cut and --share change GPUs that pods of the cluster use: add --empty")
	case !s.live && s.nodes == "" && len(s.add) == 0:
		return term.Usagef("no nodes: set --nodes FILE.csv, --from-cluster, or --add, such as --add 4xh100x8")
	case !s.live && s.pods == "":
		return term.Usagef("no pods: set --pods FILE.csv")
	}
	return nil
}
