// Package doctor is `berth doctor`: it reads what kube/doctor and kube/spawn judge, and prints
// their findings.
package doctor

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/process"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/internal/buildinfo"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/doctor"
)

// doctorCommand is `berth doctor`.
type doctorCommand struct {
	o          client.Options
	cluster    client.Flags
	output     term.Output
	production bool
}

// New makes `berth doctor`.
func New(o client.Options) *cobra.Command {
	d := &doctorCommand{o: o}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what prevents a cluster's GPUs from being used, and suggest fixes",
		Long: "Check which nodes of a cluster offer GPUs, with which driver, device plugin, scheduler, and exporter, and\n" +
			"what is in the way. Each finding is ok, warn (pods can use GPUs, but something will surprise users), or fail\n" +
			"(pods cannot use GPUs), and suggests a fix. Nothing changes, and nothing of Berth is needed in the cluster.\n" +
			"Exits with code 3 if a check fails. `doctor node` checks one node, and `doctor spawn` checks what a user's\n" +
			"notebook needs.",
		Example: "  berth doctor\n  berth doctor --production\n  berth doctor -o json\n  berth doctor -o junit > doctor.xml\n  berth doctor -o jsonpath='{.items[?(@.status==\"fail\")].seen}'",
		Args:    func(cmd *cobra.Command, args []string) error { return term.UnknownCommand(cmd, args) },
		RunE:    func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	d.cluster.AddFlags(cmd, false)
	d.output.AddFlags(cmd, term.Rows{Kind: "FindingList", Row: finding.Finding{}})
	cmd.Flags().Lookup("output").Usage += "; sarif and junit for CI"
	cmd.Flags().BoolVar(&d.production, "production", false, "check, too, what teams need that rely on the cluster: autoscaling, spot capacity, quotas, utilization, sharing, alerts")
	cmd.AddCommand(newDoctorNode(o), newDoctorSpawn(o))
	return cmd
}

func newDoctorNode(o client.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "node [flags]",
		Short: "Check the driver, toolkit, container runtime, and kernel modules of this GPU node",
		Long: "Check what a GPU node needs before its pods can use GPUs: driver, kernel modules, device nodes, container\n" +
			"toolkit, container runtime, and device plugin. Each finding shows what was found and suggests a fix.\n" +
			"Nothing changes. It runs the program " + process.AgentProgram + " from the same folder.",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return process.BecomeAgent(o, append([]string{"doctor"}, args...))
		},
	}
}

func (d *doctorCommand) run(ctx context.Context) error {
	if err := checkFindings(&d.output); err != nil {
		return err
	}
	c, err := d.cluster.Connect(d.o)
	if err != nil {
		return err
	}
	all, err := examine(ctx, c, d.o)
	if err != nil {
		return err
	}
	found := doctor.Examine(all)
	if d.production {
		found = append(found, doctor.Production(all, running(ctx, c, d.o, &all))...)
	}
	return writeFindings(d.o, &d.output, found, "")
}

// screenOf is the screen that findings are shown on: a terminal's lines are broken between words, unless -o wide asks for whole ones.
func screenOf(out *term.Output, w io.Writer) finding.Screen {
	s := out.Screen(w)
	if !s.Cut {
		s.Width = 0
	}
	return finding.Screen{Width: s.Width, Color: s.Color}
}

// checkFindings refuses a form that findings cannot be printed in.
func checkFindings(out *term.Output) error {
	switch out.Format {
	case term.OutputName:
		return term.Usagef("--output name: not supported for findings; use json, yaml, sarif, junit, jsonpath=..., or go-template=...")
	case finding.FormatSARIF, finding.FormatJUnit:
		return nil
	}
	return out.Check()
}

// writeFindings prints findings as was asked for: for a person with a last line, if there
// is one to say. The error is errFound where one is a fail.
func writeFindings(o client.Options, out *term.Output, found []finding.Finding, last string) error {
	var err error
	if out.Format == finding.FormatSARIF || out.Format == finding.FormatJUnit {
		err = finding.Encode(o.Out, out.Format, "berth doctor", buildinfo.Version, finding.Unplaced(found))
	} else if out.Object() {
		err = term.Write(o.Out, out, term.NewList("FindingList", found))
	} else if err = finding.Print(o.Out, screenOf(out, o.Out), found); err == nil && last != "" {
		_, err = term.PrintLine(o.Out, last)
	}
	if err == nil && finding.Failed(found) > 0 {
		return term.ErrFound
	}
	return err
}
