package profiles

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/profile"
)

// profilesList is `berth profiles list`.
type profilesList struct {
	notebook.Command
	output term.Output
	values valuesFlags
}

func newProfilesList(o client.Options) *cobra.Command {
	l := &profilesList{Command: notebook.Command{Options: o}}
	cmd := &cobra.Command{
		Use:     "list [FILE]",
		Aliases: []string{"ls"},
		Short:   "List profiles with their GPUs, CPU, memory, free GPUs, price, and whether one would start now",
		Long: "List the profiles of the cluster, or of a values file, with what the cluster has for each: the GPU models that\n" +
			"it selects, how many of them are free, their price per hour from the prices of their nodes, and whether a\n" +
			"notebook with its default choices would start now. CPU and memory show the request, and after the dash the\n" +
			"limit. A * marks the default. Quotas are not checked. If you cannot list nodes, or the pods of all namespaces,\n" +
			"you see a ? instead.",
		Example: "  berth profiles list\n  berth profiles list -o wide\n  berth profiles list values.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), args) },
	}
	l.Cluster.AddFlags(cmd, false)
	l.output.AddFlags(cmd, term.Rows{Kind: "ProfileList", Row: profileRow{}})
	l.values.add(cmd)
	return cmd
}

func (l *profilesList) run(ctx context.Context, args []string) error {
	if err := l.output.Check(); err != nil {
		return err
	}
	var list []v1alpha1.NotebookProfile
	if len(args) > 0 {
		f, err := l.values.read(l.Options, args[0])
		if err != nil {
			return err
		}
		f.Check()
		for i := range f.Profiles {
			list = append(list, f.Profiles[i].NotebookProfile)
		}
		if wrong, _, _ := tally(f.Findings); wrong > 0 {
			term.Printf(l.Options.Err, "omitted because of %s: `%s profiles lint %s` shows them\n", term.Count(wrong, "error"), l.Options.Name, args[0])
		}
	}
	n, err := l.Connect()
	if err != nil {
		return err
	}
	if len(args) == 0 {
		if list, err = n.Profiles(ctx); err != nil {
			return err
		}
	}
	slices.SortStableFunc(list, func(a, b v1alpha1.NotebookProfile) int {
		return cmp.Or(cmp.Compare(a.Spec.Order, b.Spec.Order), cmp.Compare(a.Name, b.Name))
	})
	on, err := offers(ctx, n.Cluster, l.Options)
	hidden := ""
	if apierrors.IsForbidden(err) {
		hidden = "you cannot list nodes or the pods of all namespaces; you can still create notebooks"
		on, err = profile.NewCluster(nil, nil)
	}
	if err != nil {
		return err
	}
	if hidden == "" {
		if rules, known := n.Cluster.PriceRules(ctx, l.Options); known {
			on.Priced(rules, l.Options.Time())
		}
	}
	return l.print(profileRows(list, on, hidden))
}

