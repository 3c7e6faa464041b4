package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/fleet/host"
)

// service makes a Service of pods with a label; ip None makes it headless.
func (w *world) service(namespace, name, ip, role string) {
	w.t.Helper()
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1.ServiceSpec{ClusterIP: ip, Selector: map[string]string{"role": role}}}
	if _, err := w.client.CoreV1().Services(namespace).Create(w.t.Context(), s, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// rank is a pod of a training job whose image has a rule.
func rank(name, role string, env ...v1.EnvVar) *v1.Pod {
	p := policy(bare("jupyter/train:1"), v1.RestartPolicyNever)
	p.Spec.Containers[0].Env = env
	p.Labels = map[string]string{"role": role}
	return named(p, name, 1)
}

func TestAProcessReachesOthersByTheNamesOfServices(t *testing.T) {
	withHost(t, func(w *world, h *fakeHost) {
		w.service("default", "ring-master-0", v1.ClusterIPNone, "master")
		w.service("default", "ring-worker-0", v1.ClusterIPNone, "worker")
		w.service("default", "web", "10.96.0.9", "master")
		w.service("other", "ring-master-0", v1.ClusterIPNone, "master")
		w.service("default", "empty", v1.ClusterIPNone, "none")
		indexed := rank("ring-node-0", "node")
		indexed.Spec.Hostname, indexed.Spec.Subdomain = "first", "nodes"
		w.service("default", "nodes", v1.ClusterIPNone, "node")
		w.bind(indexed, "n1")
		w.bind(rank("ring-worker-0", "worker"), "n1")
		given := []struct{ name, value, want string }{
			{"ADDR", "ring-master-0", "{master}"},
			{"ENDPOINT", "ring-worker-0:23456", "{worker}:23456"},
			{
				"TF_CONFIG", `{"cluster":{"web":["ring-master-0.default.svc:2222","ring-worker-0.default.svc.cluster.local:2222"]},"task":{"index":0,"type":"web"}}`,
				`{"cluster":{"web":["{master}:2222","{worker}:2222"]},"task":{"index":0,"type":"web"}}`,
			},
			{"NODE", "first.nodes", "{node}"},
			{"NO_SUCH_HOST", "second.nodes", "second.nodes"},
			{"OTHER", "ring-master-0.other", "ring-master-0.other"}, // no pod is behind it
			{"EMPTY", "empty:80", "empty:80"},
			{"NOT_HEADLESS", "http://web:80", "http://web:80"},
			{"UNKNOWN", "example.com:443", "example.com:443"},
			{"NUMBER", "2", "2"},
			{"IP", "10.65.0.1:23456", "10.65.0.1:23456"},
		}
		var env []v1.EnvVar
		for _, g := range given {
			env = append(env, v1.EnvVar{Name: g.name, Value: g.value})
		}
		w.bind(rank("ring-master-0", "master", env...), "n1")
		w.after(time.Second)
		got := h.run(t, "ring-master-0", 0).env
		address := func(name string) string {
			for _, kv := range got {
				if at, ok := strings.CutPrefix(kv, name+"="); ok {
					return at
				}
			}
			return ""
		}
		all := map[string]string{"{master}": address("ADDR"), "{worker}": strings.TrimSuffix(address("ENDPOINT"), ":23456"), "{node}": address("NODE")}
		seen := map[string]bool{}
		for name, at := range all {
			if !strings.HasPrefix(at, "127.70.0.") || seen[at] {
				t.Errorf("%s is at %q of %v", name, at, all)
			}
			seen[at] = true
		}
		for _, g := range given {
			want := g.want
			for name, at := range all {
				want = strings.ReplaceAll(want, name, at)
			}
			if !slices.Contains(got, g.name+"="+want) {
				t.Errorf("%s=%s is %q, want %q", g.name, g.value, address(g.name), want)
			}
		}
	})
}

// TestAProgramThatIsToEndIsReadyWhenItRuns holds that nothing waits for a port of a program that has none.
func TestAProgramThatIsToEndIsReadyWhenItRuns(t *testing.T) {
	withHost(t, func(w *world, h *fakeHost) {
		w.bind(rank("ring-worker-0", "worker"), "n1")
		w.after(time.Second)
		if got := h.run(t, "ring-worker-0", 0).req.Probe; got != (host.Probe{None: true}) {
			t.Errorf("the probe is %+v", got)
		}
		if got := w.events(); !strings.Contains(got, "ring-worker-0 HostProcess: Runs on this machine as process 4000: serve {port}; its folder is /data") {
			t.Errorf("events are\n%s", got)
		}
	})
}
