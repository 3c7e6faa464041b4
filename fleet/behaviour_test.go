package fleet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/core/sharing"
	"berth.dev/berth/fleet"
)

// gpus are n whole GPUs of 100 GiB.
func gpus(n int) []sharing.Device {
	list := make([]sharing.Device, n)
	for i := range list {
		list[i] = sharing.Device{ID: "GPU-" + string(rune('a'+i)), MilliGPU: 1000, MemoryBytes: 100 << 30, Healthy: true}
	}
	return list
}

// bare is a bare pod with one container.
func bare(image string, command ...string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "uid"},
		Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, Containers: []v1.Container{{
			Name: "c", Image: image, Command: command,
			Env: []v1.EnvVar{{Name: "GREETING", Value: "hello"}},
		}}},
	}
}

func owned(pod *v1.Pod, kind string) *v1.Pod {
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "o", UID: "o", Controller: new(true)}}
	return pod
}

func policy(pod *v1.Pod, p v1.RestartPolicy) *v1.Pod {
	pod.Spec.RestartPolicy = p
	return pod
}

// typed makes the pod's container read what is typed into it.
func typed(pod *v1.Pod) *v1.Pod {
	pod.Spec.Containers[0].Stdin = true
	return pod
}

func simulate(pod *v1.Pod, note string) *v1.Pod {
	pod.Annotations = map[string]string{"berth.dev/simulate": note}
	return pod
}

// spawned makes a pod that of a JupyterHub's user.
func spawned(pod *v1.Pod) *v1.Pod {
	pod.Labels, pod.Annotations = map[string]string{"component": "singleuser-server"}, map[string]string{"hub.jupyter.org/username": "ada"}
	return policy(pod, v1.RestartPolicyOnFailure)
}

