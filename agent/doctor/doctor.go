// Package doctor says what a GPU node lacks before its pods can use GPUs:
// driver, kernel modules, device nodes, container toolkit, container runtime,
// the kubelet's device plugins, metrics.
//
// It reads, and changes nothing. Collect gathers facts from files, from the
// driver and from a few commands; Judge turns facts into findings and is pure.
// It does not look at the cluster: nodes, labels and pods are not its subject.
package doctor

import (
	"context"
	"os/exec"
	"time"

	"berth.dev/berth/agent/deviceplugin"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/internal/finding"
)

// The kinds of findings. Fail: pods cannot use this node's GPUs.
const (
	OK   = finding.OK
	Warn = finding.Warn
	Fail = finding.Fail
)

// Finding is the answer of one check.
type Finding = finding.Finding

// Options say where to look. The zero value looks at this machine, without
// asking the driver.
type Options struct {
	// Root is where the host's files lie, such as /host in a container; "" is "/".
	Root string
	// Snapshot asks the driver, by the agent's child process; nil is do not ask.
	Snapshot func(context.Context) (nvml.Snapshot, error)
	// Runtime is what the node's status tells of its container runtime, such as
	// "containerd://2.1.4"; "" asks the program, where Root is "/".
	Runtime string
	// CDIDir is where the agent writes CDI specifications; "" is /var/run/cdi.
	CDIDir string
	// SocketPrefix is what the names of the agent's own plugin sockets begin with;
	// "" is deviceplugin.Prefix.
	SocketPrefix string
	// Metrics is the address of the agent's exporter, such as
	// http://127.0.0.1:9400/metrics; "" is do not ask.
	Metrics string
	// Fake says that the node's GPUs do not exist: nothing of NVIDIA's is needed.
	Fake bool
	// Command runs a program and gives what it printed; nil is exec, where Root
	// is "/", and nothing elsewhere: a program of the host is not of this container.
	Command func(ctx context.Context, name string, args ...string) ([]byte, error)
}

// Run collects facts and judges them. The findings come in a fixed order, the
// driver first, each check once.
func Run(ctx context.Context, o Options) []Finding {
	return Judge(Collect(ctx, o))
}

// withDefaults fills in what is empty.
func (o Options) withDefaults() Options {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.CDIDir == "" {
		o.CDIDir = "/var/run/cdi"
	}
	if o.SocketPrefix == "" {
		o.SocketPrefix = deviceplugin.Prefix
	}
	if o.Command == nil {
		o.Command = func(context.Context, string, ...string) ([]byte, error) { return nil, exec.ErrNotFound }
		if o.Root == "/" {
			o.Command = runCommand
		}
	}
	return o
}

// runCommand runs a program of this machine for up to five seconds.
func runCommand(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, name, args...).Output()
}
