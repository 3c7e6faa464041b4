// Package process is the commands that are processes of a cluster: `berth scheduler`,
// `berth controller`, and `berth agent`. It reads their flags; others run them.
package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
)

// AgentProgram is the node agent. It is a separate program: with the control
// plane and the scheduler in it, each GPU node would pay 80 MB for nothing.
const AgentProgram = "berth-agent"

// NewAgent makes `berth agent`.
func NewAgent(o client.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "agent [flags]",
		Short: "Serve the GPUs of this node: device plugin, labels, health, MIG, and metrics",
		Long: "Serve the GPUs of this node: Kubernetes device plugin, labels of GPU Feature Discovery, health checks with\n" +
			"recovery, and the metrics of dcgm-exporter. It reads the configuration file of NVIDIA's device plugin.\n" +
			"It runs the program " + AgentProgram + " from the same folder; run `" + AgentProgram + " --help` for all flags.",
		Example: "  berth agent --fake gpus.yaml        serve fake GPUs on a node without GPUs\n" +
			"  berth agent --observe               change nothing: serve metrics only",
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return BecomeAgent(o, args) },
	}
}

// BecomeAgent runs the node agent in place of this process.
func BecomeAgent(o client.Options, args []string) error {
	path, err := besideThis(AgentProgram)
	if err != nil {
		return err
	}
	run := o.Exec
	if run == nil {
		run = syscall.Exec
	}
	if err := run(path, append([]string{AgentProgram}, args...), os.Environ()); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}

// besideThis finds a program in the folder of this one, else on the PATH.
func besideThis(name string) (string, error) {
	var tried []string
	if self, err := os.Executable(); err == nil {
		if target, err := filepath.EvalSymlinks(self); err == nil {
			self = target
		}
		path := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, nil
		}
		tried = append(tried, filepath.Dir(self))
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find program %s: it is neither in %s nor in $PATH; `make agent` builds it", name, strings.Join(tried, ""))
	}
	return path, nil
}
