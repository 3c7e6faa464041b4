package cli

import (
	"context"

	"github.com/spf13/cobra"

	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/doctor"
)

// doctorCommand is `berth doctor`.
type doctorCommand struct {
	o       Options
	cluster clusterFlags
	output  outputFlags
}

func newDoctor(o Options) *cobra.Command {
	d := &doctorCommand{o: o}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what keeps a cluster's GPUs from being used, and say what to do",
		Long: "Look at a cluster as its objects show it: which nodes offer GPUs and with which driver, who serves them, who\n" +
			"schedules, who measures, and what is in the way. A line for each finding: ok, warn (pods can use GPUs, and\n" +
			"something will surprise somebody) or fail (they cannot), with what to do. It changes nothing, needs nothing\n" +
			"of Berth's in the cluster, and exits with code 3 if there is a fail. `doctor node` looks at one node,\n" +
			"`doctor spawn` at all that a user's notebook needs.",
		Example: "  berth doctor\n  berth doctor -o json\n  berth doctor -o jsonpath='{.items[?(@.status==\"fail\")].seen}'",
		Args:    func(cmd *cobra.Command, args []string) error { return unknownCommand(cmd, args) },
		RunE:    func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	d.cluster.add(cmd, false)
	d.output.add(cmd)
	cmd.AddCommand(newDoctorNode(o), newDoctorSpawn(o))
	return cmd
}

func newDoctorNode(o Options) *cobra.Command {
	return &cobra.Command{
		Use:   "node [flags]",
		Short: "Check driver, toolkit, container runtime and kernel modules of this GPU node",
		Long: "Check what a GPU node needs before its pods can use GPUs: driver, kernel modules, device nodes, container\n" +
			"toolkit, container runtime, and who serves GPUs to the kubelet. Each finding says what was seen and what to\n" +
			"do. It changes nothing. It runs the program " + agentProgram + ", which stands beside this one.",
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return o.becomeAgent(append([]string{"doctor"}, args...)) },
	}
}

func (d *doctorCommand) run(ctx context.Context) error {
	if err := checkFindings(&d.output); err != nil {
		return err
	}
	c, err := d.cluster.connect(d.o)
	if err != nil {
		return err
	}
	all, err := c.examine(ctx, d.o.now())
	if err != nil {
		return err
	}
	return d.o.findings(&d.output, doctor.Examine(all), "")
}

// checkFindings refuses a form that findings cannot be printed in.
func checkFindings(out *outputFlags) error {
	if out.format == outputName {
		return usagef("--output name: findings are no objects; choose json, yaml, jsonpath=... or go-template=...")
	}
	return out.check()
}

// findings prints findings as was asked for: for a person with a last line, if there
// is one to say. The error is errFound where one is a fail.
func (o Options) findings(out *outputFlags, found []finding.Finding, last string) error {
	var err error
	if out.object() {
		err = write(o.Out, out, newList("FindingList", found))
	} else if err = finding.Print(o.Out, found); err == nil && last != "" {
		_, err = printLine(o.Out, last)
	}
	if err == nil && finding.Failed(found) > 0 {
		return errFound
	}
	return err
}
