package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/fleet/host"
)

// fakeHost runs nothing: the test says what becomes of each run.
type fakeHost struct {
	mu    sync.Mutex
	runs  map[host.Key]*fakeRun
	calls []string // of Stop, Forget and Discard
}

type fakeRun struct {
	req   host.Request
	env   []string
	state host.State
}

func newFakeHost() *fakeHost { return &fakeHost{runs: map[host.Key]*fakeRun{}} }

func (h *fakeHost) Start(req host.Request) {
	env := make(chan []string, 1)
	go func() { env <- req.Environ() }()
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &fakeRun{req: req, state: host.State{
		PID: 4000 + len(h.runs), Port: 40000 + len(h.runs), Home: "/data", Command: req.Rule.Words,
		Lines: func() []host.Line { return []host.Line{{At: time.Now(), Text: "run " + fmt.Sprint(req.Run)}} },
	}}
	h.runs[req.Key] = r
	go func() {
		e := <-env
		h.mu.Lock()
		r.env = e
		h.mu.Unlock()
		req.Changed()
	}()
}

func (h *fakeHost) Stop(k host.Key, grace time.Duration) { h.note("stop %s in %v", k, grace) }
func (h *fakeHost) Forget(uid string)                    { h.note("forget %s", uid) }
func (h *fakeHost) Discard(namespace, claim string)      { h.note("discard %s/%s", namespace, claim) }

func (h *fakeHost) note(format string, a ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if call := fmt.Sprintf(format, a...); !slices.Contains(h.calls, call) {
		h.calls = append(h.calls, call)
	}
}

func (h *fakeHost) State(k host.Key) (host.State, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, ok := h.runs[k]
	if !ok {
		return host.State{Lines: func() []host.Line { return nil }}, false
	}
	return r.state, true
}

// change changes the state of a run of container c of a pod, and tells.
func (h *fakeHost) change(t *testing.T, pod string, run int, edit func(*host.State)) {
	t.Helper()
	h.mu.Lock()
	r := h.runs[host.Key{UID: "uid-" + pod, Container: "c", Run: run}]
	if r == nil {
		h.mu.Unlock()
		t.Fatalf("run %d of pod %s was not started", run, pod)
	}
	edit(&r.state)
	h.mu.Unlock()
	r.req.Changed()
	synctest.Wait()
}

func (h *fakeHost) run(t *testing.T, pod string, run int) fakeRun {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.runs[host.Key{UID: "uid-" + pod, Container: "c", Run: run}]
	if r == nil {
		t.Fatalf("run %d of pod %s was not started", run, pod)
	}
	return *r
}

func (h *fakeHost) called(t *testing.T, want string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.calls, want) {
		t.Errorf("the host was not told %q, only %q", want, h.calls)
	}
}

func isReady(s *host.State) { s.Ready = true }

func ends(code int32) func(*host.State) {
	return func(s *host.State) { s.Exit, s.Ready = &host.Exit{At: time.Now(), Code: code}, false }
}

// jupyter is the rule of these tests.
var jupyter = host.Rules{{Pattern: "jupyter*", Words: []string{"serve", "{port}"}}}

// withHost runs a test in a fleet whose jupyter images run on this machine.
func withHost(t *testing.T, test func(*world, *fakeHost)) {
	t.Helper()
	inWorld(t, func(w *world) {
		w.kill()
		h := newFakeHost()
		w.host, w.rules = h, jupyter
		w.start()
		test(w, h)
	}, a100("n1", 4))
}

// notebook is a pod with one GPU whose image has a rule.
func notebook() *v1.Pod {
	p := bare("quay.io/jupyter/base-notebook:1")
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{Name: "notebook-port", ContainerPort: 8888}}
	p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "NB_PREFIX", Value: "/notebook/default/nb"}}
	return named(p, "nb", 1)
}

func TestAProcessBacksAContainer(t *testing.T) {
	withHost(t, func(w *world, h *fakeHost) {
		w.bind(notebook(), "n1")
		w.after(time.Second)
		w.want("nb", "Running c:running") // not ready: it does not answer yet
		r := h.run(t, "nb", 0)
		if !r.req.GPUs || r.req.Namespace != "default" || r.req.Pod != "nb" || r.req.Claim != "" {
			t.Errorf("the request is %+v", r.req)
		}
		if slices.ContainsFunc(r.env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") || strings.HasPrefix(kv, "KUBERNETES_") }) {
			t.Errorf("the environment names what is in an image: %q", r.env)
		}
		if !slices.Contains(r.env, "NB_PREFIX=/notebook/default/nb") ||
			!slices.ContainsFunc(r.env, func(kv string) bool { return strings.HasPrefix(kv, "NVIDIA_VISIBLE_DEVICES=GPU-") }) {
			t.Errorf("the environment is %q", r.env)
		}
		h.change(t, "nb", 0, isReady)
		w.want("nb", "Running c:ready")
		if id := w.pod("nb").Status.ContainerStatuses[0].ContainerID; !strings.HasPrefix(id, "berth-host://") {
			t.Errorf("the container's ID is %s", id)
		}
		c := w.fleet.Containers("n1", "default", "nb")[0]
		if !c.Hosted || c.HostPort != r.state.Port || len(c.Lines) != 1 || c.Lines[0].Text != "run 0" || c.Shell {
			t.Errorf("the API shows %+v", c)
		}
		if got := w.events(); !strings.Contains(got, "nb HostProcess: Runs on this machine as process 4000: serve {port}; it answers at 127.0.0.1:40000 and its folder is /data") {
			t.Errorf("events are\n%s", got)
		}
		h.change(t, "nb", 0, func(s *host.State) { s.Ready = false })
		w.want("nb", "Running c:running")
	})
}

