package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
)

// completeValues completes values of flags and arguments of all commands below root, where the commands have not said themselves what they
// are: names in the cluster, contexts, and formats.
func completeValues(root *cobra.Command, o client.Options) {
	flags := map[string]cobra.CompletionFunc{
		"namespace": client.Complete(o, client.NamespaceNames), "context": client.ContextNames, "queue": client.Complete(o, client.QueueNames), "output": completeFormats,
	}
	nodes, queues := client.Complete(o, client.NodeNames), client.Complete(o, client.QueueNames)
	arguments := map[string]cobra.CompletionFunc{
		"berth nodes": nodes, "berth gpus": nodes, "berth top": nodes, "berth price explain": nodes, "berth history": nodes,
		"berth queue show": queues, "berth queue history": queues, "berth why": client.Complete(o, client.WaitingPods),
	}
	profiles := client.Complete(o, client.ProfileNames)
	var walk func(c *cobra.Command, path string)
	walk = func(c *cobra.Command, path string) {
		if complete := arguments[path]; complete != nil && c.ValidArgsFunction == nil {
			c.ValidArgsFunction = complete
		}
		for name, complete := range flags {
			if c.Flags().Lookup(name) != nil {
				_ = c.RegisterFlagCompletionFunc(name, complete) // one that has its own keeps it
			}
		}
		if path == "berth doctor spawn" || path == "berth notebook create" {
			_ = c.RegisterFlagCompletionFunc("profile", profiles)
		}
		for _, sub := range c.Commands() {
			walk(sub, path+" "+sub.Name())
		}
	}
	walk(root, root.Name())
}

// completeFormats completes --output with the formats that its help names.
func completeFormats(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	usage := cmd.Flag("output").Usage
	var out []string
	for _, format := range []string{"json", "yaml", "wide", "name", "fields", "jsonpath=", "go-template=", "custom-columns=", "csv", "focus", "sarif", "junit"} {
		if strings.Contains(usage, format) {
			out = append(out, format)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
