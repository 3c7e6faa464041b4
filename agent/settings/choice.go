// Package settings finds the settings that a node agent runs with, and says so
// again when they change: flags over environment variables over a configuration
// file over defaults, where the file is one of a folder that the node's label
// picks. What a file may say is package config; nothing is applied here.
package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/api"
	"berth.dev/berth/internal/input"
)

// Choice is what holds from now on.
type Choice struct {
	// Settings are in force. They are those of the last good file where Err says
	// that the present one is refused.
	config.Settings
	// InForce is false where Err came before any good settings: then nothing is
	// to be offered, and Settings is empty.
	InForce bool
	// Source says where Settings are from: a file, or "flags and environment", which
	// are all there is where no file counts.
	Source string
	// Warnings are what the file says without effect, a sentence each.
	Warnings []string
	// Err is why something newer than Settings is not in force: file, line and
	// field where a file is refused. nil is all well.
	Err error
}

// noFile is the Source where no file counts.
const noFile = "flags and environment"

// same reports whether two choices differ in nothing.
func same(a, b Choice) bool {
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	return a.InForce == b.InForce && a.Source == b.Source && text(a.Err) == text(b.Err) &&
		slices.Equal(a.Warnings, b.Warnings) && reflect.DeepEqual(a.Settings, b.Settings)
}

// Read returns the choice for a label's value, "" for a node without the label.
// It reads files once and watches nothing. Err is set where InForce is not.
func Read(o Options, label string) Choice {
	path, err := o.pick(label)
	if err != nil {
		return Choice{Err: err}
	}
	var data []byte
	source := noFile
	if path != "" {
		source = path
		if data, err = readFile(path); err != nil {
			return Choice{Err: err}
		}
	}
	s, warnings, err := config.Resolve(path, data, o.Over)
	if err != nil {
		return Choice{Err: err}
	}
	return Choice{Settings: s, InForce: true, Source: source, Warnings: warnings}
}

// pick returns the path of the file that counts, or "" for none: an empty folder is
// where the ConfigMap, which is optional, has not been made.
func (o Options) pick(label string) (string, error) {
	if o.Dir == "" {
		return o.File, nil
	}
	names, err := files(o.Dir)
	if err != nil {
		return "", err
	}
	named := func(name, said string) (string, error) {
		if !slices.Contains(names, name) {
			return "", fmt.Errorf("specified config %s does not exist in %s, %s; %s", name, o.Dir, having(names), said)
		}
		return filepath.Join(o.Dir, name), nil
	}
	switch {
	case label != "":
		return named(label, "label the node "+api.LabelPluginConfig+" with an existing name, or add the file")
	case o.Default != "":
		return named(o.Default, "change default-config, or add the file")
	case len(names) == 0:
		return "", nil
	}
	for _, f := range o.Fallbacks {
		switch {
		case f == FallbackNamed && slices.Contains(names, "default"):
			return filepath.Join(o.Dir, "default"), nil
		case f == FallbackSingle && len(names) == 1:
			return filepath.Join(o.Dir, names[0]), nil
		case f == FallbackEmpty:
			return "", nil
		}
	}
	return "", fmt.Errorf("no config was set, no default was provided, and all fallbacks failed; %s, %s; label the node %s with one of them, or set default-config",
		o.Dir, having(names), api.LabelPluginConfig)
}

func having(names []string) string {
	if len(names) == 0 {
		return "which has no files"
	}
	return "which has " + strings.Join(names, ", ")
}

// files lists a folder, which may be a mounted ConfigMap: its files and links
// to files by name, without what begins with "..", which the kubelet keeps
// there.
func files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the configuration directory: %w; mount the ConfigMap there", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && info.Mode().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func readFile(path string) ([]byte, error) {
	data, err := input.ReadFile(path, input.Config)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("read the configuration: %w; add the file, or change config-file", err)
	case errors.Is(err, input.ErrTooLarge):
		return nil, fmt.Errorf("read the configuration: %w; no ConfigMap holds that", err)
	case err != nil:
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return data, nil
}
