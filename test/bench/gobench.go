package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// goBench is a Go benchmark that runs by itself in some processes, one after the other.
type goBench struct {
	pkg, name string // name is what -bench selects
	time      string // -benchtime; "" is Go's own
	runs      int
	figures   []goFigure
}

// goFigure is a figure of a benchmark.
type goFigure struct {
	of   string // the name of the benchmark or of one in it, without "Benchmark" and spaces as underscores
	unit string // as Go prints it, such as ns/op
	figure
	scale float64 // from Go's unit to that of the figure
}

// benchGo measures benchmarks and adds their figures in order.
func benchGo(ctx context.Context, r *report, all []goBench) error {
	for _, b := range all {
		values := map[[2]string][]float64{}
		busy := false
		for range b.runs {
			out, others, err := b.run(ctx)
			if err != nil {
				return err
			}
			busy = busy || others
			for name, units := range parseGoBench(out) {
				for unit, value := range units {
					key := [2]string{name, unit}
					values[key] = append(values[key], value)
				}
			}
		}
		for _, f := range b.figures {
			got := values[[2]string{f.of, f.unit}]
			if len(got) != b.runs {
				return fmt.Errorf("%s: benchmark %s reports %s %d times, want %d", b.pkg, f.of, f.unit, len(got), b.runs)
			}
			one := f.figure
			for _, v := range got {
				one.values = append(one.values, v*f.scale)
			}
			one.busy, one.wall = busy, one.wall || f.unit == "ns/op"
			if one.how == "" {
				one.how = "the same"
			} else {
				one.how = fmt.Sprintf("%s (`go test -bench %s %s`)", one.how, b.name, b.pkg)
			}
			r.add(one)
		}
	}
	return nil
}

// run runs the benchmark in one process and returns what it prints, and whether the machine did something else beside it.
func (b *goBench) run(ctx context.Context) (out string, busy bool, err error) {
	args := []string{"test", "-vet=off", "-count=1", "-run", "^$", "-bench", "^Benchmark" + b.name + "$", "-timeout", "30m"}
	if b.time != "" {
		args = append(args, "-benchtime", b.time)
	}
	watch, err := startWatch()
	if err != nil {
		return "", false, err
	}
	cmd := exec.CommandContext(ctx, "go", append(args, b.pkg)...)
	raw, err := cmd.CombinedOutput()
	if err != nil {
		return "", false, fmt.Errorf("go %s %s: %w\n%s", strings.Join(args, " "), b.pkg, err, raw)
	}
	_, _, busy, err = watch.stop(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
	return string(raw), busy, err
}

// parseGoBench reads what benchmarks print: their values by name, without "Benchmark" and the number of
// cores, and by unit.
func parseGoBench(out string) map[string]map[string]float64 {
	all := map[string]map[string]float64{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		name, is := strings.CutPrefix(fields[0], "Benchmark")
		if !is {
			continue
		}
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			if _, err := strconv.Atoi(name[i+1:]); err == nil {
				name = name[:i]
			}
		}
		units := map[string]float64{}
		for k := 2; k+1 < len(fields); k += 2 {
			if v, err := strconv.ParseFloat(fields[k], 64); err == nil {
				units[fields[k+1]] = v
			}
		}
		all[name] = units
	}
	return all
}