func TestAProcessThatEndsIsStartedAgain(t *testing.T) {
	withHost(t, func(w *world, h *fakeHost) {
		w.bind(notebook(), "n1")
		w.after(time.Second)
		h.change(t, "nb", 0, isReady)
		h.change(t, "nb", 0, ends(3))
		w.want("nb", "Running c:runningx1") // at once, the first time
		h.change(t, "nb", 1, ends(3))
		w.after(time.Second)
		w.want("nb", "Running c:CrashLoopBackOffx1")
		c := w.fleet.Containers("n1", "default", "nb")[0]
		if len(c.Previous) != 1 || c.Previous[0].Text != "run 1" {
			t.Errorf("the log of the run before is %v", c.Previous)
		}
		w.after(10 * time.Second)
		w.want("nb", "Running c:runningx2")
		h.change(t, "nb", 2, func(s *host.State) {
			s.Exit = &host.Exit{At: time.Now(), Code: 143, Reason: host.ReasonRefused, Message: "it listened on 0.0.0.0:1"}
		})
		if got := w.events(); !strings.Contains(got, "nb HostProcessRefused: it listened on 0.0.0.0:1") {
			t.Errorf("events are\n%s", got)
		}
	})
}

func TestAPodWaitsForItsProcessToEnd(t *testing.T) {
	withHost(t, func(w *world, h *fakeHost) {
		w.bind(notebook(), "n1")
		w.after(time.Second)
		h.change(t, "nb", 0, isReady)
		w.remove("nb", 40)
		h.called(t, "stop uid-nb/c/0 in 40s")
		w.after(5 * time.Second)
		w.want("nb", "Running c:ready")
		h.change(t, "nb", 0, ends(0))
		if pods, err := w.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err != nil || len(pods.Items) > 0 {
			t.Errorf("the pod is still there: %v %v", pods, err)
		}
		w.after(time.Second)
		h.called(t, "forget uid-nb")
	})
}

func TestAPodThatIsGoneAtOnceTakesItsProcessAlong(t *testing.T) {
	withHost(t, func(w *world, h *fakeHost) {
		w.bind(notebook(), "n1")
		w.after(time.Second)
		if err := w.client.CoreV1().Pods("default").Delete(t.Context(), "nb", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.called(t, "stop uid-nb/c/0 in 2s")
		h.called(t, "forget uid-nb")
	})
}

func TestANewImageRestartsTheProcess(t *testing.T) {
	withHost(t, func(w *world, h *fakeHost) {
		w.bind(notebook(), "n1")
		w.after(time.Second)
		p := w.pod("nb")
		p.Spec.Containers[0].Image = "jupyter/other:2"
		p.Generation++
		if _, err := w.client.CoreV1().Pods("default").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.called(t, "stop uid-nb/c/0 in 30s")
		h.change(t, "nb", 0, ends(0))
		w.after(time.Second)
		w.want("nb", "Running c:runningx1")
	})
}

func TestWhatHasNoProcess(t *testing.T) {
	tests := []struct {
		name string
		pod  func() *v1.Pod
		want string
	}{
		{"an image without a rule", func() *v1.Pod { return bare("nginx:1", "serve") }, "Running c:ready"},
		{"an init container, which would never end", func() *v1.Pod {
			p := bare("nginx:1", "serve")
			p.Spec.InitContainers = []v1.Container{{Name: "c-init", Image: "jupyter/x:1"}}
			return p
		}, "Running c-init:Completed c:ready"},
		{"a pod of a DaemonSet of the system", func() *v1.Pod {
			p := bare("jupyter/x:1", "serve")
			p.Namespace = "kube-system"
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "plugin", UID: "d", Controller: new(true)}}
			return p
		}, "Running c:ready"},
		{"a container whose simulation cannot be read", func() *v1.Pod {
			p := policy(bare("jupyter/x:1"), v1.RestartPolicyNever)
			p.Annotations = map[string]string{"berth.dev/simulate": "{duration: soon}"}
			return p
		}, "Failed c:InvalidSimulation(1)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			withHost(t, func(w *world, h *fakeHost) {
				made := w.bind(named(tt.pod(), "p", 0), "n1")
				w.after(5 * time.Second)
				now, err := w.client.CoreV1().Pods(made.Namespace).Get(t.Context(), "p", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.ReplaceAll(line(now), "(0)", ""); got != tt.want {
					t.Errorf("the pod is %q, want %q", got, tt.want)
				}
				if len(h.runs) > 0 {
					t.Errorf("a process was started: %v", h.runs)
				}
			})
		})
	}
}

