package notebook_test

import (
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/explain"
	"berth.dev/berth/core/notebook"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestConditions(t *testing.T) {
	pod := &explain.Pod{Name: "nb-0", Node: "n1", Containers: []explain.Container{{Name: "nb", Image: "x/y:1", Running: true}}, Conditions: []explain.Condition{
		{Type: "PodReadyToStartContainers", Status: "True", Since: noon}, {Type: "Ready", Status: "False", Reason: "ContainersNotReady"},
	}}
	f := &explain.Facts{Namespace: "ns", Name: "nb", GPUs: []explain.Amount{{Resource: "nvidia.com/gpu", Count: 1}}}
	first := notebook.Conditions(f, nil, noon)
	if len(first) != 2 || first[0].Type != "Ready" || first[1].Type != "GPUQueued" || !first[0].Since.Equal(noon) {
		t.Fatalf("without a pod: %+v, want Ready and GPUQueued, since noon", first)
	}
	f.Pod = pod
	then := notebook.Conditions(f, first, noon.Add(time.Minute))
	var kinds []string
	for _, c := range then {
		kinds = append(kinds, c.Type)
	}
	if got := strings.Join(kinds, " "); got != "Ready GPUQueued PodReadyToStartContainers" {
		t.Errorf("with a pod the types are %q", got)
	}
	if ready := then[0]; !ready.Since.Equal(noon) || !ready.Probed.Equal(noon.Add(time.Minute)) {
		t.Errorf("Ready is still False, with another message: %+v; want it since noon, looked at a minute later", ready)
	}
	again := notebook.Conditions(f, then, noon.Add(time.Hour))
	for i := range again {
		if again[i] != then[i] {
			t.Errorf("nothing has changed, and %+v became %+v", then[i], again[i])
		}
	}
}

func TestStoppedMessageSaysWhatIsKept(t *testing.T) {
	start := "; to start it: kubectl annotate notebook nb -n ns kubeflow-resource-stopped-"
	for _, c := range []struct {
		name, why string
		claims    []string
		want      string
	}{
		{"its user stopped it", "", nil, "stopped by annotation kubeflow-resource-stopped" + start},
		{"it was idle, and has a volume", "idle for 2h.", []string{"home"}, "stopped: idle for 2h; kept: volume claim home" + start},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := notebook.StoppedMessage("ns", "nb", c.why, c.claims); got != c.want {
				t.Errorf("StoppedMessage is %q, want %q", got, c.want)
			}
		})
	}
}

// rows: NB-09

func TestTimeline(t *testing.T) {
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	conditions := []explain.Condition{
		{Type: "GPUQueued", Status: "False", Since: at(2)},
		{Type: "PodScheduled", Status: "True", Since: at(2)},
		{Type: "PodReadyToStartContainers", Status: "True", Since: at(3)},
		{Type: "Ready", Status: "False", Since: at(2)},
	}
	want := []notebook.Moment{{Step: "queued", At: at(0)}, {Step: "bound", At: at(2)}, {Step: "pulling", At: at(3)}, {Step: "started", At: at(9)}, {Step: "ready", At: time.Time{}}}
	got := notebook.Timeline(at(0), conditions, at(9))
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("step %d is %v, want %v", i, got[i], want[i])
		}
	}
}
