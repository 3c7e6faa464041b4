// Package sim is `berth sim`: faults of simulated nodes and GPUs, as annotations of nodes.
package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"berth.dev/berth/api"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/devices"
)

const simulated = api.LabelSimulated + "=true"

// simCommand is `berth sim` and its commands.
type simCommand struct {
	o       client.Options
	cluster client.Flags
	output  term.Output
}

// New makes `berth sim`.
func New(o client.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Break and heal simulated nodes and GPUs",
		Args:  term.UnknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSimBreak(o), newSimHeal(o), newSimList(o))
	return cmd
}

func newSimBreak(o client.Options) *cobra.Command {
	s := &simCommand{o: o}
	var kinds []string
	for _, k := range faultKinds {
		effect := k.effect
		if effect == "" {
			effect = "the driver reports this Xid on the GPU, as in xid-79"
		}
		kinds = append(kinds, fmt.Sprintf("  %-14s %s", k.name, effect))
	}
	cmd := &cobra.Command{
		Use:   "break KIND NODE[/GPU]",
		Short: "Break a simulated node or GPU",
		Long: "Break a simulated node or GPU; the cluster reacts as a real one does. It stays broken until you heal it, also\n" +
			"after a restart. A fault of a GPU without an index breaks GPU 0. Kinds:\n" +
			"\n" +
			"" + strings.Join(kinds, "\n"),
		Example:           "  berth sim break xid-79 gpu-node-1/0\n  berth sim break kubelet gpu-node-2",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: s.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.breakNode(cmd.Context(), args[0], args[1])
		},
	}
	s.cluster.AddFlags(cmd, false)
	return cmd
}

func newSimHeal(o client.Options) *cobra.Command {
	s := &simCommand{o: o}
	cmd := &cobra.Command{
		Use:   "heal KIND|all NODE[/GPU]",
		Short: "Heal simulated nodes and GPUs",
		Long: "Heal a simulated node or GPU. Without an index, the kind is healed on every GPU of the node. The kind all\n" +
			"heals every kind.",
		Example:           "  berth sim heal xid-79 gpu-node-1/0\n  berth sim heal all gpu-node-1",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: s.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.heal(cmd.Context(), args[0], args[1])
		},
	}
	s.cluster.AddFlags(cmd, false)
	return cmd
}

func (s *simCommand) breakNode(ctx context.Context, kind, target string) error {
	k, err := parseKind(kind)
	if err != nil {
		return err
	}
	node, index, err := parseTarget(target)
	if err != nil {
		return err
	}
	c, err := s.cluster.Connect(s.o)
	if err != nil {
		return err
	}
	var f fault
	var gpus []devices.InventoryGPU
	was := false
	err = editFaults(ctx, c, node, func(n *v1.Node, have []fault) ([]fault, error) {
		if gpus, err = devices.Inventory(n); err != nil {
			return nil, err
		}
		if f, err = locate(k, node, index, gpus); err != nil {
			return nil, err
		}
		if was = slices.Contains(have, f); was {
			return have, nil
		}
		return append(have, f), nil
	})
	if err != nil {
		return err
	}
	where, at := node, node
	if f.gpu >= 0 {
		at = fmt.Sprintf("%s/%d", node, f.gpu)
		i := slices.IndexFunc(gpus, func(g devices.InventoryGPU) bool { return g.Index == f.gpu })
		where = fmt.Sprintf("%s GPU %d (%s)", node, f.gpu, gpus[i].UUID)
	}
	word := "broken"
	if was {
		word = "is already broken"
	}
	term.Printf(s.o.Out, "%s: %s %s\n  %s.\n  heal it with: berth sim heal %s %s\n", where, k.name, word, upper(k.effect), k.name, at)
	return nil
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (s *simCommand) heal(ctx context.Context, kind, target string) error {
	if kind != "all" {
		if _, err := parseKind(kind); err != nil {
			return err
		}
	}
	node, index, err := parseTarget(target)
	if err != nil {
		return err
	}
	c, err := s.cluster.Connect(s.o)
	if err != nil {
		return err
	}
	var healed, left []fault
	err = editFaults(ctx, c, node, func(_ *v1.Node, have []fault) ([]fault, error) {
		healed, left = nil, nil
		for _, f := range have {
			if (kind == "all" || f.kind == kind) && (index < 0 || f.gpu == index) {
				healed = append(healed, f)
			} else {
				left = append(left, f)
			}
		}
		return left, nil
	})
	if err != nil {
		return err
	}
	switch {
	case len(healed) > 0:
		term.Printf(s.o.Out, "%s: healed %s\n", node, joinFaults(healed))
	case len(left) > 0:
		term.Printf(s.o.Out, "%s: nothing to heal; it has %s\n", target, joinFaults(left))
	default:
		term.Printf(s.o.Out, "%s: nothing to heal\n", target)
	}
	return nil
}

func joinFaults(list []fault) string {
	var out []string
	for _, f := range list {
		out = append(out, f.String())
	}
	return strings.Join(out, ", ")
}

// editFaults changes the faults of a simulated node, and refuses every other
// node. It tries again if another client wrote the node in between.
func editFaults(ctx context.Context, c *client.Cluster, name string, edit func(*v1.Node, []fault) ([]fault, error)) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return noSuchNode(ctx, c, name)
		}
		if err != nil {
			return c.Failed("read node "+name, err)
		}
		if node.Labels[api.LabelSimulated] != "true" {
			return term.Usagef("node %s is not simulated (it has no label %s): berth does not break real nodes", name, simulated)
		}
		have, err := readFaults(node.Annotations)
		if err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
		want, err := edit(node, slices.Clone(have))
		if err != nil {
			return err
		}
		slices.SortFunc(want, compareFaults)
		if slices.Equal(want, have) {
			return nil
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": node.ResourceVersion,
			"annotations":     map[string]any{api.AnnotationFaults: writeFaults(want)},
		}})
		if err != nil {
			return fmt.Errorf("write the faults of node %s: %w", name, err)
		}
		_, err = c.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "berth"})
		if apierrors.IsConflict(err) {
			return err
		}
		return c.Failed("write node "+name, err)
	})
	if apierrors.IsConflict(err) {
		return fmt.Errorf("write node %s: %w; another client keeps changing it; try again", name, err)
	}
	return err
}

