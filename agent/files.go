package agent

import (
	"context"
	"errors"
	"fmt"
	"os"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/fakegpu"
	"berth.dev/berth/agent/settings"
	"berth.dev/berth/internal/input"
)

// CheckFiles reads what flags name, before anything is begun, and says what is wrong
// with it: with file, line and field where it is a file's content. It is for what is
// read at the start alone, or what only the caller can fix: the file of fake
// GPUs, the kubeconfig, and the values of flags and environment that stand for fields
// of the configuration file.
//
// The configuration file itself, the MIG configurations and the metrics file are not
// errors here: they come from ConfigMaps, which may come late and are followed.
func (o Options) CheckFiles() error {
	if o.FakeFile != "" {
		if err := fakegpu.CheckDevices(o.FakeDevices); err != nil {
			return fmt.Errorf("--fake-devices: %w", err)
		}
		if err := o.checkFake(); err != nil {
			return err
		}
	}
	if o.Kubeconfig != "" && o.Pods == PodsAPI {
		if _, err := restConfig(o.Kubeconfig); err != nil {
			return err
		}
	}
	if _, _, err := config.Resolve("", nil, o.Settings.Over); err != nil {
		return err
	}
	return nil
}

// checkFake says what is wrong with the file of GPUs that do not exist, if anything.
func (o Options) checkFake() error {
	data, err := readFile("--fake", o.FakeFile)
	if err != nil {
		return err
	}
	_, err = fakegpu.Parse(o.FakeFile, data, o.FakeDevices...)
	return err
}

// readFile reads a file that a flag names.
func readFile(flag, path string) ([]byte, error) {
	raw, err := input.ReadFile(path, input.Config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return raw, nil
}

// watchFake tells of a file of fake GPUs that has turned wrong while it is followed,
// once for each mistake. The child, which follows it, leaves the GPUs as they are.
func (a *agent) watchFake(g *group) {
	if a.o.FakeFile == "" {
		return
	}
	g.run(func(ctx context.Context) error {
		said := ""
		for range settings.Changes(ctx, a.o.Log, a.o.FakeFile) {
			err := a.o.checkFake()
			switch {
			case err == nil:
				said = ""
			case err.Error() != said:
				said = err.Error()
				if errors.Is(err, os.ErrNotExist) { // of which the child says nothing: it may come back
					a.o.Log.Warn("the fake GPUs are unchanged", "error", err)
				}
				a.nodeEvent("Warning", "InvalidFakeGPUs", said+"; the GPUs are unchanged")
			}
		}
		return nil
	})
}