func (l *profilesList) print(rows []profileRow) error {
	switch {
	case l.output.Object():
		return term.Write(l.Options.Out, &l.output, term.NewList("ProfileList", rows))
	case l.output.Format == term.OutputName:
		for i := range rows {
			term.PrintLine(l.Options.Out, "notebookprofile/"+rows[i].Profile)
		}
		return nil
	}
	wide := l.output.Format == term.OutputWide
	t := &term.Table{Head: []string{"PROFILE", "GPUS", "MODEL", "CPU", "MEMORY", "FREE", "$/H"}, Gap: 2, Spare: []string{"MEMORY", "CPU", "MODEL"}}
	if wide {
		t.Head = append(t.Head, "NAME", "GROUPS", "OPTIONS", "SOURCE")
	}
	t.Head = append(t.Head, "STARTS NOW")
	for i := range rows {
		r := &rows[i]
		cells := []string{r.Profile, dash(r.GPUText), dash(shortModels(r.Models)), r.CPU, r.Memory, "-", "-"}
		if r.Default {
			cells[0] += " *"
		}
		if r.FreeGPUs != nil {
			cells[5] = strconv.FormatFloat(*r.FreeGPUs, 'f', -1, 64)
		}
		if r.PricePerHour != nil {
			cells[6] = rangeText(r.PricePerHour)
		}
		if r.Hidden != "" && r.Resource != "" {
			cells[2], cells[5], cells[6] = hiddenText, hiddenText, hiddenText
		}
		if wide {
			groups := "all"
			if r.Groups != nil {
				groups = dash(strings.Join(r.Groups, ","))
			}
			cells = append(cells, r.Name, groups, dash(strings.Join(r.Options, ",")), dash(r.Source))
		}
		word, why := startText(r)
		if wide && why != "" {
			word += ": " + why
		}
		t.Add(append(cells, word)...)
	}
	if err := t.Write(l.Options.Out, l.output.Screen(l.Options.Out), l.output.NoHeaders); err != nil {
		return err
	}
	if len(rows) > 0 && rows[0].Hidden != "" {
		term.Printf(l.Options.Out, "%s is hidden: %s\n", hiddenText, rows[0].Hidden)
	}
	if wide {
		return nil
	}
	for i := range rows {
		if word, why := startText(&rows[i]); why != "" {
			term.Printf(l.Options.Out, "%s: %s: %s\n", rows[i].Profile, word, why)
		}
	}
	return nil
}

// hiddenText stands for what the user may not see.
const hiddenText = "?"

// profileRow is a profile in `berth profiles list -o json`.
type profileRow struct {
	Profile      string   `json:"profile"`
	Name         string   `json:"name"`
	Description  string   `json:"description,omitempty"`
	Default      bool     `json:"default"`
	Groups       []string `json:"groups"` // null is everybody
	Options      []string `json:"options"`
	Source       string   `json:"source,omitempty"`
	Resource     string   `json:"resource,omitempty"` // of its GPUs
	GPUs         int64    `json:"gpus"`
	GPUText      string   `json:"-"`
	Models       []string `json:"models"`         // of the GPUs that it may get; null is hidden
	CPU          string   `json:"cpu"`            // guaranteed-limit
	Memory       string   `json:"memory"`         // guaranteed-limit
	FreeGPUs     *float64 `json:"free"`           // physical ones, of those that it may get; null without GPUs, or hidden
	PricePerHour *prices  `json:"pricePerHour"`   // of its GPUs; null is unknown
	StartsNow    *bool    `json:"startsNow"`      // with the default choices; null is hidden
	Node         string   `json:"node,omitempty"` // where
	Never        bool     `json:"never"`          // not even on an empty cluster, or one that grows
	Pool         string   `json:"pool,omitempty"` // on a new node of which it would start
	Why          string   `json:"why,omitempty"`  // it would not start
	// Hidden is why its state in the cluster is not shown; "" if it is shown.
	Hidden string `json:"hidden,omitempty"`
}

// prices are the least and the most that something costs.
type prices struct {
	Least float64 `json:"least"`
	Most  float64 `json:"most"`

	Currency string `json:"currency"` // such as USD
}

// profileRows tells of each profile, which are in order, what the cluster has for
// it; where that is hidden, what it asks for alone.
func profileRows(list []v1alpha1.NotebookProfile, on *profile.Cluster, hidden string) []profileRow {
	first := max(0, slices.IndexFunc(list, func(p v1alpha1.NotebookProfile) bool { return p.Spec.Default }))
	rows := make([]profileRow, len(list))
	for i := range list {
		s := &list[i].Spec
		r := profileRow{
			Profile: list[i].Name, Name: s.DisplayName, Description: s.Description, Default: i == first, Groups: s.AllowedGroups,
			Options: []string{}, Source: s.Source, Models: []string{}, CPU: "-", Memory: "-", Hidden: hidden,
		}
		for j := range s.Options {
			r.Options = append(r.Options, s.Options[j].Key)
		}
		offer, err := on.Offer(&list[i])
		if err != nil {
			r.Why, r.Never, r.StartsNow = err.Error(), true, new(false)
		} else {
			r.offered(&offer)
		}
		rows[i] = r
	}
	return rows
}

