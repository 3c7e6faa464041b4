package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"berth.dev/berth/internal/buildinfo"
	"berth.dev/berth/internal/datadir"
)

// differences says in which settings a control plane that runs is not as o asks, such as "--scheduler is stock,
// not berth". A setting that o leaves out does not differ.
func differences(o *UpOptions, s *datadir.State) (out []string) {
	minors := buildinfo.KubernetesMinors()
	for _, is := range []struct{ flag, asked, runs string }{
		{"scheduler", o.Scheduler, cmp.Or(s.Scheduler, "stock")},
		{"kubernetes-version", o.Kubernetes, cmp.Or(s.Kubernetes, minors[len(minors)-1])},
		{"notebooks", o.Notebooks, cmp.Or(s.Notebooks, "auto")},
		{"training", o.Training, cmp.Or(s.Training, "auto")},
		{"serving", o.Serving, cmp.Or(s.Serving, "auto")},
	} {
		if is.asked != "" && is.asked != is.runs {
			out = append(out, fmt.Sprintf("--%s is %s, not %s", is.flag, is.runs, is.asked))
		}
	}
	if !o.Dir.KeepsFleet(s, o.Fleet) {
		out = append(out, fmt.Sprintf("--fleet is %s, not %s", s.Fleet, o.Fleet))
	}
	if o.Port != 0 && o.Port != s.Port {
		out = append(out, fmt.Sprintf("--port is %d, not %d", s.Port, o.Port))
	}
	if len(o.HostProcesses) > 0 && !slices.Equal(o.HostProcesses, s.HostProcesses) {
		out = append(out, fmt.Sprintf("--host-process is %q, not %q", s.HostProcesses, o.HostProcesses))
	}
	return out
}
