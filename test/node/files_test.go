//go:build linux

package node_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestWrongFiles gives the agent files that are wrong: at the start, where nobody
// but the caller can mend them, it ends before it has touched anything; while it
// runs, what was in force stays.
func TestWrongFiles(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := newNode(t)
	n.startKubelet()
	makeNodes(t, 4)
	t.Run("an agent that is called wrongly ends at once, with nothing registered", n.calledWrongly)
	t.Run("nothing is offered before the first good configuration, and then all begins anew", n.mendedLater)
	t.Run("a file of GPUs that turns wrong leaves the last good one in force", n.turnsWrong)
}

func (n *node) calledWrongly(t *testing.T) {
	good := filepath.Join(workDir, "good.yaml")
	n.write("good.yaml", wholeGPUs(4))
	n.write("field.yaml", strings.Replace(wholeGPUs(4), "gpus:", "cards:", 1))
	n.write("value.yaml", strings.Replace(wholeGPUs(4), a100, "NVIDIA A1000", 1))
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no file", []string{"--fake", workDir + "/none.yaml"}, "error: --fake: open /run/berth-node/none.yaml: no such file or directory\n"},
		{"an unknown field", []string{"--fake", workDir + "/field.yaml"}, `error: /run/berth-node/field.yaml:2: cards: unknown field; known fields are `},
		{"a wrong value", []string{"--fake", workDir + "/value.yaml"}, `error: /run/berth-node/value.yaml:3: gpus[0].product: "NVIDIA A1000" is not a known GPU`},
		{"a wrong flag of the configuration", []string{"--fake", good, "--mig-strategy", "double"}, "error: --mig-strategy: "},
		{"no program", []string{"--fake", good, "--nvml-program", "/none"}, "error: --nvml-program: "},
	} {
		args := append([]string{"--fake-devices", "/dev/nvidia*", "--node-name", nodeName, "--pods", "kubelet", "--kubelet-url", kubeletURL, "--kubelet-dir", kubeletDir, "--cdi-dir", cdiDir, "--listen", ""}, c.args...)
		cmd := exec.Command(program("berth-agent"), args...)
		var said bytes.Buffer
		cmd.Stderr = &said
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 {
			t.Errorf("%s: the agent ended with %v, want exit code 2", c.name, err)
		}
		if !strings.HasPrefix(said.String(), c.want) {
			t.Errorf("%s: it says\n%swant\n%s", c.name, &said, c.want)
		}
	}
	if left, err := filepath.Glob(filepath.Join(kubeletDir, "device-plugins", "berth-*")); err != nil || len(left) > 0 {
		t.Errorf("the plugins' folder holds %v, %v", left, err)
	}
	if left, err := os.ReadDir(cdiDir); err != nil || len(left) > 0 {
		t.Errorf("the folder of CDI specs holds %v, %v", left, err)
	}
}

// mendedLater begins with a configuration that is refused: nothing is offered. What
// is read at the start alone, such as which Xids count, is of the first that is good.
func (n *node) mendedLater(t *testing.T) {
	n.configure(t, "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}\n")
	n.startAgent(t, wholeGPUs(4), "--config-file", configFile)
	n.logs(t, "config.yaml:2: sharing.timeSlicing.resources[0].replicas: number of replicas must be >= 2", 1)
	if got := n.answered(t, gpuResource); got != 0 {
		t.Errorf("with a configuration that is refused the kubelet has %d GPUs", got)
	}
	n.configure(t, "version: v1\nflags: {mpsRoot: /run/elsewhere}\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n")
	n.offers(t, gpuResource, 8)
	n.logs(t, "first valid settings; restarting with them", 1)
	n.agent.stop(t, syscall.SIGTERM)
}

// turnsWrong edits the file of GPUs under the agent, and kills the child that reads
// it while it is wrong.
func (n *node) turnsWrong(t *testing.T) {
	n.write("metrics.csv", "DCGM_FI_DEV_SM_CLOCK, thermometer, Clock\nDCGM_FI_DEV_GPU_TEMP, gauge, Temperature\n")
	n.startAgent(t, wholeGPUs(4), "--metrics-file", filepath.Join(workDir, "metrics.csv"))
	n.offers(t, gpuResource, 4)
	n.shows(t, "berth_metrics_file_lines_left_out", 1)
	wrong := strings.Replace(wholeGPUs(4), a100, "NVIDIA A1000", 1)
	n.setGPUs(t, wrong)
	const says = "gpus.yaml:3: gpus[0].product: " // and quotes within quotes
	n.logs(t, says, 1)
	n.setGPUs(t, wrong) // no other text
	for _, pid := range children(n.agent.cmd.Process.Pid) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	n.logs(t, says, 2) // by the new child
	n.shows(t, "berth_nvml_restarts_total", 1)
	n.shows(t, "berth_gpu_healthy", 4)
	n.offers(t, gpuResource, 4)
	n.apply(pod("meanwhile", commit("c", uuid(2)), 1))
	if err := only(n.sees(t, "meanwhile", "c"), 2); err != nil {
		t.Error(err)
	}
	n.remove(t, "meanwhile")
	n.setGPUs(t, wholeGPUs(3))
	watch := startWatch()
	n.offers(t, gpuResource, 3)
	watch.within(t, "the next good file is in force")
}

// logs waits until the agent's log has that many lines with a text.
func (n *node) logs(t *testing.T, text string, times int) {
	t.Helper()
	eventually(t, patience, "the agent's log says it", func() error {
		data, err := os.ReadFile(n.agent.log)
		if got := bytes.Count(data, []byte(text)); err == nil && got != times {
			err = fmt.Errorf("%d times %q, want %d:\n%s", got, text, times, tail(n.agent.log, 10))
		}
		return err
	})
}