// offered notes what the cluster has.
func (r *profileRow) offered(s *profile.Standing) {
	r.Resource, r.GPUs = s.Resource, s.GPUs
	r.CPU = amountRange(s.CPU, s.CPULimit, func(q resource.Quantity) string { return strconv.FormatFloat(q.AsApproximateFloat64(), 'f', -1, 64) })
	r.Memory = amountRange(s.Memory, s.MemoryLimit, func(q resource.Quantity) string { return sizeText(q.Value()) })
	if s.Resource != "" {
		r.GPUText = strconv.FormatInt(s.GPUs, 10)
		if s.Resource != "nvidia.com/gpu" {
			r.GPUText += " " + strings.TrimPrefix(s.Resource, "nvidia.com/")
		}
	}
	if r.Hidden != "" {
		r.Models = nil
		return
	}
	r.StartsNow, r.Node, r.Why, r.Never, r.Pool = new(s.Starts != ""), s.Starts, s.Why, s.Never, s.Pool
	if s.Resource == "" {
		return
	}
	r.Models = append(r.Models, s.Products...)
	free := term.FromMilli(s.FreeGPUs)
	r.FreeGPUs = &free
	if s.MostPriceMicros > 0 {
		r.PricePerHour = &prices{float64(s.LeastPriceMicros) / 1e6, float64(s.MostPriceMicros) / 1e6, s.Currency}
	}
}

// amountRange is "2-4": what is guaranteed, and the limit; one of the two alone
// where they are equal, "2-" where there is no limit.
func amountRange(least, most resource.Quantity, text func(resource.Quantity) string) string {
	switch {
	case least.IsZero() && most.IsZero():
		return "-"
	case least.IsZero():
		return text(most) // the API server guarantees what is only limited
	case most.IsZero():
		return text(least) + "-"
	case least.Cmp(most) == 0:
		return text(least)
	}
	from, to := text(least), text(most)
	if unit := strings.TrimLeft(to, "0123456789."); strings.TrimLeft(from, "0123456789.") == unit {
		from = strings.TrimSuffix(from, unit)
	}
	return from + "-" + to
}

// sizeText writes bytes in the largest unit of which there is at least one, with at
// most two decimals: "512Mi", "7.45Gi", "1.5Ti".
func sizeText(bytes int64) string {
	unit, name := float64(1<<20), "Mi"
	switch {
	case bytes >= 1<<40:
		unit, name = 1<<40, "Ti"
	case bytes >= 1<<30:
		unit, name = 1<<30, "Gi"
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", float64(bytes)/unit), "0"), ".") + name
}

// rangeText writes prices: one, or from the least to the most. Dollars are without their name.
func rangeText(p *prices) string {
	text := fmt.Sprintf("%.2f", p.Most)
	if p.Least != p.Most {
		text = fmt.Sprintf("%.2f-%s", p.Least, text)
	}
	if p.Currency != cost.Dollar {
		text += " " + p.Currency
	}
	return text
}

// shortModels names GPU models in few letters.
func shortModels(models []string) string {
	var out []string
	for _, m := range models {
		if p, ok := gpu.Find(m); ok {
			m = p.Name
		}
		out = append(out, gpu.ShortName(m))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}

// startText reports whether a profile would start now, and why not.
func startText(r *profileRow) (word, why string) {
	switch {
	case r.StartsNow == nil:
		return hiddenText, ""
	case *r.StartsNow:
		return "yes", ""
	case r.Never:
		return "never", r.Why
	}
	return "no", r.Why
}

func dash(s string) string { return cmp.Or(s, "-") }
