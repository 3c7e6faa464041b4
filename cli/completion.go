package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
)

// pluginNames are the names under which kubectl finds the program: as a plugin,
// and as the one that completes the plugin's command lines.
var pluginNames = []string{"kubectl-berth", "kubectl_complete-berth"}

// addCompletionInstall adds `completion install` to cobra's own command.
func addCompletionInstall(root *cobra.Command, o client.Options) {
	i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "completion" })
	if i < 0 {
		panic("cli: the completion command is gone")
	}
	completion := root.Commands()[i]
	completion.Args = term.UnknownCommand
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	var dir string
	install := &cobra.Command{
		Use:   "install",
		Short: "Install this program as a kubectl plugin with completion",
		Long: "Create two links to this program in a folder of $PATH: kubectl-berth, which makes it `kubectl berth`, and\n" +
			"kubectl_complete-berth, which kubectl calls to complete its command lines. Nothing else changes.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			return installLinks(o, self, dir)
		},
	}
	install.Flags().StringVar(&dir, "dir", "", "folder for the links (default: the folder of this program)")
	completion.AddCommand(install)
}

// installLinks makes the links, or says that they are there. A file of that
// name that is not a link to the program is left alone, and an error.
func installLinks(o client.Options, self, dir string) error {
	if dir == "" {
		dir = filepath.Dir(self)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("folder %s: %w", dir, err)
	}
	for _, name := range pluginNames {
		path := filepath.Join(dir, name)
		made, err := link(self, path)
		if err != nil {
			return err
		}
		word := "exists"
		if made {
			word = "made"
		}
		term.Printf(o.Out, "%s: %s, a link to %s\n", path, word, self)
	}
	if !slices.Contains(filepath.SplitList(os.Getenv("PATH")), dir) {
		term.Printf(o.Out, "\n%s is not in $PATH, where kubectl looks: export PATH=\"$PATH:%s\"\n", dir, dir)
	}
	term.Printf(o.Out, "\nFor completion of `berth` itself, add this line to your shell's startup file:\n  source <(berth completion %s)\n", shell())
	return nil
}

func link(self, path string) (made bool, err error) {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		if own, err := filepath.EvalSymlinks(self); err == nil && own == to {
			return false, nil
		}
	}
	target := self
	if filepath.Dir(self) == filepath.Dir(path) {
		target = filepath.Base(self) // so that the folder can be moved
	}
	err = os.Symlink(target, path)
	if errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("%s exists and is not a link to %s: remove it, or choose another --dir", path, self)
	}
	if err != nil {
		return false, fmt.Errorf("create link: %w; choose another --dir", err)
	}
	return true, nil
}

// shell is the user's shell, where completion knows it, else bash.
func shell() string {
	name := filepath.Base(os.Getenv("SHELL"))
	if slices.Contains([]string{"bash", "zsh", "fish"}, strings.ToLower(name)) {
		return name
	}
	return "bash"
}
