package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// agentProgram is the node agent. It is a program of its own: with the control
// plane and the scheduler in it, each GPU node would pay 80 MB for nothing.
const agentProgram = "berth-agent"

// ExecFunc becomes another program, and returns only if it could not.
type ExecFunc func(path string, args, env []string) error

func newAgent(o Options) *cobra.Command {
	return &cobra.Command{
		Use:   "agent [flags]",
		Short: "Serve the GPUs of this node to its kubelet: device plugin, labels, health, metrics",
		Long: "Serve the GPUs of this node: Kubernetes' device plugin for them, the labels of GPU Feature Discovery, health\n" +
			"with recovery, and metrics by the names of dcgm-exporter. It reads the configuration file of NVIDIA's device\n" +
			"plugin. It runs the program " + agentProgram + ", which stands beside this one; its own --help has all flags.",
		Example: "  berth agent --fake gpus.yaml        GPUs that do not exist, on a plain node\n" +
			"  berth agent --observe               touch nothing: labels nothing, registers nothing, serves metrics",
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return o.becomeAgent(args) },
	}
}

// becomeAgent runs the node agent in place of this process.
func (o Options) becomeAgent(args []string) error {
	path, err := besideThis(agentProgram)
	if err != nil {
		return err
	}
	run := o.Exec
	if run == nil {
		run = syscall.Exec
	}
	if err := run(path, append([]string{agentProgram}, args...), os.Environ()); err != nil {
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
		return "", fmt.Errorf("find the program %s: it is neither in %s nor on the PATH; `make agent` makes it beside berth", name, strings.Join(tried, ""))
	}
	return path, nil
}
