// Command gpuapp is what containers run in tests on a real node: it says what it
// sees of GPUs and then waits to be ended. As it is the only program of its
// image, it is the sandbox's process, too.
//
//	gpuapp          wait
//	gpuapp report   write one line of JSON, and wait
//	gpuapp once     write one line of JSON, and end
//	gpuapp stay     write one line of JSON, and wait to be killed
//	gpuapp keep F   add a line to file F, write one line of JSON, and wait
//	gpuapp save F   write one line of JSON, and when it is asked to end add a line to file F, report the checkpoint, and end with 85
//	gpuapp jupyter A     write one line of JSON, and serve an idle notebook at address A
//	gpuapp exporter F A  serve file F as metrics at address A
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// report is what a container sees. test/node reads it.
type report struct {
	Env   map[string]string `json:"env"`   // NVIDIA_*, CUDA_*, GPU_* and BERTH_*
	Nodes map[string]string `json:"nodes"` // what opening each device node under /dev gives
	Made  map[string]string `json:"made"`  // the same of nodes that the container makes itself, by minor number
	Kept  int               `json:"kept"`  // of keep and save: how many lines the file has
}

// saved is the exit code of a program that has saved its work.
const saved = 85

// nodes is how many minor numbers the container tries to open on its own.
const nodes = 16

func main() {
	if len(os.Args) == 4 && os.Args[1] == "exporter" {
		go func() { exitOn(serveFile(os.Args[2], os.Args[3])) }()
	} else if len(os.Args) > 1 {
		r := look()
		if os.Args[1] == "keep" {
			kept, err := keep(os.Args[2])
			exitOn(err)
			r.Kept = kept
		}
		if os.Args[1] == "save" {
			before, err := os.ReadFile(os.Args[2])
			if err != nil && !os.IsNotExist(err) {
				exitOn(err)
			}
			r.Kept = strings.Count(string(before), "\n")
		}
		exitOn(json.NewEncoder(os.Stdout).Encode(r))
		if os.Args[1] == "once" {
			return
		}
		if os.Args[1] == "jupyter" {
			go func() { exitOn(serveJupyter(os.Args[2])) }()
		}
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	<-end
	switch {
	case len(os.Args) > 1 && os.Args[1] == "stay":
		select {} // the signal is not enough
	case len(os.Args) > 1 && os.Args[1] == "save":
		_, err := keep(os.Args[2])
		exitOn(err)
		exitOn(os.WriteFile("/dev/termination-log", []byte("berth-checkpoint: 0s\n"), 0o644))
		os.Exit(saved)
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// keep adds a line to a file, and counts its lines.
func keep(path string) (int, error) {
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return 0, err
	}
	data = append(data, "started\n"...)
	return strings.Count(string(data), "\n"), os.WriteFile(path, data, 0o644)
}

// look asks for all that could be a GPU.
func look() report {
	r := report{Env: map[string]string{}, Nodes: map[string]string{}, Made: map[string]string{}}
	for _, e := range os.Environ() {
		name, value, _ := strings.Cut(e, "=")
		for _, prefix := range []string{"NVIDIA_", "CUDA_", "GPU_", "BERTH_"} {
			if strings.HasPrefix(name, prefix) {
				r.Env[name] = value
			}
		}
	}
	for _, pattern := range []string{"/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/fake*"} {
		found, _ := filepath.Glob(pattern) // the pattern is well formed
		for _, path := range found {
			if info, err := os.Stat(path); err == nil && !info.IsDir() {
				r.Nodes[path] = open(path)
			}
		}
	}
	var major int
	if _, err := fmt.Sscan(os.Getenv("TEST_MAJOR"), &major); err != nil {
		return r
	}
	for minor := range nodes {
		path := fmt.Sprintf("/made-%d", minor)
		if err := syscall.Mknod(path, syscall.S_IFCHR|0o600, major<<8|minor); err != nil && err != syscall.EEXIST {
			r.Made[fmt.Sprint(minor)] = "mknod: " + err.Error()
			continue
		}
		r.Made[fmt.Sprint(minor)] = open(path)
	}
	return r
}

// open says how the kernel answers: "denied" by the container's device rules,
// "allowed" where they let it through, whether or not there is a driver behind.
func open(path string) string {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK, 0)
	switch err {
	case nil:
		_ = syscall.Close(fd) // nothing was written
		return "allowed"
	case syscall.ENXIO, syscall.ENODEV:
		return "allowed"
	case syscall.EPERM:
		return "denied"
	}
	return err.Error()
}
