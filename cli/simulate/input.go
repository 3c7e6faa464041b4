package simulate

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/simulate/simulation"
	"berth.dev/berth/cli/term"
	snapshot "berth.dev/berth/core/cluster"
	"berth.dev/berth/sim"
)

// mostSeeds bounds how many runs one command line asks for.
const mostSeeds = 10_000

// parseSeeds reads "42-51,60".
func parseSeeds(list string) ([]int64, error) {
	var out []int64
	seen := map[int64]bool{}
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, err := strconv.ParseInt(from, 10, 32)
		last := first
		if err == nil && isRange {
			last, err = strconv.ParseInt(to, 10, 32)
		}
		switch {
		case err != nil:
			return nil, term.Usagef("invalid --seeds %q: %q is not a seed or a range; use whole numbers, such as 42-51,60", list, part)
		case last < first:
			return nil, term.Usagef("invalid --seeds %q: %s ends before it begins", list, part)
		case last-first >= mostSeeds || len(out)+int(last-first) >= mostSeeds:
			return nil, term.Usagef("invalid --seeds %q: more than %d seeds", list, mostSeeds)
		}
		for seed := first; seed <= last; seed++ {
			if seen[seed] {
				return nil, term.Usagef("invalid --seeds %q: duplicate %d", list, seed)
			}
			seen[seed] = true
			out = append(out, seed)
		}
	}
	return out, nil
}

// simulateInput is a cluster and what comes to it.
type simulateInput struct {
	nodes []snapshot.Spec
	held  []snapshot.Placement // what runs already
	pods  []sim.Pod
	from  string   // where the pods are from, for people
	notes []string // what was changed, for people
}

// read reads the files or the cluster, and changes the nodes as asked.
func (s *simulateCommand) read(ctx context.Context) (simulateInput, error) {
	var in simulateInput
	var err error
	if s.live {
		if in, err = s.fromCluster(ctx); err != nil {
			return in, err
		}
	} else if s.nodes != "" {
		if in.nodes, err = client.ReadFile(s.o, s.nodes, sim.ReadNodes); err != nil {
			return in, err
		}
	}
	for _, what := range s.add {
		var note string
		if in.nodes, note, err = simulation.Add(in.nodes, what); err != nil {
			return in, term.Usagef("--%w", err)
		}
		in.notes = append(in.notes, note)
	}
	for _, change := range []struct {
		whats []string
		apply func([]snapshot.Spec, string) (string, error)
	}{{s.cut, simulation.Cut}, {s.share, simulation.Share}} {
		for _, what := range change.whats {
			note, err := change.apply(in.nodes, what)
			if err != nil {
				return in, term.Usagef("--%w", err)
			}
			in.notes = append(in.notes, note)
		}
	}
	if s.pods == "" {
		return in, nil
	}
	in.from = filepath.Base(s.pods)
	in.pods, err = client.ReadFile(s.o, s.pods, func(file string, r io.Reader) ([]sim.Pod, error) { return sim.ReadPods(file, r, in.nodes) })
	return in, err
}

// gangsNote says how many pods start together with others, which only protocol queue heeds; nothing if none do.
func gangsNote(pods []sim.Pod) []string {
	gangs := 0
	for i := range pods {
		if pods[i].Pods > 1 {
			gangs++
		}
	}
	if gangs == 0 {
		return nil
	}
	return []string{fmt.Sprintf("column pods of %d rows is not used: one pod of each is placed; only --protocol queue places all of them together", gangs)}
}

// impossibleNote says which pods fit no node, however empty; nothing if all do.
func impossibleNote(empty *snapshot.Snapshot, pods []sim.Pod) []string {
	never := simulation.Impossible(empty, pods)
	if len(never) == 0 {
		return nil
	}
	p := &never[0]
	wants := fmt.Sprintf("%.4g cores, %.4g GiB", float64(p.CPUMilli)/1000, float64(p.MemoryBytes)/(1<<30))
	switch {
	case p.Profile != "":
		wants += fmt.Sprintf(", %d x MIG %s", p.GPUs, p.Profile)
	case p.GPUMemoryBytes > 0:
		wants += fmt.Sprintf(", %.4g GiB of each of %d GPUs", float64(p.GPUMemoryBytes)/(1<<30), p.GPUs)
	case p.GPUs > 0:
		wants += fmt.Sprintf(", %s GPUs", term.MilliText(int64(p.GPUs)*int64(p.MilliGPU)))
	}
	if len(p.Models) > 0 {
		wants += " of " + strings.Join(p.Models, " or ")
	}
	return []string{fmt.Sprintf("%d of %d pods fit no node even when it is empty, such as %s (%s): they are counted as failed", len(never), len(pods), p.Name, wants)}
}
