package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPodRunsAfterOneWrite(t *testing.T) {
	inWorld(t, func(w *world) {
		w.bind(named(bare("nginx:1", "sleep", "1h"), "first", 0), "n1")
		w.after(time.Second) // the first pull takes its time
		w.client.ClearActions()
		w.bind(named(bare("nginx:1", "serve"), "p", 2), "n1")
		w.want("p", "Running c:ready")
		writes := 0
		for _, a := range w.client.Actions() {
			if a.GetResource().Resource == "pods" && a.GetVerb() == "update" {
				writes++
			}
		}
		if writes != 1 {
			t.Errorf("from bound to Running took %d writes, want 1", writes)
		}
		p := w.pod("p")
		for _, c := range []v1.PodConditionType{v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled} {
			if !slices.ContainsFunc(p.Status.Conditions, func(x v1.PodCondition) bool { return x.Type == c && x.Status == v1.ConditionTrue }) {
				t.Errorf("condition %s is not True: %v", c, p.Status.Conditions)
			}
		}
		if got := ids(p); len(got) != 2 || got[0] == got[1] {
			t.Errorf("devices are %v, want two", got)
		}
		node, ns, name, ok := w.fleet.PodByIP(p.Status.PodIP)
		if !ok || node != "n1" || ns != "default" || name != "p" || p.Status.HostIP != "10.64.0.1" {
			t.Errorf("PodByIP(%s) = %s %s/%s %v, host %s", p.Status.PodIP, node, ns, name, ok, p.Status.HostIP)
		}
	}, a100("n1", 4))
}

func TestLifecycle(t *testing.T) {
	type step struct {
		after time.Duration
		want  string
	}
	probe := func(delay int32) *v1.Probe { return &v1.Probe{InitialDelaySeconds: delay} }
	tests := []struct {
		name  string
		pod   func() *v1.Pod
		steps []step
	}{
		{
			"a first pull shows ContainerCreating", func() *v1.Pod { return bare("x", "sleep", "9") },
			[]step{{350 * time.Millisecond, "Pending c:ContainerCreating"}, {time.Second, "Running c:ready"}},
		},
		{
			"a command that ends completes its pod under Never", func() *v1.Pod { return policy(bare("x", "sleep", "5"), v1.RestartPolicyNever) },
			[]step{{2 * time.Second, "Running c:ready"}, {4 * time.Second, "Succeeded c:Completed(0)"}},
		},
		{
			"a failure fails it", func() *v1.Pod { return policy(bare("x", "sh", "-c", "sleep 5; exit 3"), v1.RestartPolicyNever) },
			[]step{{6 * time.Second, "Failed c:Error(3)"}},
		},
		{
			"OnFailure restarts at once, then after 10 s, then 20 s", func() *v1.Pod { return policy(bare("x", "false"), v1.RestartPolicyOnFailure) },
			[]step{{time.Second, "Running c:CrashLoopBackOffx1"}, {10 * time.Second, "Running c:CrashLoopBackOffx2"}, {15 * time.Second, "Running c:CrashLoopBackOffx2"}, {6 * time.Second, "Running c:CrashLoopBackOffx3"}},
		},
		{
			"Always restarts what completes", func() *v1.Pod { return bare("nvidia/cuda:12") },
			[]step{{time.Second, "Running c:CrashLoopBackOffx1"}},
		},
		{"readiness waits for its delay and a second", func() *v1.Pod {
			p := bare("x", "serve")
			p.Spec.Containers[0].ReadinessProbe = probe(5)
			return p
		}, []step{{2 * time.Second, "Running c:running"}, {5 * time.Second, "Running c:ready"}}},
		{"startup holds readiness back", func() *v1.Pod {
			p := bare("x", "serve")
			p.Spec.Containers[0].StartupProbe, p.Spec.Containers[0].ReadinessProbe = probe(10), probe(0)
			return p
		}, []step{{5 * time.Second, "Running c:running"}, {7 * time.Second, "Running c:ready"}}},
		{"init containers run one after the other", func() *v1.Pod {
			p := bare("x", "sleep", "1h")
			p.Spec.InitContainers = []v1.Container{{Name: "a", Image: "x", Command: []string{"sleep", "2"}}, {Name: "b", Image: "x", Command: []string{"sleep", "2"}}}
			return p
		}, []step{
			{time.Second, "Pending a:running b:PodInitializing c:PodInitializing"},
			{2 * time.Second, "Pending a:Completed(0) b:running c:PodInitializing"},
			{2 * time.Second, "Running a:Completed(0) b:Completed(0) c:ready"},
		}},
		{"a failed init container fails a pod under Never", func() *v1.Pod {
			p := policy(bare("x", "sleep", "1h"), v1.RestartPolicyNever)
			p.Spec.InitContainers = []v1.Container{{Name: "a", Image: "x", Command: []string{"false"}}}
			return p
		}, []step{{time.Second, "Failed a:Error(1) c:PodInitializing"}}},
		{"a sidecar starts first and ends with the pod", func() *v1.Pod {
			p := policy(bare("x", "sleep", "5"), v1.RestartPolicyNever)
			p.Spec.InitContainers = []v1.Container{{Name: "s", Image: "x", Command: []string{"sleep", "infinity"}, RestartPolicy: new(v1.ContainerRestartPolicyAlways)}}
			return p
		}, []step{{2 * time.Second, "Running s:ready c:ready"}, {5 * time.Second, "Succeeded s:Completed(0) c:Completed(0)"}}},
		{"a deadline ends a pod", func() *v1.Pod {
			p := bare("x", "serve")
			p.Spec.ActiveDeadlineSeconds = new(int64(7))
			return p
		}, []step{{5 * time.Second, "Running c:ready"}, {3 * time.Second, "Failed DeadlineExceeded c:Error(137)"}}},
		{
			"a name that is no image is told", func() *v1.Pod { return bare("Not An Image", "sleep", "1") },
			[]step{{time.Second, "Pending c:InvalidImageName"}},
		},
		{"an image that must not be pulled is told", func() *v1.Pod {
			p := bare("x", "sleep", "1")
			p.Spec.Containers[0].ImagePullPolicy = v1.PullNever
			return p
		}, []step{{time.Second, "Pending c:ErrImageNeverPull"}}},
		{
			"a wrong annotation fails the container", func() *v1.Pod { return policy(simulate(bare("x"), "exit: 3"), v1.RestartPolicyNever) },
			[]step{{time.Second, "Failed c:InvalidSimulation(1)"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.bind(tt.pod(), "n1")
				for _, s := range tt.steps {
					w.after(s.after)
					w.want("p", s.want)
				}
			}, a100("n1", 1))
		})
	}
}

