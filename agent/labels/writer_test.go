package labels_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/labels"
)

type note struct{ kind, reason, message string }

// writer makes a Writer of n1 that keeps its events.
func writer(s *server, force bool) (*labels.Writer, *[]note) {
	var notes []note
	return labels.NewWriter(labels.WriterOptions{
		Nodes: s.client().Nodes(), Node: "n1", Force: force,
		Event: func(kind, reason, message string) { notes = append(notes, note{kind, reason, message}) },
	}), &notes
}

func write(t *testing.T, w *labels.Writer, l, a map[string]string) {
	t.Helper()
	if err := w.Write(t.Context(), l, a); err != nil {
		t.Fatal(err)
	}
}

type pairs = map[string]string

func TestWriteAppliesAndRemovesWhatIsNoLongerTrue(t *testing.T) {
	s := newServer(t)
	w, _ := writer(s, false)
	write(t, w, pairs{"nvidia.com/gpu.count": "8", "nvidia.com/mig-1g.10gb.count": "7"}, pairs{"berth.dev/inventory": "[]"})
	write(t, w, pairs{"nvidia.com/gpu.count": "4"}, pairs{"berth.dev/inventory": "[1]"})
	n := s.get()
	if d := cmp.Diff(pairs{"kubernetes.io/hostname": "n1", "nvidia.com/gpu.count": "4"}, n.Labels); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	if d := cmp.Diff(pairs{"berth.dev/inventory": "[1]"}, n.Annotations); d != "" {
		t.Errorf("annotations (-want +got):\n%s", d)
	}
}

func TestWriteAsksAndWritesOnlyOnChange(t *testing.T) {
	s := newServer(t)
	l, a := pairs{"nvidia.com/gpu.count": "8"}, pairs{"berth.dev/inventory": "[]"}
	w, _ := writer(s, false)
	write(t, w, l, a)
	write(t, w, l, a)
	if s.reads != 1 || s.writes != 1 {
		t.Errorf("the same twice took %d reads and %d writes, want one of each", s.reads, s.writes)
	}
	restarted, _ := writer(s, false)
	write(t, restarted, l, a)
	if s.reads != 2 || s.writes != 1 {
		t.Errorf("after a restart %d reads and %d writes, want no further write", s.reads, s.writes)
	}
	if w.Changed(s.get()) {
		t.Error("Changed, with the Node as it was written")
	}
	s.as("kubectl-edit", func(l, _ map[string]string) { delete(l, "nvidia.com/gpu.count") })
	if !w.Changed(s.get()) {
		t.Error("not Changed, though a label is gone")
	}
	write(t, w, l, a)
	if got := s.get().Labels["nvidia.com/gpu.count"]; got != "8" {
		t.Errorf("the label that was removed is %q", got)
	}
	delete(l, "nvidia.com/gpu.count") // the caller's map is not kept
	l["nvidia.com/gpu.count"] = "9"
	write(t, w, l, a)
	if got := s.get().Labels["nvidia.com/gpu.count"]; got != "9" {
		t.Errorf("the label that the caller changed is %q", got)
	}
}

// NVIDIA's GPU Feature Discovery, or what writes for it, is at work on the node.
func TestLabelsOfOthersAreLeftToThem(t *testing.T) {
	s := newServer(t)
	s.as("nfd-master", func(l, _ map[string]string) {
		l["nvidia.com/gpu.count"], l["nvidia.com/gpu.memory"] = "8", "81559"
	})
	l := pairs{"nvidia.com/gpu.count": "4", "nvidia.com/gpu.memory": "81559", "nvidia.com/gpu.family": "hopper", "berth.dev/allocation": "committed"}
	w, notes := writer(s, false)
	write(t, w, l, nil)
	got := s.get().Labels
	if got["nvidia.com/gpu.count"] != "8" || got["nvidia.com/gpu.family"] != "hopper" || got["berth.dev/allocation"] != "committed" {
		t.Errorf("labels = %v", got)
	}
	want := []note{{"Normal", "GPULabelsLeft", "The labels nvidia.com/gpu.count, nvidia.com/gpu.memory are written by nfd-master, so Berth does not change them. " +
		"Remove GPU Feature Discovery from this node, or let Berth's agent take them over."}}
	if d := cmp.Diff(want, *notes, cmp.AllowUnexported(note{})); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	l["nvidia.com/gpu.family"] = "ada-lovelace"
	write(t, w, l, nil)
	if len(*notes) != 1 {
		t.Errorf("told again of what was told: %v", *notes)
	}

	s.as("nfd-master", func(l, _ map[string]string) { delete(l, "nvidia.com/gpu.count"); delete(l, "nvidia.com/gpu.memory") })
	if !w.Changed(s.get()) {
		t.Fatal("not Changed, though the other has gone")
	}
	write(t, w, l, nil)
	if got := s.get().Labels["nvidia.com/gpu.count"]; got != "4" || len(*notes) != 2 || (*notes)[1].reason != "GPULabelsWritten" {
		t.Errorf("after the other has gone: gpu.count = %q, events %v", got, *notes)
	}
}

