package cli

import (
	"github.com/spf13/cobra"
)

func newDoctor(o Options) *cobra.Command {
	doctor := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong, and say what to do",
		Args:  func(cmd *cobra.Command, args []string) error { return unknownCommand(cmd, args) },
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	doctor.AddCommand(&cobra.Command{
		Use:   "node [flags]",
		Short: "Check driver, toolkit, container runtime and kernel modules of this GPU node",
		Long: "Check what a GPU node needs before its pods can use GPUs: driver, kernel modules, device nodes, container\n" +
			"toolkit, container runtime, and who serves GPUs to the kubelet. Each finding says what was seen and what to\n" +
			"do. It changes nothing. It runs the program " + agentProgram + ", which stands beside this one.",
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return o.becomeAgent(append([]string{"doctor"}, args...)) },
	})
	return doctor
}