func TestAWrongAnnotationIsAnEventOfItsPod(t *testing.T) {
	for note, want := range map[string]string{
		"exit: 3":              "annotation berth.dev/simulate: exit: unknown field; the fields are [duration exitCode ",
		"{duration: soon}":     "annotation berth.dev/simulate: duration: \"soon\" is not a duration; write one such as 90s or 1h30m",
		"{utilization: [{a: 1": "annotation berth.dev/simulate: yaml: ",
	} {
		inWorld(t, func(w *world) {
			w.bind(policy(simulate(bare("x"), note), v1.RestartPolicyNever), "n1")
			w.after(time.Second)
			if e := w.events(); !strings.Contains(e, "p InvalidSimulation: "+want) {
				t.Errorf("%s: no event says so:\n%s", note, e)
			}
		}, a100("n1", 1))
	}
}

func TestADeletedPodEndsWithinASecond(t *testing.T) {
	inWorld(t, func(w *world) {
		w.bind(named(bare("x", "serve"), "p", 1), "n1")
		w.after(2 * time.Second)
		w.remove("p", 30)
		w.want("p", "Running c:ready")
		w.after(2 * time.Second)
		if _, err := w.client.CoreV1().Pods("default").Get(w.t.Context(), "p", metav1.GetOptions{}); err == nil {
			t.Error("the pod is still there two seconds after its deletion")
		}
		if !strings.Contains(w.events(), "p Killing: Stopping container c") {
			t.Errorf("no Killing event in:\n%s", w.events())
		}
		w.bind(named(bare("x", "serve"), "q", 1), "n1")
		w.want("q", "Running c:ready")
	}, a100("n1", 1))
}

