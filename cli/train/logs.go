package train

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	objects "berth.dev/berth/kube/training"
)

// logs is `berth train logs`.
type logs struct {
	command
	rank   int // -1 is all
	follow bool
	tail   int64 // lines of each rank; -1 is all
}

func newLogs(o client.Options) *cobra.Command {
	l := &logs{command: command{options: o}}
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print the logs of all replicas of a training job, merged",
		Long: "Print the logs of a job's replicas, merged by time, each line after its rank. With --rank, print the log of one\n" +
			"replica as it is. With -f, go on with new lines, also of pods that start later, until all have ended.",
		Example:           "  berth train logs bert\n  berth train logs bert --rank 0 --tail 20\n  berth train logs bert -f",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: l.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("rank") && l.rank < 0 {
				return term.Usagef("invalid --rank %d: must be a rank from 0 on; `%s train show %s` lists them", l.rank, o.Name, args[0])
			}
			if l.tail < -1 {
				return term.Usagef("invalid --tail %d: must be a number of lines, or -1 for all", l.tail)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return client.Interrupted(ctx, l.run(ctx, args[0]))
		},
	}
	l.addFlags(cmd)
	f := cmd.Flags()
	f.IntVar(&l.rank, "rank", -1, "print only this rank, without a prefix")
	f.BoolVarP(&l.follow, "follow", "f", false, "go on with new lines")
	f.Int64Var(&l.tail, "tail", -1, "print only so many last lines of each rank; -1 is all")
	return cmd
}

func (l *logs) run(ctx context.Context, name string) error {
	j, err := l.connect()
	if err != nil {
		return err
	}
	o, err := j.find(ctx, name)
	if err != nil {
		return err
	}
	if l.rank >= o.Total() {
		return fmt.Errorf("%s has no rank %d: it has %s, of ranks 0 to %d", o.at(), l.rank, term.Count(o.Total(), "replica"), o.Total()-1)
	}
	if l.follow {
		return l.followAll(ctx, j, o)
	}
	sources, err := l.sources(ctx, j, o)
	if err != nil {
		return err
	}
	if len(sources) == 0 {
		return fmt.Errorf("no pod of %s has started, so there are no logs; `%s train why %s` explains", o.at(), l.options.Name, o.title())
	}
	return j.merge(ctx, sources, l.printer(o), l.tail)
}

// source is a container whose log is read.
type source struct {
	rank           int
	pod, container string
}

// sources are the containers that have started, of the ranks that are asked for, in their order.
func (l *logs) sources(ctx context.Context, j *jobs, o *job) ([]source, error) {
	pods, err := j.podsOf(ctx, o)
	if err != nil {
		return nil, err
	}
	var out []source
	for _, p := range pods {
		if s, _, ok := l.source(o, p); ok {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b source) int { return a.rank - b.rank })
	return out, nil
}

// source is the container of a pod that trains, with a key of its current run. It reports false if the container has
// not started, or is of a rank that is not asked for.
func (l *logs) source(o *job, p *v1.Pod) (s source, key string, ok bool) {
	one, ok := objects.PodOf(o.Kind, p)
	rank := o.Rank(one.Member)
	if !ok || l.rank >= 0 && rank != l.rank {
		return s, "", false
	}
	s = source{rank: rank, pod: p.Name, container: p.Spec.Containers[0].Name}
	for _, c := range p.Spec.Containers {
		if c.Name == o.Kind.Container() {
			s.container = c.Name
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == s.container && (c.State.Running != nil || c.State.Terminated != nil) {
			return s, string(p.UID) + "/" + strconv.Itoa(int(c.RestartCount)), true
		}
	}
	return s, "", false
}

// printer returns what prints a line of a rank: after its rank, unless one rank was asked for.
func (l *logs) printer(o *job) func(rank int, line string) error {
	out := term.Exact(l.options.Out)
	screen := term.ScreenOf(l.options.Out)
	width := len(strconv.Itoa(max(0, o.Total()-1)))
	return func(rank int, line string) error {
		prefix := ""
		if l.rank < 0 {
			prefix = screen.Colored(fmt.Sprintf("[%*d]", width, rank), rank) + " "
		}
		_, err := term.PrintBlock(out, term.Block(prefix+line+"\n"))
		return err
	}
}
