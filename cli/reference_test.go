package cli_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"berth.dev/berth/cli"
	"berth.dev/berth/cli/cluster"
	"berth.dev/berth/cli/process"
	"berth.dev/berth/test/golden"
)

// TestCommandsReference compares docs/reference/commands.md with the commands; with
// -update it writes the page.
func TestCommandsReference(t *testing.T) {
	root := cli.New(cli.Options{
		Up:         func(context.Context, cluster.UpOptions) error { return nil },
		Scheduler:  func(context.Context, process.SchedulerOptions) error { return nil },
		Controller: func(context.Context, process.ControllerOptions) error { return nil },
		Meter:      func(context.Context, process.MeterOptions) error { return nil },
		Activator:  func(context.Context, process.ActivatorOptions) error { return nil },
	})
	var page strings.Builder
	page.WriteString("# Commands\n\nGenerated from the help texts: `go test ./cli -run TestCommandsReference -update` writes it.\n\n" +
		"## Flags of all commands that read a cluster\n\nEach command below that uses an existing cluster has these flags, as kubectl does.\n")
	common := clusterFlags(t, root)
	printFlags(&page, common)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		ofCobra := c.Name() == "help" || c.HasParent() && c.Parent().Name() == "completion" && c.Name() != "install"
		if c.HasParent() && c.IsAvailableCommand() && !ofCobra {
			printCommand(&page, c, common)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	golden.File(t, "../../docs/reference/commands.md", page.String())
}

// clusterFlags returns the flags that several commands for a cluster have.
func clusterFlags(t *testing.T, root *cobra.Command) *pflag.FlagSet {
	t.Helper()
	set := pflag.NewFlagSet("cluster", pflag.ContinueOnError)
	var flags [2]*pflag.FlagSet
	for i, name := range []string{"nodes", "doctor"} {
		c, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		flags[i] = c.Flags()
	}
	flags[0].VisitAll(func(f *pflag.Flag) {
		if other := flags[1].Lookup(f.Name); other != nil && other.Usage == f.Usage && f.Name != "help" && f.Name != "output" {
			set.AddFlag(f)
		}
	})
	if set.Lookup("kubeconfig") == nil {
		t.Fatal("the commands for a cluster have no flag kubeconfig")
	}
	return set
}

// printCommand prints a command, without the flags in common.
func printCommand(page *strings.Builder, c *cobra.Command, common *pflag.FlagSet) {
	fmt.Fprintf(page, "\n## %s\n\n", c.CommandPath())
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	if head, list, found := strings.Cut(text, ":\n\n  "); found {
		text = head + ":\n\n```text\n  " + list + "\n```"
	}
	fmt.Fprintf(page, "%s\n\n```text\n%s\n", text, c.UseLine())
	if c.Example != "" {
		fmt.Fprintf(page, "\n%s\n", c.Example)
	}
	page.WriteString("```\n")
	own := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if same := common.Lookup(f.Name); f.Name != "help" && (same == nil || same.Usage != f.Usage) {
			own.AddFlag(f)
		}
	})
	printFlags(page, own)
}

// printFlags prints flags as help does.
func printFlags(page *strings.Builder, flags *pflag.FlagSet) {
	if usages := flags.FlagUsages(); usages != "" {
		fmt.Fprintf(page, "\n```text\n%s```\n", usages)
	}
}
