package cluster

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/internal/datadir"
	"berth.dev/berth/kube/view"
)

// statusResult is the object that `berth status -o json` and -o yaml print.
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
	// HostProcesses are the rules PATTERN=CMD of `berth up --host-process`.
	HostProcesses []string `json:"hostProcesses,omitempty"`
	// Notebooks is nil while the cluster does not say, or nothing has run there that
	// could.
	Notebooks *kindStatus `json:"notebooks,omitempty"`
}

// kindStatus is what Berth's controllers do with a kind.
type kindStatus struct {
	Mode string `json:"mode"` // own, govern or off
	Why  string `json:"why,omitempty"`
}

// String is for people: "govern (deployment kubeflow/notebook-controller is running)".
func (k *kindStatus) String() string {
	if k.Why == "" {
		return k.Mode
	}
	return k.Mode + " (" + k.Why + ")"
}

// NewStatus makes `berth status`.
func NewStatus(o client.Options) *cobra.Command {
	var dir, output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether `berth up` is running, and where",
		Long:  "Show whether `berth up` is running in a data folder, and the address of its API server. Exits with code 3 if it is not running.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := term.CheckEncoding(output); err != nil {
				return err
			}
			d, err := datadir.At(dir)
			if err != nil {
				return err
			}
			r, err := status(cmd.Context(), d)
			if err != nil {
				return err
			}
			if output != "" {
				err = term.Encode(o.Out, output, r)
			} else {
				printStatus(o.Out, d, r)
			}
			if err == nil && !r.Running {
				return term.ErrFound
			}
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "data folder (default $XDG_DATA_HOME/berth/default)")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
	return cmd
}

// status reads what a folder says of itself and whether it is held.
func status(ctx context.Context, d datadir.Dir) (statusResult, error) {
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
		r.HostProcesses = s.HostProcesses
		r.Nodes, r.GPUs, r.Started = s.Nodes, s.GPUs, s.Started.Format(time.RFC3339)
	}
	if r.Ready {
		r.Notebooks = notebookStatus(ctx, d, s)
	}
	return r, nil
}

// statusPatience is how long the cluster may take to say what it does.
const statusPatience = 2 * time.Second

// notebookStatus asks the cluster in a folder what it does with Notebooks.
func notebookStatus(ctx context.Context, d datadir.Dir, s datadir.State) *kindStatus {
	if s.Notebooks == "off" {
		return &kindStatus{Mode: s.Notebooks}
	}
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	cfg, err := clientcmd.BuildConfigFromFlags("", d.Kubeconfig())
	if err != nil {
		return nil
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil
	}
	mode, why, err := view.NotebookMode(ctx, client)
	if err != nil || mode == "" {
		return nil
	}
	return &kindStatus{mode, why}
}

func printStatus(w io.Writer, d datadir.Dir, r statusResult) {
	switch {
	case r.Ready:
		term.Printf(w, "berth up is running in %s (pid %d, since %s): %d nodes, %d GPUs, fleet %s\n\n", d.Short(), r.PID, r.Started, r.Nodes, r.GPUs, r.Fleet)
		printAddresses(w, d, datadir.State{Server: r.Server, HostProcesses: r.HostProcesses})
		if r.Notebooks != nil {
			term.Printf(w, "notebooks: %s\n", r.Notebooks)
		}
	case r.Running:
		term.Printf(w, "berth up is starting in %s (pid %d); see its log in %s\n", d.Short(), r.PID, d.Logs())
	case r.Fleet != "":
		term.Printf(w, "nothing is running in %s; `berth up` continues with the data kept there (fleet %s)\n", d.Short(), r.Fleet)
	default:
		term.Printf(w, "nothing is running in %s and no data is kept there; `berth up` starts a cluster\n", d.Short())
	}
}