func TestARestartOfTheFleetStartsProcessesAnew(t *testing.T) {
	tests := []struct {
		name           string
		before, after  host.Rules
		want           string // of the pod after the restart
		runs           int    // started in all
		reason, events string
	}{
		{"with the rule it gets a process again", jupyter, jupyter, "Running c:runningx1", 2, "Unknown", ""},
		{"without the rule it is simulated", jupyter, nil, "Running c:readyx1", 1, "Unknown", "nb HostProcess: Simulated from now on"},
		{"with a new rule a simulated one gets a process", nil, jupyter, "Running c:runningx1", 1, "Unknown", "nb HostProcess: Runs on this machine"},
		{"without any rule it goes on", nil, nil, "Running c:ready", 0, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				h := newFakeHost()
				w.kill()
				w.host, w.rules = h, tt.before
				w.start()
				w.bind(notebook(), "n1")
				w.after(time.Second)
				if tt.before != nil {
					h.change(t, "nb", 0, isReady)
				}
				w.want("nb", "Running c:ready")
				w.kill()
				w.rules = tt.after
				w.start()
				w.after(time.Second)
				w.want("nb", tt.want)
				if len(h.runs) != tt.runs {
					t.Errorf("%d processes were started, want %d", len(h.runs), tt.runs)
				}
				if last := w.pod("nb").Status.ContainerStatuses[0].LastTerminationState.Terminated; tt.reason != "" && (last == nil || last.Reason != tt.reason || last.ExitCode != 255) {
					t.Errorf("the last run ended as %+v, want %s with 255", last, tt.reason)
				}
				if got := w.events(); !strings.Contains(got, tt.events) {
					t.Errorf("no event %q in\n%s", tt.events, got)
				}
			}, a100("n1", 4))
		})
	}
}

func TestWhichVolumeIsHome(t *testing.T) {
	tests := []struct {
		name   string
		mounts []v1.VolumeMount
		want   string
	}{
		{"the only claim", []v1.VolumeMount{{Name: "data", MountPath: "/data"}}, "data-claim"},
		{"one below /home before others", []v1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "home", MountPath: "/home/jovyan"}}, "home-claim"},
		{"one at the working folder before all", []v1.VolumeMount{{Name: "home", MountPath: "/home/jovyan"}, {Name: "data", MountPath: "/project/"}}, "data-claim"},
		{"none that is read only", []v1.VolumeMount{{Name: "data", MountPath: "/data", ReadOnly: true}}, ""},
		{"none that is no claim", []v1.VolumeMount{{Name: "dshm", MountPath: "/dev/shm"}}, ""},
		{"an ephemeral volume has a claim of the pod", []v1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}, "nb-scratch"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			withHost(t, func(w *world, h *fakeHost) {
				p := notebook()
				p.Spec.Containers[0].WorkingDir, p.Spec.Containers[0].VolumeMounts = "/project", tt.mounts
				claim := func(name string) v1.Volume {
					return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name + "-claim"}}}
				}
				p.Spec.Volumes = []v1.Volume{
					claim("data"), claim("home"),
					{Name: "dshm", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
					{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}},
				}
				w.bind(p, "n1")
				w.after(time.Second)
				if got := h.run(t, "nb", 0).req.Claim; got != tt.want {
					t.Errorf("home is claim %q, want %q", got, tt.want)
				}
			})
		})
	}
}

func TestTheReadinessProbeIsAsked(t *testing.T) {
	withHost(t, func(w *world, h *fakeHost) {
		p := notebook()
		probe := &v1.Probe{PeriodSeconds: 5, InitialDelaySeconds: 2}
		probe.HTTPGet = &v1.HTTPGetAction{Path: "/api"}
		probe.HTTPGet.Port.Type, probe.HTTPGet.Port.StrVal = 1, "notebook-port"
		p.Spec.Containers[0].ReadinessProbe = probe
		w.bind(p, "n1")
		w.after(time.Second)
		want := host.Probe{Path: "/api", Every: 5 * time.Second, Delay: 2 * time.Second, Failures: 3}
		if got := h.run(t, "nb", 0).req.Probe; got != want {
			t.Errorf("the probe is %+v, want %+v", got, want)
		}
	})
}