func TestForceTakesLabelsOver(t *testing.T) {
	s := newServer(t)
	s.as("nfd-master", func(l, _ map[string]string) { l["nvidia.com/gpu.count"] = "8" })
	w, notes := writer(s, true)
	l := pairs{"nvidia.com/gpu.count": "4"}
	// While it writes, somebody else writes the Node: it must look again.
	s.before = func(s *server) { s.change("kubelet", func(l, _ map[string]string) { l["zone"] = "a" }) }
	write(t, w, l, nil)
	if got := s.get().Labels; got["nvidia.com/gpu.count"] != "4" || got["zone"] != "a" || len(*notes) > 0 {
		t.Errorf("labels = %v, events %v", got, *notes)
	}
	write(t, w, pairs{}, nil)
	if got, ok := s.get().Labels["nvidia.com/gpu.count"]; ok {
		t.Errorf("the label that was taken over stays: %q", got)
	}
}

func TestBerthsOwnAnnotationsAreItsOwn(t *testing.T) {
	s := newServer(t)
	w, _ := writer(s, false)
	write(t, w, nil, pairs{"berth.dev/inventory": "[]"})
	s.as("kubectl-annotate", func(_, a map[string]string) { a["berth.dev/inventory"] = "forged" })
	if !w.Changed(s.get()) {
		t.Fatal("not Changed, though an annotation was forged")
	}
	write(t, w, nil, pairs{"berth.dev/inventory": "[]"})
	if got := s.get().Annotations["berth.dev/inventory"]; got != "[]" {
		t.Errorf("the annotation is %q", got)
	}
}

func TestTheMIGManagersStateIsTakenOver(t *testing.T) {
	s := newServer(t)
	s.as("nvidia-mig-manager", func(l, _ map[string]string) { l["nvidia.com/mig.config.state"] = "success" })
	w, notes := writer(s, false)
	write(t, w, pairs{"nvidia.com/mig.config.state": "pending"}, nil)
	if got := s.get().Labels["nvidia.com/mig.config.state"]; got != "pending" || len(*notes) > 0 {
		t.Errorf("mig.config.state = %q, events %v", got, *notes)
	}
}

func TestARaceWithAnotherManagerIsLostInItsFavour(t *testing.T) {
	s := newServer(t)
	w, notes := writer(s, false)
	s.before = func(s *server) {
		s.change("nfd-master", func(l, _ map[string]string) { l["nvidia.com/gpu.count"] = "8" })
	}
	write(t, w, pairs{"nvidia.com/gpu.count": "4"}, nil)
	if got := s.get().Labels["nvidia.com/gpu.count"]; got != "8" || len(*notes) != 1 {
		t.Errorf("gpu.count = %q, events %v", got, *notes)
	}
}

func TestAWriteThatFailsIsTriedAgainByTheNext(t *testing.T) {
	s := newServer(t)
	w, _ := writer(s, false)
	s.failures = 1
	err := w.Write(t.Context(), pairs{"a": "b"}, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "write labels of node n1: ") {
		t.Errorf("Write = %v", err)
	}
	write(t, w, pairs{"a": "b"}, nil)
	if got := s.get().Labels["a"]; got != "b" {
		t.Errorf("label a = %q", got)
	}
}
