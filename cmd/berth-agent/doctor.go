package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/pflag"

	"berth.dev/berth/agent"
	"berth.dev/berth/agent/doctor"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/agent/settings"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/internal/visible"
)

// diagnose is `berth doctor node`. Its exit code is 1 where pods cannot use the GPUs.
func diagnose(ctx context.Context, args []string) int {
	s := pflag.NewFlagSet("berth doctor node", pflag.ContinueOnError)
	var o doctor.Options
	var output, fake, program string
	s.StringVarP(&output, "output", "o", "", "json: print only a list of findings")
	s.StringVar(&o.Root, "root", "/", "root of the node's files, such as /host in a pod")
	s.StringVar(&o.Runtime, "runtime", "", "container runtime as the node's status shows it, such as containerd://2.1.4 (default: ask the program)")
	s.StringVar(&o.CDIDir, "cdi-dir", "/var/run/cdi", "directory in which the container runtime reads CDI specs")
	s.StringVar(&o.Metrics, "metrics", "http://127.0.0.1:9400/metrics", "address of the metrics of the agent or dcgm-exporter; \"\" skips the check")
	s.StringVar(&fake, "fake", "", "check a node that serves the fake GPUs of this text file")
	s.StringVar(&program, "nvml-program", "", "the program that reads the driver (default: "+nvmlProgram+" next to this one)")
	s.Usage = func() {
		fmt.Fprintf(os.Stdout, "Check what a GPU node needs before its pods can use GPUs, and suggest fixes. It changes nothing.\n\nUsage:\n  berth doctor node [flags]\n\nFlags:\n%s", s.FlagUsages())
	}
	if err := s.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return 0
		}
		return usage(err)
	}
	if s.NArg() > 0 {
		return usage(fmt.Errorf("unknown argument %q", s.Arg(0)))
	}
	if output != "" && output != "json" {
		return usage(fmt.Errorf("invalid --output %q: must be json, or omitted", output))
	}
	path, err := nvmlPath(program)
	if err != nil {
		return usage(err)
	}
	command := []string{path}
	from, err := settings.New(nil, os.Getenv)
	if err != nil {
		return usage(err)
	}
	if fake != "" {
		const devices = "/dev/nvidia*" // nothing is given to containers here
		if err := (agent.Options{FakeFile: fake, FakeDevices: []string{devices}}).CheckFiles(); err != nil {
			return usage(err)
		}
		o.Fake, command = true, append(command, "--fake", fake, "--fake-devices", devices)
	} else if c := settings.Read(from, ""); c.InForce {
		command = append(command, agent.DriverFlags(c.Settings)...)
	}
	ctx, cancel := context.WithCancel(ctx)
	client := nvml.Start(ctx, nvml.Options{Command: command, Log: slog.New(slog.DiscardHandler)})
	o.Snapshot = client.Snapshot
	findings := doctor.Run(ctx, o)
	cancel()
	client.Wait()
	if err := show(findings, output); err != nil {
		fmt.Fprintf(os.Stderr, "error: %s\n", visible.Under(err.Error(), "  "))
		return 1
	}
	return min(finding.Failed(findings), 1)
}

func show(findings []finding.Finding, output string) error {
	if output != "json" {
		return finding.Print(os.Stdout, finding.Screen{}, findings)
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(findings)
}
