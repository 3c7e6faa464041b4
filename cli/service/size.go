package service

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"

	"berth.dev/berth/api"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/query"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/serving"
	"berth.dev/berth/kube/request"
	objects "berth.dev/berth/kube/serving"
)

// seenFor is how long back the readings of replicas are looked at, as PromQL writes it: what is kept.
const seenFor = "1d"

// size is `berth service size`.
type size struct {
	command
	output term.Output
}

func newSize(o client.Options) *cobra.Command {
	s := &size{command: command{options: o}}
	cmd := &cobra.Command{
		Use:   "size NAME",
		Short: "Show what part of a GPU would do for a replica of a model service",
		Long: "Show the most GPU memory, and how much of its GPU's time, a replica used in the last 24 hours, and which MIG device or\n" +
			"share would do with a fifth to spare. The readings are those of `berth query`.",
		Example:           "  berth service size mnist",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args[0]) },
	}
	s.addFlags(cmd)
	s.output.AddFlags(cmd, term.Rows{Kind: "ServiceSizeList", Row: sized{}})
	return cmd
}

// sized is a row of `berth service size -o json`: a part of a GPU that would do.
type sized struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Product   string  `json:"product"`     // of the GPU on which a replica was seen
	Memory    int64   `json:"memoryBytes"` // the most that a replica used
	Busy      float64 `json:"busy"`        // of the time of its busiest GPU or MIG device, but for the busiest 5 % of the time
	Resource  string  `json:"resource"`    // to ask for; "" is that nothing less than now would do, for the reason in Why
	Amount    int64   `json:"amount"`
	PerGPU    int     `json:"replicasPerGPU"`
	Why       string  `json:"why,omitempty"`
}

func (s *size) run(ctx context.Context, name string) error {
	if err := s.output.Check(); err != nil {
		return err
	}
	all, o, pods, err := s.seen(ctx, name)
	if err != nil {
		return err
	}
	for _, p := range pods {
		if !objects.IsTransformer(p.Labels) && (request.Of(p)[api.ResourceGPUMemory] > 0 || request.Of(p)[api.ResourceGPUShared] > 0) {
			return fmt.Errorf("%s has shares of GPUs, and the readings of a shared GPU are those of all pods on it; give a replica a whole GPU or a MIG device for a while, and ask again", o.at())
		}
	}
	use, err := all.use(ctx, o)
	if err != nil {
		return err
	}
	sizes, why := use.Sizes()
	base := sized{Namespace: o.Namespace, Name: o.Name, Product: use.Product.Name, Memory: use.MemoryBytes, Busy: use.Busy, Why: why}
	var rows []sized
	for _, z := range sizes {
		r := base
		if r.Resource, r.Amount, r.PerGPU = api.ResourceGPUMemory, z.MemoryGiB, z.PerGPU; z.MIG != "" {
			r.Resource, r.Amount = api.ResourceMIGPrefix+z.MIG, 1
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		rows = append(rows, base)
	}
	return s.print(rows)
}

// use is the most that was seen of a replica of a service.
func (s *services) use(ctx context.Context, o *service) (*serving.Use, error) {
	of := fmt.Sprintf(`{namespace=%q,pod=~%q}`, o.Namespace, regexp.QuoteMeta(o.Name)+"-predictor-[0-9a-z]+-[0-9a-z]+")
	memory, err := s.ask(ctx, "sum by (pod,modelName,GPU_I_PROFILE) (max_over_time(DCGM_FI_DEV_FB_USED"+of+"["+seenFor+"]))")
	if err != nil {
		return nil, err
	}
	counts, err := s.ask(ctx, "count by (pod) (max_over_time(DCGM_FI_DEV_FB_USED"+of+"["+seenFor+"]))")
	if err != nil {
		return nil, err
	}
	busy, err := s.ask(ctx, "max(quantile_over_time(0.95, DCGM_FI_DEV_GPU_UTIL"+of+"["+seenFor+"]) / 100) or max(quantile_over_time(0.95, DCGM_FI_PROF_GR_ENGINE_ACTIVE"+of+"["+seenFor+"]))")
	if err != nil {
		return nil, err
	}
	out := &serving.Use{}
	for _, series := range memory {
		if bytes := int64(number(&series)) << 20; bytes >= out.MemoryBytes {
			product, known := gpu.Find(series.Labels["modelName"])
			if !known {
				return nil, fmt.Errorf("the GPU of pod %s is %q, of which no sizes are known", series.Labels["pod"], series.Labels["modelName"])
			}
			out.MemoryBytes, out.Product, out.Profile = bytes, product, series.Labels["GPU_I_PROFILE"]
		}
	}
	if len(memory) == 0 {
		return nil, fmt.Errorf("there are no readings of the GPUs of %s in the last 24 hours; start it (`%s service start %s`), and wait until a replica answers", o.at(), s.options.Name, o.Name)
	}
	for _, series := range counts {
		out.Devices = max(out.Devices, int(number(&series)))
	}
	for _, series := range busy {
		out.Busy = max(out.Busy, number(&series))
	}
	return out, nil
}

// ask has the readings of the cluster answer a query of now.
func (s *services) ask(ctx context.Context, expr string) ([]query.Series, error) {
	return query.Ask(ctx, s.Cluster, "query", map[string]string{"query": expr})
}

// number is the value of a series of now; what is not a number is 0.
func number(s *query.Series) float64 {
	if len(s.Values) == 0 {
		return 0
	}
	v, err := strconv.ParseFloat(s.Values[0].Value, 64)
	if err != nil || !(v >= 0) {
		return 0
	}
	return v
}

func (s *size) print(rows []sized) error {
	w, first := s.options.Out, &rows[0]
	switch {
	case s.output.Object():
		return term.Write(w, &s.output, term.NewList("ServiceSizeList", rows))
	case s.output.Format == term.OutputName:
		_, err := term.PrintLine(w, "inferenceservice.serving.kserve.io/"+first.Name)
		return err
	}
	screen := s.output.Screen(w)
	term.PrintBlock(w, screen.Wrapped(fmt.Sprintf("%s/%s: a replica used at most %s of %s, and its GPU was busy for %.0f%% of the time, in the last 24 hours",
		first.Namespace, first.Name, serving.GiB(first.Memory), cmp.Or(first.Product, "its GPU"), 100*first.Busy)))
	if first.Why != "" {
		term.PrintBlock(w, screen.Section("SIZE", first.Why))
		return nil
	}
	for _, r := range rows {
		name := "MIG"
		if r.Resource == api.ResourceGPUMemory {
			name = "SHARE"
		}
		term.PrintBlock(w, screen.Section(name, fmt.Sprintf("%s: %d (%d such replicas on one GPU)", r.Resource, r.Amount, r.PerGPU)))
	}
	return nil
}