func TestMissingConfiguration(t *testing.T) {
	inWorld(t, func(w *world) {
		p := bare("x", "serve")
		p.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}}}
		w.bind(p, "n1")
		w.after(time.Second)
		w.want("p", "Pending c:CreateContainerConfigError")
		if got := w.pod("p").Status.ContainerStatuses[0].State.Waiting.Message; got != `configmap "settings" not found` {
			t.Errorf("message is %q", got)
		}
		q := named(bare("x", "serve"), "q", 0)
		q.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys"}}}}
		w.bind(q, "n1")
		w.after(time.Second)
		w.want("q", "Pending c:ContainerCreating")
		if want := `MountVolume.SetUp failed for volume "v" : secret "keys" not found`; !strings.Contains(w.events(), want) {
			t.Errorf("no event %q in:\n%s", want, w.events())
		}
		for _, create := range []func() error{
			func() error {
				_, err := w.client.CoreV1().ConfigMaps("default").Create(w.t.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}, metav1.CreateOptions{})
				return err
			},
			func() error {
				_, err := w.client.CoreV1().Secrets("default").Create(w.t.Context(), &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "keys"}}, metav1.CreateOptions{})
				return err
			},
		} {
			if err := create(); err != nil {
				t.Fatal(err)
			}
		}
		w.after(10 * time.Second)
		w.want("p", "Running c:ready")
		w.want("q", "Running c:ready")
	}, a100("n1", 1))
}

func TestAPodBeyondTheDevicesIsRejected(t *testing.T) {
	inWorld(t, func(w *world) {
		w.bind(named(bare("x", "serve"), "p", 1), "n1")
		w.bind(named(bare("x", "serve"), "q", 1), "n1")
		w.after(time.Second)
		w.want("p", "Running c:ready")
		w.want("q", "Failed UnexpectedAdmissionError")
		const want = "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected"
		if got := w.pod("q").Status.Message; got != want {
			t.Errorf("message is %q, want %q", got, want)
		}
	}, a100("n1", 1))
}

func TestInitContainersLendTheirDevices(t *testing.T) {
	inWorld(t, func(w *world) {
		p := named(bare("x", "serve"), "p", 1)
		p.Spec.InitContainers = []v1.Container{{Name: "a", Image: "x", Command: []string{"sleep", "1"}, Resources: *p.Spec.Containers[0].Resources.DeepCopy()}}
		w.bind(p, "n1")
		w.after(5 * time.Second)
		w.want("p", "Running a:Completed(0) c:ready")
		if got := ids(w.pod("p")); len(got) != 2 || got[0] != got[1] {
			t.Errorf("devices are %v, want the same one twice", got)
		}
	}, a100("n1", 1))
}

func TestARestartOfTheFleetChangesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.bind(named(bare("x", "serve"), "server", 2), "n1")
		w.bind(named(policy(bare("x", "sleep", "60"), v1.RestartPolicyNever), "batch", 1), "n1")
		w.bind(named(bare("x", "false"), "crash", 1), "n1")
		w.after(12 * time.Second)
		before := map[string][]string{}
		for _, name := range []string{"server", "batch", "crash"} {
			before[name] = append(ids(w.pod(name)), w.pod(name).Status.PodIP, line(w.pod(name)))
		}
		w.kill()
		w.client.ClearActions()
		w.start()
		for name, want := range before {
			if got := append(ids(w.pod(name)), w.pod(name).Status.PodIP, line(w.pod(name))); !slices.Equal(got, want) {
				t.Errorf("after a restart %s is %q, want %q", name, got, want)
			}
		}
		for _, a := range w.client.Actions() {
			if a.GetVerb() == "update" && a.GetResource().Resource != "leases" || a.GetVerb() == "patch" {
				t.Errorf("the restart wrote %s %s", a.GetVerb(), a.GetResource().Resource)
			}
		}
		w.kill()
		time.Sleep(2 * time.Minute) // batch ends unobserved
		w.start()
		w.want("batch", "Succeeded c:Completed(0)")
		ended := w.pod("batch").Status.ContainerStatuses[0].State.Terminated
		if ran := ended.FinishedAt.Sub(ended.StartedAt.Time); ran != time.Minute {
			t.Errorf("batch ran for %v, want 1m", ran)
		}
	}, a100("n1", 4))
}
