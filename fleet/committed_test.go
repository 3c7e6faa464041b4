package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/api"
)

// committed gives a pod the annotation that the scheduler would write: devices
// is UUIDs of whole A100 of 40 GB.
func committed(pod *v1.Pod, uuids ...string) *v1.Pod {
	var list []string
	for _, u := range uuids {
		list = append(list, fmt.Sprintf(`{"uuid":%q,"milliGPU":1000,"memoryBytes":%d}`, u, 40<<30))
	}
	pod.Annotations = map[string]string{api.AnnotationDevices: `{"c":[` + strings.Join(list, ",") + `]}`}
	return pod
}

func TestAPodGetsTheDevicesThatWereCommitted(t *testing.T) {
	n := a100("n1", 4)
	g := func(i int) string { return n.GPUs[i].UUID }
	inWorld(t, func(w *world) {
		asks := func(name string, gpus int64) *v1.Pod { return named(bare("busybox", "sleep", "infinity"), name, gpus) }
		w.bind(committed(asks("third", 1), g(2)), "n1")
		w.bind(committed(asks("two", 2), g(3), g(1)), "n1")
		w.bind(asks("any", 1), "n1")
		w.after(5 * time.Second)
		for name, want := range map[string]string{"third": g(2), "any": g(0), "two": g(3) + " " + g(1)} {
			if got := strings.Join(ids(w.pod(name)), " "); got != want {
				t.Errorf("pod %s got %s, want %s", name, got, want)
			}
		}
		w.kill()
		w.start()
		w.after(5 * time.Second)
		if got := strings.Join(ids(w.pod("two")), " "); got != g(3)+" "+g(1) {
			t.Errorf("after a restart pod two has %s", got)
		}
	}, n)
}

func TestACommitmentThatCannotBeKeptFailsThePod(t *testing.T) {
	n := a100("n1", 2)
	for _, tt := range []struct {
		name string
		pod  func(*v1.Pod) *v1.Pod
		want string
	}{
		{"a device that another pod holds", func(p *v1.Pod) *v1.Pod { return committed(p, n.GPUs[0].UUID) }, "it is held by uid-first"},
		{"a device of another node", func(p *v1.Pod) *v1.Pod { return committed(p, "GPU-elsewhere") }, "this node does not offer it"},
		{"more devices than are asked for", func(p *v1.Pod) *v1.Pod { return committed(p, n.GPUs[1].UUID, n.GPUs[0].UUID) }, "2 devices are named for c, which asks for 1"},
		{"an annotation that is no JSON", func(p *v1.Pod) *v1.Pod {
			p.Annotations = map[string]string{api.AnnotationDevices: "GPU-1"}
			return p
		}, "read annotation berth.dev/devices"},
		{"a part of a GPU for a pod that asks for all of it", func(p *v1.Pod) *v1.Pod {
			p = committed(p, n.GPUs[1].UUID)
			p.Annotations[api.AnnotationDevices] = strings.Replace(p.Annotations[api.AnnotationDevices], "1000", "500", 1)
			return p
		}, "was committed in berth.dev/devices with 500 milli-GPUs"},
		{"a GPU that has failed", func(p *v1.Pod) *v1.Pod { return committed(p, n.GPUs[1].UUID) }, "is unhealthy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.bind(named(bare("busybox", "sleep", "infinity"), "first", 1), "n1")
				if tt.want == "is unhealthy" {
					w.annotate("n1", api.AnnotationFaults, `["xid-79/1"]`)
				}
				w.after(time.Second)
				w.bind(tt.pod(named(bare("busybox", "sleep", "infinity"), "p", 1)), "n1")
				w.after(5 * time.Second)
				p := w.pod("p")
				if p.Status.Reason != "UnexpectedAdmissionError" || !strings.Contains(p.Status.Message, tt.want) {
					t.Errorf("reason %q, message %q; want UnexpectedAdmissionError and %q", p.Status.Reason, p.Status.Message, tt.want)
				}
				w.bind(named(bare("busybox", "sleep", "infinity"), "after", 1), "n1")
				w.after(5 * time.Second)
				if after := w.pod("after"); tt.want != "is unhealthy" && len(ids(after)) != 1 {
					t.Errorf("the refused pod kept a device: %s", line(after))
				}
			}, n)
		})
	}
}

func TestBesideOneGPUCommittedMemoryIsAWholeGPU(t *testing.T) {
	n := a100("n1", 2)
	inWorld(t, func(w *world) {
		p := committed(named(bare("busybox", "sleep", "infinity"), "large", 1), n.GPUs[1].UUID)
		p.Spec.Containers[0].Resources.Requests[api.ResourceGPUMemory] = *resource.NewQuantity(20, resource.DecimalSI)
		w.bind(p, "n1")
		w.after(5 * time.Second)
		if got := strings.Join(ids(w.pod("large")), " "); got != n.GPUs[1].UUID {
			t.Errorf("got %s, want the whole GPU %s", got, n.GPUs[1].UUID)
		}
	}, n)
}