func TestBehave(t *testing.T) {
	const idle, server, busy = 0.0, 0.3, 0.9
	sh := func(script string) *v1.Pod { return bare("ubuntu:22.04", "/bin/sh", "-c", script) }
	tests := []struct {
		name    string
		pod     *v1.Pod
		devices []sharing.Device
		want    fleet.Plan // steps are compared by lines
		lines   string     // joined by |
		load    float64
	}{
		{name: "sleep runs for its seconds", pod: bare("x", "sleep", "3600"), want: fleet.Plan{Duration: time.Hour}},
		{name: "the server of a JupyterHub's user runs until it is deleted", pod: spawned(bare("example/lab:1")), devices: gpus(1), want: fleet.Plan{Forever: true}, lines: "simulated", load: server},
		{name: "sleep adds units", pod: bare("x", "sleep", "1m", "0.5"), want: fleet.Plan{Duration: 60500 * time.Millisecond}},
		{name: "sleep of centuries never ends", pod: bare("x", "sleep", "1e9", "1e9", "1e9", "1e9", "1e9", "1e9", "1e9", "1e9", "1e9", "1e9", "1e9", "1e9"), want: fleet.Plan{Forever: true}},
		{name: "sleep infinity never ends", pod: bare("x", "sleep", "infinity"), want: fleet.Plan{Forever: true}},
		{name: "nvidia-smi ends at once", pod: bare("nvidia/cuda:12", "nvidia-smi"), devices: gpus(1), lines: "$ nvidia-smi"},
		{name: "nvidia-smi -L is asked with its arguments", pod: bare("x", "nvidia-smi", "-L"), devices: gpus(1), lines: "$ nvidia-smi -L"},
		{name: "nvidia-smi -l prints forever", pod: bare("x", "nvidia-smi", "-l", "5"), devices: gpus(1), want: fleet.Plan{Forever: true, Every: 5 * time.Second}, lines: "$ nvidia-smi"},
		{name: "nvidia-smi without a GPU is not found", pod: bare("x", "nvidia-smi"), want: fleet.Plan{ExitCode: 128, Reason: "StartError"}},
		{name: "echo prints its words", pod: bare("x", "echo", "a", "b"), lines: "a b"},
		{name: "echo knows $(NAME) as the kubelet does", pod: bare("x", "echo", "$(GREETING) $$(GREETING) $(NONE)"), lines: "hello $(GREETING) $(NONE)"},
		{name: "false fails", pod: bare("x", "false"), want: fleet.Plan{ExitCode: 1}},
		{name: "a chain prints and sleeps in order", pod: sh(`echo "hello $HOSTNAME"; sleep 30 && echo done`), want: fleet.Plan{Duration: 30 * time.Second}, lines: "hello p|30s done"},
		{name: "a failed command stops the rest of its && chain", pod: sh("false && echo no || echo yes; exit 3"), want: fleet.Plan{ExitCode: 3}, lines: "yes"},
		{name: "set -e ends at the first failure", pod: sh("set -e; false; sleep 10"), want: fleet.Plan{ExitCode: 1}},
		{name: "a loop repeats", pod: sh("while true; do nvidia-smi; sleep 5; done"), devices: gpus(1), want: fleet.Plan{Forever: true, Every: 5 * time.Second}, lines: "$ nvidia-smi"},
		{name: "tail -f /dev/null keeps a container up", pod: sh("tail -f /dev/null"), want: fleet.Plan{Forever: true}},
		{name: "a script with a pipe is not plain", pod: sh("sleep 1 | cat"), want: fleet.Plan{Forever: true}, lines: "simulated"},
		{name: "a script with substitution is not plain", pod: sh("echo $(date)"), want: fleet.Plan{Forever: true}, lines: "simulated"},
		{name: "a shell that is typed into waits", pod: typed(bare("debian", "bash", "-l")), want: fleet.Plan{Forever: true, Idle: true}},
		{
			name: "a shell image that is typed into waits, also where pods are not restarted", pod: typed(policy(bare("ubuntu"), v1.RestartPolicyNever)),
			want: fleet.Plan{Forever: true, Idle: true},
		},
		{name: "a shell with nothing to read ends at once", pod: bare("ubuntu", "bash"), want: fleet.Plan{}},
		{name: "arguments alone are a command where they name one", pod: args(bare("busybox"), "sleep", "5"), want: fleet.Plan{Duration: 5 * time.Second}},
		{name: "arguments alone of an unknown entrypoint are not", pod: args(bare("x"), "--port", "80"), want: fleet.Plan{Forever: true}, devices: gpus(1), lines: "simulated", load: busy},
		{name: "a bare pod on a shell image ends at once", pod: bare("nvidia/cuda:12.0.0-base-ubuntu22.04"), lines: "simulated"},
		{name: "a bare pod on a server image runs on", pod: bare("docker.io/library/nginx:1"), want: fleet.Plan{Forever: true}, devices: gpus(1), lines: "simulated", load: server},
		{name: "the same image of a Deployment runs on", pod: owned(bare("pytorch/pytorch:2"), "ReplicaSet"), want: fleet.Plan{Forever: true}, devices: gpus(1), lines: "simulated", load: server},
		{name: "a Job's container ends after 30 s", pod: owned(bare("x", "python", "train.py"), "Job"), want: fleet.Plan{Duration: 30 * time.Second}, devices: gpus(2), lines: "simulated", load: busy},
		{
			name: "a rank of a training job prints a step and its loss now and then", pod: owned(policy(bare("x", "python", "train.py"), v1.RestartPolicyNever), "PyTorchJob"),
			want: fleet.Plan{Duration: 30 * time.Second, Every: 10 * time.Second}, devices: gpus(1), lines: "simulated", load: busy,
		},
		{name: "so does one with restartPolicy Never", pod: policy(bare("pytorch/pytorch"), v1.RestartPolicyNever), want: fleet.Plan{Duration: 30 * time.Second}, lines: "simulated"},
		{name: "a training command in a Deployment runs on, busy", pod: owned(bare("x", "python", "serve.py"), "ReplicaSet"), want: fleet.Plan{Forever: true}, devices: gpus(1), lines: "simulated", load: busy},
		{name: "an annotation wins over the command", pod: simulate(bare("x", "sleep", "5"), "duration: 90s\nexitCode: 7\nutilization: 0.5"), want: fleet.Plan{Duration: 90 * time.Second, ExitCode: 7}, devices: gpus(1), load: 0.5},
		{name: "log lines are spread over the run", pod: simulate(bare("x"), `{"duration":"10s","logs":["a","b","c"]}`), want: fleet.Plan{Duration: 10 * time.Second}, lines: "a|5s b|10s c"},
		{name: "a container's own part wins", pod: simulate(bare("x"), "{duration: 1s, containers: {c: {duration: 2s}, d: {duration: 3s}}}"), want: fleet.Plan{Duration: 2 * time.Second}, lines: "simulated"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := fleet.Behave(tt.pod, &tt.pod.Spec.Containers[0], tt.devices)
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(fleet.Plan{}, "Steps", "Idle", "Message", "UtilizationRatio", "MemoryBytes")); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if lines := printed(got.Steps); tt.lines == "simulated" && !strings.Contains(lines, "this container is simulated") || tt.lines != "simulated" && lines != tt.lines {
				t.Errorf("lines are %q, want %q", lines, tt.lines)
			}
			if got.UtilizationRatio != tt.load {
				t.Errorf("utilization is %v, want %v", got.UtilizationRatio, tt.load)
			}
			if most := int64(100 << 30); got.MemoryBytes > most {
				t.Errorf("memory is %d, above the device's %d", got.MemoryBytes, most)
			}
		})
	}
}

