package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/fleet/kubelet"
)

// texts returns the lines of a log that were printed by now.
func texts(lines []kubelet.Line, now time.Time) string {
	var out []string
	for _, l := range lines {
		if !l.At.After(now) {
			out = append(out, l.Text)
		}
	}
	return strings.Join(out, "\n")
}

func (w *world) container(node, pod string) kubelet.Container {
	w.t.Helper()
	list := w.fleet.Containers(node, "default", pod)
	if len(list) == 0 {
		w.t.Fatalf("no container of pod %s", pod)
	}
	return list[len(list)-1]
}

func TestAContainerSeesItsOwnGPU(t *testing.T) {
	inWorld(t, func(w *world) {
		w.bind(named(bare("x", "serve"), "other", 1), "n1")
		w.bind(named(policy(bare("nvidia/cuda:12", "nvidia-smi", "-L"), v1.RestartPolicyNever), "p", 1), "n1")
		w.after(time.Second)
		w.want("p", "Succeeded c:Completed(0)")
		uuid := ids(w.pod("p"))[0]
		c := w.container("n1", "p")
		if got := texts(c.Lines, time.Now()); !strings.Contains(got, uuid) || strings.Count(got, "GPU-") != 1 || !strings.HasPrefix(got, "GPU 0:") {
			t.Errorf("log is %q, want its own GPU %s as GPU 0", got, uuid)
		}
		if !slices.Contains(c.Env, "NVIDIA_VISIBLE_DEVICES="+uuid) {
			t.Errorf("env is %q", c.Env)
		}
		w.kill()
		w.start()
		if got := texts(w.container("n1", "p").Lines, time.Now()); !strings.Contains(got, uuid) {
			t.Errorf("after a restart of the fleet the log is %q", got)
		}
	}, a100("n1", 4))
}

func TestLogsFollowThePlan(t *testing.T) {
	inWorld(t, func(w *world) {
		w.bind(bare("ubuntu", "sh", "-c", "echo one; sleep 10; echo two; exit 1"), "n1")
		w.after(5 * time.Second)
		c := w.container("n1", "p")
		if got := texts(c.Lines, time.Now()); got != "one" || len(c.Lines) != 2 {
			t.Errorf("after 5 s the log is %q of %d lines, want one of two", got, len(c.Lines))
		}
		w.after(10 * time.Second)
		c = w.container("n1", "p")
		if got := texts(c.Previous, time.Now()); got != "one\ntwo" || c.RestartCount != 1 {
			t.Errorf("the previous log is %q after %d restarts", got, c.RestartCount)
		}
	}, a100("n1", 1))
}

func TestEnvironment(t *testing.T) {
	inWorld(t, func(w *world) {
		if _, err := w.client.CoreV1().ConfigMaps("default").Create(w.t.Context(), &v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"KEY": "value"},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		p := bare("x", "serve")
		p.Labels = map[string]string{"app": "web"}
		c := &p.Spec.Containers[0]
		c.EnvFrom = []v1.EnvFromSource{{Prefix: "CM_", ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "m"}}}}
		c.Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("2500m")}
		c.Env = append(c.Env,
			v1.EnvVar{Name: "TWICE", Value: "$(GREETING) $(CM_KEY)"},
			v1.EnvVar{Name: "APP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"}}},
			v1.EnvVar{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			v1.EnvVar{Name: "CPUS", ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.cpu"}}})
		w.bind(p, "n1")
		w.after(time.Second)
		got := w.container("n1", "p").Env
		for _, want := range []string{"CM_KEY=value", "TWICE=hello value", "APP=web", "IP=" + w.pod("p").Status.PodIP, "CPUS=3", "HOSTNAME=p"} {
			if !slices.Contains(got, want) {
				t.Errorf("env lacks %q: %q", want, got)
			}
		}
	}, a100("n1", 1))
}

func TestReadingsFollowTheLoad(t *testing.T) {
	inWorld(t, func(w *world) {
		w.bind(named(simulate(bare("x", "train"), "{duration: 1m, utilization: 0.8, memory: 10Gi}"), "p", 1), "n1")
		w.bind(named(bare("x", "sleep", "1h"), "idle", 1), "n1")
		w.after(10 * time.Second)
		uuid, idle := ids(w.pod("p"))[0], ids(w.pod("idle"))[0]
		energy := int64(0)
		for _, d := range w.fleet.Metrics("n1") {
			switch d.GPU.UUID {
			case uuid:
				if r := d.Reading; r.UtilizationRatio < 0.7 || r.MemoryUsedBytes < 10<<30 || len(d.Pods) != 1 || d.Pods[0].Name != "p" {
					t.Errorf("the busy GPU reads %+v, held by %v", r, d.Pods)
				}
				energy = d.Reading.EnergyMillijoules
			case idle:
				if r := d.Reading; r.UtilizationRatio != 0 || len(d.Pods) != 1 {
					t.Errorf("the GPU of a sleeping pod reads %+v, held by %v", r, d.Pods)
				}
			default:
				if len(d.Pods) != 0 {
					t.Errorf("a free GPU is held by %v", d.Pods)
				}
			}
		}
		v := w.fleet.View("n1", []string{uuid})
		if len(v.Devices) != 1 || v.Devices[0].GPU.Index != 0 || len(v.Devices[0].Processes) != 1 {
			t.Errorf("the container's view is %+v", v)
		}
		w.remove("p", 0)
		w.after(time.Minute)
		for _, d := range w.fleet.Metrics("n1") {
			if d.GPU.UUID == uuid && d.Reading.EnergyMillijoules < energy {
				t.Errorf("energy fell from %d to %d mJ", energy, d.Reading.EnergyMillijoules)
			}
		}
		if cpu, memory := w.fleet.Usage("n1"); cpu <= 0 || memory <= 0 {
			t.Errorf("Usage = %d, %d", cpu, memory)
		}
	}, a100("n1", 3))
}

func TestAMIGContainerSeesItsMIGDevice(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, name := range []string{"a", "b"} {
			p := named(bare("x", "serve"), name, 0)
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"nvidia.com/mig-1g.5gb": resource.MustParse("1")}
			w.bind(p, "n2")
		}
		w.after(time.Second)
		a, b := ids(w.pod("a"))[0], ids(w.pod("b"))[0]
		if a == b || !strings.HasPrefix(a, "MIG-") {
			t.Errorf("devices are %s and %s, want two MIG devices", a, b)
		}
		v := w.fleet.View("n2", []string{a})
		if len(v.Devices) != 1 || len(v.Devices[0].GPU.MIG) != 1 || v.Devices[0].GPU.MIG[0].UUID != a {
			t.Errorf("the view is %+v, want the one MIG device", v.Devices)
		}
	}, cut("n2"))
}
