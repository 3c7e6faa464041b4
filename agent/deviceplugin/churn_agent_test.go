package deviceplugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fsnotify/fsnotify"
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/agent/allocation"
	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/deviceplugin"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
)

// churnFolder, in the environment, makes the test binary a node agent: one that
// can be killed as a process is.
const churnFolder = "BERTH_TEST_AGENT_FOLDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(churnFolder); dir != "" {
		fmt.Fprintln(os.Stderr, agentMain(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// churnGPUs are six whole GPUs and two that are cut into seven.
func churnGPUs() ([]gpu.GPU, error) {
	p, ok := gpu.Find("NVIDIA H100 80GB HBM3")
	if !ok {
		return nil, errors.New("no such product")
	}
	gpus := gpu.New("n1", p, 8)
	for i := range gpus[6:] {
		profiles := strings.Fields(strings.Repeat("1g.10gb ", 7))
		if err := gpu.Cut(&gpus[6+i], p, profiles); err != nil {
			return nil, err
		}
	}
	return gpus, nil
}

// agentMain is a node agent without a driver and without an API server. It ends
// when it is killed, and when its parent has ended.
func agentMain(dir string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // the parent never writes
		os.Exit(0)
	}()
	ctx := context.Background()
	pods, err := watchPods(filepath.Join(dir, "pods"))
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	n, err := allocation.New(ctx, allocation.Options{
		CDIDir: filepath.Join(dir, "cdi"), DeviceDir: filepath.Join(dir, "dp"), Pods: pods, SchedulerNames: []string{"berth"}, Log: log,
	})
	if err != nil {
		return err
	}
	gpus, err := churnGPUs()
	if err != nil {
		return err
	}
	var s nvml.Snapshot
	for _, g := range gpus {
		s.GPUs = append(s.GPUs, nvml.GPU{GPU: g})
	}
	settings := config.DefaultSettings()
	settings.MIGStrategy = gpu.MIGMixed
	if err := n.SetGPUs(s, nil, settings); err != nil {
		return err
	}
	go func() { _ = n.Run(ctx) }()
	return deviceplugin.Run(ctx, deviceplugin.Options{Dir: filepath.Join(dir, "dp"), Log: log}, n)
}

// podFiles is a folder with one file for each pod of the node, as the API
// server has them.
type podFiles struct {
	dir     string
	changed chan struct{}
}

func watchPods(dir string) (*podFiles, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := w.Add(dir); err != nil {
		return nil, err
	}
	p := &podFiles{dir: dir, changed: make(chan struct{}, 1)}
	go func() {
		for range w.Events {
			select {
			case p.changed <- struct{}{}:
			default:
			}
		}
	}()
	return p, nil
}

func (p *podFiles) path(uid string) string { return filepath.Join(p.dir, uid+".json") }

func (p *podFiles) write(pod *v1.Pod) error {
	raw, err := json.Marshal(pod)
	if err != nil {
		return err
	}
	half := filepath.Join(p.dir, string(pod.UID)+".half")
	if err := os.WriteFile(half, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(half, p.path(string(pod.UID)))
}

func (p *podFiles) Pod(_ context.Context, uid string, _ bool) (*v1.Pod, error) {
	raw, err := os.ReadFile(p.path(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pod := new(v1.Pod)
	return pod, json.Unmarshal(raw, pod)
}

func (p *podFiles) Pods(ctx context.Context, _ bool) ([]*v1.Pod, error) {
	names, err := filepath.Glob(p.path("*"))
	var out []*v1.Pod
	for _, name := range names {
		pod, err := p.Pod(ctx, strings.TrimSuffix(filepath.Base(name), ".json"), true)
		if err != nil {
			return nil, err
		}
		if pod != nil {
			out = append(out, pod)
		}
	}
	return out, err
}

func (p *podFiles) Changed() <-chan struct{} { return p.changed }

// process is a node agent that runs.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

func startAgent(dir string) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), churnFolder+"="+dir)
	out, err := os.OpenFile(filepath.Join(dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return &process{cmd, stdin}, cmd.Start()
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // with the signal as its error
	_ = p.stdin.Close()
}
