package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"berth.dev/berth/internal/datadir"
)

// downPatience is how long an ordered stop may take before the process is
// killed. The store survives both.
const downPatience = 15 * time.Second

func newDown(o Options) *cobra.Command {
	var dir string
	var purge bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop what `berth up` started",
		Long: "Stop the control plane of a data folder and wait until it has ended. What is in the folder is\n" +
			"kept, and the next `berth up` goes on from it, unless --purge is given.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := datadir.At(dir)
			if err != nil {
				return err
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
			fmt.Fprintln(o.Out, downSentence(d, stopped, purge))
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "data folder (default $XDG_DATA_HOME/berth/default)")
	cmd.Flags().BoolVar(&purge, "purge", false, "also remove the folder with everything in it")
	return cmd
}

func downSentence(d datadir.Dir, stopped, purge bool) string {
	what := "nothing ran in " + d.Short()
	if stopped {
		what = "stopped " + d.Short()
	}
	if purge {
		return what + "; the folder is removed"
	}
	return what + "; its data is kept (--purge removes it)"
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
	pid, held, err := d.Holder()
	if err != nil || !held {
		return false, err
	}
	if pid == 0 {
		return false, fmt.Errorf("data folder %s is held by a process that did not leave its number; end it by hand", d)
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false, fmt.Errorf("stop process %d: %w", pid, err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return false, fmt.Errorf("stop process %d, which holds %s: %w", pid, d, err)
	}
	kill := time.After(downPatience)
	for {
		if _, held, err := d.Holder(); err != nil || !held {
			return true, err
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-kill:
			if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return false, fmt.Errorf("kill process %d, which holds %s: %w", pid, d, err)
			}
			kill = nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// shellPath is a path as it can be pasted into a shell.
func shellPath(path string) string {
	short := datadir.Dir(path).Short()
	if strings.ContainsAny(short, " \t'\"$`\\()&;|<>*?[]#") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return short
}
