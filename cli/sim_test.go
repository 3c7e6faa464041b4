package cli_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// faults is the annotation of a node, "" if it has none.
func (s *stage) faults(node string) string {
	s.t.Helper()
	n, err := s.client.CoreV1().Nodes().Get(context.Background(), node, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return n.Annotations[api.AnnotationFaults]
}

func TestSimBreaksAndHeals(t *testing.T) {
	tests := []struct {
		name     string
		commands []string
		want     string // annotation after the last
		says     string // part of the last one's output
	}{
		{"an Xid breaks one GPU", []string{"break xid-79 n/1"}, `["xid-79/1"]`, "n GPU 1 (GPU-n-1): xid-79 broken"},
		{"without an index it is GPU 0", []string{"break xid-48 n"}, `["xid-48/0"]`, "Xid 48, double bit ECC error"},
		{"an application's Xid leaves the GPU healthy", []string{"break xid-13 n/0"}, `["xid-13/0"]`, "remains healthy"},
		{"faults are kept sorted", []string{"break xid-79 n/1", "break kubelet n", "break thermal n/0"}, `["kubelet","thermal/0","xid-79/1"]`, "overheats"},
		{"breaking twice changes nothing", []string{"break image n", "break image n"}, `["image"]`, "is already broken"},
		{"healing takes one away", []string{"break image n", "break xid-79 n/0", "heal xid-79 n/0"}, `["image"]`, "n: healed xid-79/0"},
		{"healing without an index is for every GPU", []string{"break xid-79 n/0", "break xid-79 n/1", "heal xid-79 n"}, "", "healed xid-79/0, xid-79/1"},
		{"all heals everything", []string{"break image n", "break thermal n/1", "heal all n"}, "", "healed image, thermal/1"},
		{"healing what is whole says what is broken", []string{"break image n", "heal kubelet n"}, `["image"]`, "nothing to heal; it has image"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, node("n", "Tesla T4", 2, "", api.ResourceGPU, 2))
			out := ""
			for _, c := range tt.commands {
				out = s.ok(append([]string{"sim"}, strings.Fields(c)...)...)
			}
			if got := s.faults("n"); got != tt.want {
				t.Errorf("annotation is %s, want %s", got, tt.want)
			}
			if !strings.Contains(out, tt.says) {
				t.Errorf("output lacks %q:\n%s", tt.says, out)
			}
		})
	}
}

func TestSimRefuses(t *testing.T) {
	actual := node("real", "Tesla T4", 1, "", api.ResourceGPU, 1)
	delete(actual.Labels, api.LabelSimulated)
	tests := []struct {
		name string
		args string
		says string
	}{
		{"a kind that is nearly one", "break kublet n", `did you mean "kubelet"?`},
		{"a kind that is none", "break gravity n", "must be one of device-plugin, driver, image, kubelet, oom, rank-hang, thermal, xid-N"},
		{"an Xid without a number", "break xid- n/0", "an Xid must be a number"},
		{"an Xid with a number that is not plain", "break xid-079 n/0", "an Xid must be a number"},
		{"a node that is real", "break xid-79 real/0", "berth does not break real nodes"},
		{"a node that is nearly one", "break image gpu-node-2", "did you mean gpu-node-1?"},
		{"a GPU that the node lacks", "break xid-79 n/2", "node n has no GPU 2: its GPUs are 0 to 1"},
		{"a GPU that is no number", "break xid-79 n/x", "must be the index of a GPU"},
		{"a GPU for a fault of the node", "break kubelet n/0", "use n instead of n/0"},
		{"a GPU fault on a node without GPUs", "break xid-79 cpu", "node cpu has no GPUs"},
		{"one argument", "break xid-79", "accepts 2 arg(s)"},
		{"a command that is nearly one", "brake xid-79 n", `did you mean "break"?`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, actual, node("n", "Tesla T4", 2, "", api.ResourceGPU, 2),
				node("gpu-node-1", "Tesla T4", 1, "", api.ResourceGPU, 1), node("cpu", "", 0, ""))
			_, stderr, code := s.run(append([]string{"berth", "sim"}, strings.Fields(tt.args)...)...)
			if code != 2 || !strings.Contains(stderr, tt.says) {
				t.Errorf("exit code %d, want 2; stderr lacks %q:\n%s", code, tt.says, stderr)
			}
			for _, n := range []string{"real", "n", "gpu-node-1", "cpu"} {
				if got := s.faults(n); got != "" {
					t.Errorf("node %s has faults %s, want none", n, got)
				}
			}
		})
	}
}

func TestSimListShowsHowToHeal(t *testing.T) {
	s := newStage(t, node("n", "Tesla T4", 2, "", api.ResourceGPU, 2))
	if out := s.ok("sim", "list"); out != "" {
		t.Errorf("nothing is broken, but the list is:\n%s", out)
	}
	s.ok("sim", "break", "xid-79", "n/1")
	s.ok("sim", "break", "image", "n")
	want := "NODE  GPU  FAULT   HEAL WITH\n" +
		"n     -    image   berth sim heal image n\n" +
		"n     1    xid-79  berth sim heal xid-79 n/1\n"
	if got := s.ok("sim", "list"); got != want {
		t.Errorf("sim list prints\n%swant\n%s", got, want)
	}
	if got := s.ok("sim", "list", "-o", "jsonpath={.items[*].fault}"); got != "image xid-79" {
		t.Errorf("faults as jsonpath are %q, want %q", got, "image xid-79")
	}
}