func args(pod *v1.Pod, a ...string) *v1.Pod {
	pod.Spec.Containers[0].Args = a
	return pod
}

func printed(steps []fleet.Step) string {
	var out []string
	for _, s := range steps {
		line := s.Text
		if s.SMI != nil {
			line = strings.TrimSpace("$ nvidia-smi " + strings.Join(s.SMI, " "))
		}
		if s.After > 0 {
			line = s.After.String() + " " + line
		}
		out = append(out, line)
	}
	return strings.Join(out, "|")
}

func TestBehaveRefusesAWrongAnnotation(t *testing.T) {
	tests := []struct{ name, note, want string }{
		{"an unknown field gets the nearest", "durration: 5s", "durration: unknown field; did you mean duration?"},
		{"a bad duration is named", "duration: soon", `duration: "soon" is not a duration`},
		{"a ratio above one is refused", "utilization: 90", `utilization: "90" is not a utilization`},
		{"a step names its number and field", "utilization: [{after: 1s}, {after: x}]", "utilization: step 2: after:"},
		{"the path of a container's field is given", "containers: {c: {memory: lots}}", `containers.c.memory: "lots" is not a size`},
		{"another container's mistake shows too", "containers: {z: {exitCode: 300}}", "containers.z.exitCode:"},
		{"no mapping at all", "90s", "is not a mapping"},
		{"broken YAML", "{duration", "annotation berth.dev/simulate"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := simulate(bare("x"), tt.note)
			got := fleet.Behave(pod, &pod.Spec.Containers[0], nil)
			if got.ExitCode == 0 || got.Forever || !strings.Contains(got.Message, tt.want) {
				t.Errorf("Behave with %q ends with code %d and message %q, want it to contain %q", tt.note, got.ExitCode, got.Message, tt.want)
			}
		})
	}
}

func TestSimulatedCurveIsCappedByTheDevice(t *testing.T) {
	pod := simulate(bare("x"), "{memory: 300Gi, utilization: [{after: 20s, utilization: 1, memory: 500Gi}, {after: 10s, utilization: 0.9}]}")
	got := fleet.Behave(pod, &pod.Spec.Containers[0], gpus(1))
	if got.MemoryBytes != 100<<30 || len(got.Curve) != 2 || got.Curve[0].After != 10*time.Second {
		t.Fatalf("Behave = %+v, want memory of the device and two points in order", got)
	}
	for _, p := range got.Curve {
		if p.MemoryBytes != 100<<30 {
			t.Errorf("point %v has %d bytes, want those of the device", p.After, p.MemoryBytes)
		}
	}
}

// FuzzScript: no script of any kind makes Behave panic, or run backwards.
func FuzzScript(f *testing.F) {
	for _, s := range []string{"echo hello; sleep 30", `while true; do echo "$X"; sleep 1; done`, "a && b || c", "'", "${", "exit 999", "sleep 1d & wait"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		pod := bare("ubuntu", "bash", "-lc", script)
		plan := fleet.Behave(pod, &pod.Spec.Containers[0], gpus(1))
		last := time.Duration(0)
		for _, s := range plan.Steps {
			if s.After < last || !plan.Forever && s.After > plan.Duration {
				t.Fatalf("script %q prints at %v after %v, of %v", script, s.After, last, plan.Duration)
			}
			last = s.After
		}
	})
}
