package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/internal/datadir"
)

// downPatience is how long an ordered stop may take before the process is
// killed: a second where nothing holds it up, much longer on a busy machine. The
// store survives both.
const downPatience = time.Minute

// NewDown makes `berth down`.
func NewDown(o client.Options) *cobra.Command {
	var dir string
	var purge bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster that `berth up` started",
		Long: "Stop the control plane of a data folder and wait until it has exited. The data is kept, and the next\n" +
			"`berth up` continues with it, unless --purge is set.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := datadir.At(dir)
			if err != nil {
				return err
			}
			if _, err := os.Stat(string(d)); errors.Is(err, fs.ErrNotExist) {
				term.PrintLine(o.Out, fmt.Sprintf("nothing was running in %s: there is no such folder", d.Short()))
				return nil
			}
			stopped, err := stop(cmd.Context(), d)
			if err != nil {
				return err
			}
			if purge {
				if err := d.Purge(); err != nil {
					return err
				}
			}
			term.PrintLine(o.Out, downSentence(d, stopped, purge))
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "data folder (default $XDG_DATA_HOME/berth/default)")
	cmd.Flags().BoolVar(&purge, "purge", false, "also remove the data folder and everything in it")
	return cmd
}

func downSentence(d datadir.Dir, stopped, purge bool) string {
	what := "nothing was running in " + d.Short()
	if stopped {
		what = "stopped " + d.Short()
	}
	if purge {
		return what + "; removed the folder"
	}
	return what + "; kept its data (--purge removes it)"
}

// stop ends the holder of a folder and waits until it has let go. It says
// whether there was one.
func stop(ctx context.Context, d datadir.Dir) (bool, error) {
	if _, err := d.State(); errors.Is(err, datadir.ErrNotOurs) {
		return false, err
	} else if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(d.Join("lock")); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
	}
	var kill <-chan time.Time
	for told := 0; ; {
		pid, held, err := d.Holder()
		if err != nil || !held {
			return told != 0, err
		}
		if pid == 0 {
			return false, fmt.Errorf("data folder %s is locked by a process that did not record its PID; stop it manually", d)
		}
		if pid != told { // the number of an earlier holder is there until the next one has left its own
			if err := signalHolder(d, pid, syscall.SIGTERM); err != nil {
				return false, err
			}
			told, kill = pid, time.After(downPatience)
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-kill:
			if err := signalHolder(d, pid, syscall.SIGKILL); err != nil {
				return false, err
			}
			kill = nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// signalHolder sends a signal to the process that holds a folder. One that has ended
// by now is not an error.
func signalHolder(d datadir.Dir, pid int, s syscall.Signal) error {
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Signal(s)
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop process %d, which has locked %s (%v): %w", pid, d, s, err)
	}
	return nil
}
