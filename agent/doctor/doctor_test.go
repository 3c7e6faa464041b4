package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"berth.dev/berth/agent/doctor"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/test/golden"
)

// TestNodes examines the nodes of testdata: a tree of files under root/, what
// commands print under command/, and the findings under want. The lines above
// the files are links, the driver's answer and options; # begins a comment.
//
// rows: GS-63 AS-36
func TestNodes(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no nodes in testdata: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			if err := finding.Print(&got, finding.Screen{}, doctor.Run(t.Context(), node(t, a))); err != nil {
				t.Fatal(err)
			}
			golden.Part(t, path, a, "want", got.String())
		})
	}
}

// node lays out the tree and gives the options to examine it.
func node(t *testing.T, a *txtar.Archive) doctor.Options {
	t.Helper()
	o := doctor.Options{Root: t.TempDir()}
	commands := map[string][]byte{}
	write := func(name string, put func(path string) error) {
		path := filepath.Join(o.Root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := put(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range a.Files {
		if name, ok := strings.CutPrefix(f.Name, "command/"); ok {
			commands[name] = f.Data
		} else if name, ok := strings.CutPrefix(f.Name, "root/"); ok {
			write(name, func(path string) error { return os.WriteFile(path, f.Data, 0o644) })
		}
	}
	for line := range strings.Lines(string(a.Comment)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		switch f[0] {
		case "link": // link NAME TARGET
			write(f[1], func(path string) error { return os.Symlink(f[2], path) })
		case "touch": // touch NAME...
			for _, name := range f[1:] {
				write(name, func(path string) error { return os.WriteFile(path, nil, 0o644) })
			}
		case "driver": // driver VERSION CUDA COUNT MAJOR PRODUCT...
			o.Snapshot = answer(t, f[1:])
		case "failed": // failed WHY...
			o.Snapshot = func(context.Context) (nvml.Snapshot, error) {
				return nvml.Snapshot{Failed: strings.Join(f[1:], " ")}, nil
			}
		case "runtime":
			o.Runtime = f[1]
		case "fake":
			o.Fake = true
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	o.Command = func(_ context.Context, name string, _ ...string) ([]byte, error) {
		if out, ok := commands[name]; ok {
			return out, nil
		}
		return nil, errors.New("no such program")
	}
	return o
}

// answer is a driver with count GPUs; a trailing "lost" loses the last one.
func answer(t *testing.T, f []string) func(context.Context) (nvml.Snapshot, error) {
	t.Helper()
	count, err := strconv.Atoi(f[2])
	if err != nil {
		t.Fatal(err)
	}
	major, err := strconv.Atoi(f[3])
	if err != nil {
		t.Fatal(err)
	}
	lost := f[len(f)-1] == "lost"
	if lost {
		f = f[:len(f)-1]
	}
	s := nvml.Snapshot{Driver: f[0], CUDA: f[1]}
	for i := range count {
		s.GPUs = append(s.GPUs, nvml.GPU{
			GPU: gpu.GPU{Index: i, UUID: fmt.Sprintf("GPU-%d", i), Product: strings.Join(f[4:], " ")}, Minor: i,
			ComputeMajor: major, MIGCapable: major >= 8, Lost: lost && i == count-1,
		})
	}
	return func(context.Context) (nvml.Snapshot, error) { return s, nil }
}

// TestNVMLNotFound reproduces what NVIDIA's device plugin makes its users find
// out by themselves: it does not see the driver, since its pod did not get
// NVIDIA's runtime, which was not the default one.
//
// NVIDIA/k8s-device-plugin#444 #478 #479 #23
func TestNVMLNotFound(t *testing.T) {
	f := doctor.Facts{
		Cards: []doctor.Card{{BusID: "0000:1a:00.0", Driver: "nvidia"}}, Kernel: "570.124.06", Library: "570.124.06",
		Asked: true, Snapshot: nvml.Snapshot{Failed: "NVML library not found"},
		Runtime: doctor.Runtime{Name: "containerd", Version: "2.1.4", Default: "runc", NVIDIA: "nvidia"},
	}
	got := find(t, doctor.Judge(f), "driver")
	if got.Status != doctor.Fail || !strings.Contains(got.Do, "--container-driver-root") {
		t.Errorf("driver: %+v, want a failure that names --container-driver-root", got)
	}
	if got := find(t, doctor.Judge(f), "nvidia-runtime"); got.Status != doctor.OK {
		t.Errorf("nvidia-runtime: %+v, want ok: nothing depends on the default runtime", got)
	}
}

// TestGPUsOfPodsThatAskedForNone shows the setting by which any image takes all
// GPUs, and when it cannot.
//
// NVIDIA/k8s-device-plugin#87 #203 #342
func TestGPUsOfPodsThatAskedForNone(t *testing.T) {
	tests := []struct {
		name    string
		runtime doctor.Runtime
		toolkit doctor.Toolkit
		want    finding.Status
	}{
		{"the default runtime is NVIDIA's, and its configuration is as installed", doctor.Runtime{Default: "nvidia", NVIDIA: "nvidia"}, doctor.Toolkit{EnvVar: true}, doctor.Warn},
		{"NVIDIA's runtime has to be named by a runtime class", doctor.Runtime{Default: "runc", NVIDIA: "nvidia"}, doctor.Toolkit{EnvVar: true}, doctor.Warn},
		{"the variable is not taken from containers without privileges", doctor.Runtime{Default: "nvidia", NVIDIA: "nvidia"}, doctor.Toolkit{}, doctor.OK},
		{"no runtime of NVIDIA's", doctor.Runtime{Default: "runc"}, doctor.Toolkit{EnvVar: true}, doctor.OK},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := find(t, doctor.Judge(doctor.Facts{Runtime: tt.runtime, Toolkit: tt.toolkit}), "gpus-not-asked-for")
			if got.Status != tt.want || (tt.want == doctor.Warn) != strings.Contains(got.Do, "envvar-when-unprivileged = false") {
				t.Errorf("%+v, want %s with the line to set", got, tt.want)
			}
		})
	}
}

func find(t *testing.T, findings []doctor.Finding, name string) doctor.Finding {
	t.Helper()
	for _, f := range findings {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no finding %q in %+v", name, findings)
	return doctor.Finding{}
}

// TestJudge checks what files cannot show.
func TestJudge(t *testing.T) {
	on, off := true, false
	ampere := nvml.Snapshot{GPUs: []nvml.GPU{{ComputeMajor: 8, MIGCapable: true}}}
	hopper := nvml.Snapshot{GPUs: []nvml.GPU{{ComputeMajor: 9, MIGCapable: true}}}
	drm := map[string]string{"nvidia": "", "nvidia_drm": ""}
	tests := []struct {
		name  string
		facts doctor.Facts
		check string
		want  finding.Status
		says  string
	}{
		// NVIDIA/mig-parted#181
		{"nvidia_drm keeps the MIG mode of an A100 from changing", doctor.Facts{Snapshot: ampere, Modules: drm}, "mig", doctor.Warn, "nvidia_drm"},
		{"a Hopper GPU changes its MIG mode without a reset", doctor.Facts{Snapshot: hopper, Modules: drm}, "mig", doctor.OK, ""},
		{"CUDA cannot start without nvidia_uvm", doctor.Facts{Kernel: "570.124.06", Modules: map[string]string{"nvidia": ""}}, "kernel-modules", doctor.Fail, "nvidia-modprobe"},
		{"NVSwitches without a Fabric Manager", doctor.Facts{Switch: true}, "fabric-manager", doctor.Fail, "nvidia-fabricmanager"},
		{"GPUs given to virtual machines", doctor.Facts{Cards: []doctor.Card{{Driver: "vfio-pci"}}}, "gpus", doctor.Warn, "bind them"},
		{"a GPU that its kernel module does not know", doctor.Facts{Kernel: "550.54", Cards: []doctor.Card{{}}}, "gpus", doctor.Fail, "open variant"},
		{"containerd 1.6 has no CDI", doctor.Facts{Runtime: doctor.Runtime{Name: "containerd", Version: "1.6.20"}}, "container-runtime", doctor.Fail, "update containerd"},
		{"containerd 1.7 has CDI off", doctor.Facts{Runtime: doctor.Runtime{Name: "containerd", Version: "1.7.24", Config: "/etc/containerd/config.toml"}}, "container-runtime", doctor.Fail, `[plugins."io.containerd.grpc.v1.cri"] in /etc/containerd/config.toml`},
		{"containerd 1.7 with CDI turned on", doctor.Facts{Runtime: doctor.Runtime{Name: "containerd", Version: "1.7.24", CDI: &on}}, "container-runtime", doctor.OK, ""},
		{"containerd 2 with CDI turned off", doctor.Facts{Runtime: doctor.Runtime{Name: "containerd", Version: "2.1.4", CDI: &off}}, "container-runtime", doctor.Fail, "io.containerd.cri.v1.runtime"},
		{"containerd of unknown version", doctor.Facts{Runtime: doctor.Runtime{Name: "containerd"}}, "container-runtime", doctor.Warn, "containerd --version"},
		{"containerd that reads another folder", doctor.Facts{CDIDir: "/var/run/cdi", Runtime: doctor.Runtime{Name: "containerd", Version: "2.1.4", CDIDirs: []string{"/etc/cdi"}}}, "container-runtime", doctor.Fail, "cdi_spec_dirs"},
		{"/run/cdi and /var/run/cdi are the same", doctor.Facts{CDIDir: "/var/run/cdi", Runtime: doctor.Runtime{Name: "containerd", Version: "2.1.4", CDIDirs: []string{"/run/cdi/"}}}, "container-runtime", doctor.OK, ""},
		{"an old CRI-O", doctor.Facts{Runtime: doctor.Runtime{Name: "cri-o", Version: "1.22.5"}}, "container-runtime", doctor.Fail, "update CRI-O"},
		{"the agent's child does not answer", doctor.Facts{Asked: true, Driver: errors.New("the child hangs")}, "driver", doctor.Fail, "nvidia-smi"},
		{"fewer GPUs than the bus has", doctor.Facts{Asked: true, Cards: make([]doctor.Card, 2), Snapshot: hopper}, "driver", doctor.Warn, "NVRM"},
		{"the exporter does not answer", doctor.Facts{MetricsURL: "x", MetricsErr: errors.New("refused")}, "metrics", doctor.Warn, "another exporter"},
		{"the kubelet remembers devices of nobody", doctor.Facts{Kubelet: doctor.Kubelet{Registered: map[string]int{"nvidia.com/gpu": 8}}}, "device-plugin", doctor.Warn, "start berth agent"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := find(t, doctor.Judge(tt.facts), tt.check)
			if got.Status != tt.want || !strings.Contains(got.Do, tt.says) {
				t.Errorf("%+v, want %s with %q to do", got, tt.want, tt.says)
			}
			if (got.Status == doctor.OK) != (got.Do == "") {
				t.Errorf("%+v: what is not ok has a next step, and nothing else has", got)
			}
		})
	}
}

// rows: AS-55
func TestMetrics(t *testing.T) {
	body := "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 5\nDCGM_FI_DEV_GPU_UTIL{gpu=\"1\"} 6\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
	defer server.Close()
	o := doctor.Options{Root: t.TempDir(), Metrics: server.URL, Fake: true}
	if got := find(t, doctor.Run(t.Context(), o), "metrics"); got.Status != doctor.OK || !strings.Contains(got.Seen, "2 GPU series") {
		t.Errorf("%+v, want ok with 2 series", got)
	}
	body = ""
	if got := find(t, doctor.Run(t.Context(), o), "metrics"); got.Status != doctor.Warn {
		t.Errorf("an exporter without GPUs: %+v, want a warning", got)
	}
	guarded := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who are you?", http.StatusUnauthorized) }))
	defer guarded.Close()
	o.Metrics = strings.Replace(guarded.URL, "https://", "http://", 1)
	if got := find(t, doctor.Run(t.Context(), o), "metrics"); got.Status != doctor.OK || !strings.Contains(got.Seen, "only to clients that may read them") {
		t.Errorf("an exporter with TLS that asks: %+v, want ok", got)
	}
	o.Metrics = server.URL
	server.Close()
	if got := find(t, doctor.Run(t.Context(), o), "metrics"); got.Status != doctor.Warn {
		t.Errorf("no exporter: %+v, want a warning", got)
	}
}
