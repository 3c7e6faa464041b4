package cli

import (
	"runtime"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/internal/buildinfo"
)

// versionResult is the object that `berth version -o json` prints.
type versionResult struct {
	Version    string `json:"version"`
	Revision   string `json:"revision"`   // commit, or "unknown"
	Kubernetes string `json:"kubernetes"` // of the embedded control plane
	Go         string `json:"go"`
	Platform   string `json:"platform"` // such as linux/amd64
}

func newVersion(o client.Options) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			r := versionResult{buildinfo.Version, buildinfo.Revision(), buildinfo.Kubernetes, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if output != "" {
				return term.Encode(o.Out, output, r)
			}
			_, err := term.Printf(o.Out, "berth %s (Kubernetes %s, %s, %s, commit %s)\n", r.Version, r.Kubernetes, r.Go, r.Platform, r.Revision)
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
	return cmd
}