func noSuchNode(ctx context.Context, c *client.Cluster, name string) error {
	names, err := simulatedNodes(ctx, c)
	if err != nil {
		return err
	}
	if near := gpu.NearestWord(name, names); near != "" {
		return term.Usagef("there is no node %s; did you mean %s?", name, near)
	}
	return term.Usagef("there is no node %s; `berth nodes` lists them", name)
}

func simulatedNodes(ctx context.Context, c *client.Cluster) ([]string, error) {
	list, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: simulated, ResourceVersion: "0"})
	if err != nil {
		return nil, c.Failed("list nodes", err)
	}
	var out []string
	for _, n := range list.Items {
		out = append(out, n.Name)
	}
	slices.Sort(out)
	return out, nil
}

// faultRow is a line of `berth sim list`.
type faultRow struct {
	Node  string `json:"node"`
	Fault string `json:"fault"` // kind
	Index int    `json:"index"` // of the GPU; -1 is the whole node
}

func newSimList(o client.Options) *cobra.Command {
	s := &simCommand{o: o}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the faults of simulated nodes and GPUs",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return s.list(cmd.Context()) },
	}
	s.cluster.AddFlags(cmd, false)
	s.output.AddFlags(cmd, term.Rows{Kind: "FaultList", Row: faultRow{}})
	return cmd
}

func (s *simCommand) list(ctx context.Context) error {
	if err := s.output.Check(); err != nil {
		return err
	}
	c, err := s.cluster.Connect(s.o)
	if err != nil {
		return err
	}
	nodes, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: simulated, ResourceVersion: "0"})
	if err != nil {
		return c.Failed("list nodes", err)
	}
	var rows []faultRow
	for _, n := range nodes.Items {
		faults, err := readFaults(n.Annotations)
		if err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
		for _, f := range faults {
			rows = append(rows, faultRow{n.Name, f.kind, f.gpu})
		}
	}
	slices.SortStableFunc(rows, func(a, b faultRow) int { return strings.Compare(a.Node, b.Node) })
	return s.printList(s.o.Out, rows)
}

func (s *simCommand) printList(w io.Writer, rows []faultRow) error {
	switch {
	case s.output.Object():
		return term.Write(w, &s.output, term.NewList("FaultList", rows))
	case s.output.Format == term.OutputName:
		for _, r := range rows {
			term.PrintLine(w, "node/"+r.Node)
		}
		return nil
	case len(rows) == 0:
		term.PrintLine(s.o.Err, "no simulated faults")
		return nil
	}
	t := &term.Table{Head: []string{"NODE", "GPU", "FAULT", "HEAL WITH"}, Gap: 2, Wrap: true}
	for _, r := range rows {
		gpu, target := "-", r.Node
		if r.Index >= 0 {
			gpu = fmt.Sprint(r.Index)
			target += "/" + gpu
		}
		t.Add(r.Node, gpu, r.Fault, "berth sim heal "+r.Fault+" "+target)
	}
	return t.Write(w, s.output.Screen(s.o.Out), s.output.NoHeaders)
}

// complete offers kinds, then simulated nodes.
func (s *simCommand) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		out := []string{"xid-13", "xid-31", "xid-48", "xid-74", "xid-79"}
		for _, k := range faultKinds {
			if k.name != "xid-N" {
				out = append(out, k.name)
			}
		}
		if cmd.Name() == "heal" {
			out = append(out, "all")
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	case 1:
		quiet := s.o
		quiet.Err = io.Discard
		c, err := s.cluster.Connect(quiet)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, _ := simulatedNodes(cmd.Context(), c) // no names to offer is fine
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
