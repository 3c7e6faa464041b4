package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// smi returns the folder of an nvidia-smi that shows the simulated GPUs of the
// container that a process stands for. It asks the way a person would: kubectl
// exec, which the simulated kubelet answers.
func (r *Runner) smi() (string, error) {
	dir := filepath.Join(r.o.Dir, "host", "bin")
	path := filepath.Join(dir, "nvidia-smi")
	text := smiScript(findKubectl(), r.o.Kubeconfig)
	if was, err := os.ReadFile(path); err == nil && string(was) == text {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of nvidia-smi: %w", err)
	}
	// Renamed into place: a process may be running the old one.
	next := path + "." + fmt.Sprint(os.Getpid())
	if err := os.WriteFile(next, []byte(text), 0o700); err != nil {
		return "", fmt.Errorf("write nvidia-smi: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return "", fmt.Errorf("write nvidia-smi: %w", err)
	}
	return dir, nil
}

// findKubectl returns the kubectl beside this program, or that of PATH, or "".
func findKubectl() string {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "kubectl")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside
		}
	}
	path, _ := exec.LookPath("kubectl") // the script says that there is none
	return path
}

// smiScript is the text of the program.
func smiScript(kubectl, kubeconfig string) string {
	head := "#!/bin/sh\n# The nvidia-smi of a container that a process of this machine stands for: its simulated GPUs.\n"
	if kubectl == "" {
		return head + "echo 'nvidia-smi: the GPUs of this container are simulated, and showing them takes kubectl, which was not found' >&2\nexit 127\n"
	}
	return head + "exec " + quote(kubectl) + " --kubeconfig " + quote(kubeconfig) +
		` exec -n "$BERTH_NAMESPACE" "$BERTH_POD" -c "$BERTH_CONTAINER" -- nvidia-smi "$@"` + "\n"
}

// quote writes a word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
