package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"berth.dev/berth/internal/datadir"
)

// statusResult is the object that `berth status -o json` prints.
type statusResult struct {
	Dir        string `json:"dir"`
	Running    bool   `json:"running"`
	Ready      bool   `json:"ready"`
	PID        int    `json:"pid,omitempty"`
	Server     string `json:"server,omitempty"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
	Fleet      string `json:"fleet,omitempty"`
	Nodes      int    `json:"nodes"`
	GPUs       int    `json:"gpus"`
	Version    string `json:"version,omitempty"`
	Started    string `json:"started,omitempty"` // RFC 3339
}

func newStatus(o Options) *cobra.Command {
	var dir, output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether `berth up` runs, and where",
		Long:  "Say whether `berth up` runs in a data folder, and where it listens. The exit code is 3 when it does not run.",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if output != "" && output != "json" {
				return usagef("--output %q: only json is understood here", output)
			}
			d, err := datadir.At(dir)
			if err != nil {
				return err
			}
			r, err := status(d)
			if err != nil {
				return err
			}
			if output == "json" {
				enc := json.NewEncoder(o.Out)
				enc.SetIndent("", "  ")
				err = enc.Encode(r)
			} else {
				printStatus(o.Out, d, r)
			}
			if err == nil && !r.Running {
				return errFound
			}
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "data folder (default $XDG_DATA_HOME/berth/default)")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json")
	return cmd
}

// status reads what a folder says of itself and whether it is held.
func status(d datadir.Dir) (statusResult, error) {
	r := statusResult{Dir: string(d)}
	s, err := d.State()
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	pid, held, err := d.Holder()
	if err != nil {
		return r, err
	}
	r.Running, r.Ready, r.Fleet, r.Version = held, held && s.Ready, s.Fleet, s.Version
	if held {
		r.PID, r.Server, r.Kubeconfig = pid, s.Server, d.Kubeconfig()
		r.Nodes, r.GPUs, r.Started = s.Nodes, s.GPUs, s.Started.Format(time.RFC3339)
	}
	return r, nil
}

func printStatus(w io.Writer, d datadir.Dir, r statusResult) {
	switch {
	case r.Ready:
		fmt.Fprintf(w, "berth up runs in %s (pid %d, since %s): %d nodes, %d GPUs, fleet %s\n\n", d.Short(), r.PID, r.Started, r.Nodes, r.GPUs, r.Fleet)
		printAddresses(w, d, datadir.State{Server: r.Server})
	case r.Running:
		fmt.Fprintf(w, "berth up starts in %s (pid %d); its log is in %s\n", d.Short(), r.PID, d.Logs())
	case r.Fleet != "":
		fmt.Fprintf(w, "nothing runs in %s; `berth up` goes on from what is kept there (fleet %s)\n", d.Short(), r.Fleet)
	default:
		fmt.Fprintf(w, "nothing runs in %s and nothing is kept there; `berth up` starts a cluster\n", d.Short())
	}
}
