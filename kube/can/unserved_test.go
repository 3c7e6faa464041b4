package can_test

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/kube/can"
)

func TestKindsThatBerthDoesNotRun(t *testing.T) {
	for _, tt := range []struct {
		group, kind string
		want        string // what to use; "" is that nothing is said of it
	}{
		{"kubeflow.org", "XGBoostJob", "use a Job"},
		{"kubeflow.org", "MPIJob", "use a PyTorchJob or a TrainJob whose program is started by torchrun, or install the MPI Operator"},
		{"serving.kserve.io", "InferenceGraph", "call one InferenceService after the other from your program, or install KServe"},
		{"kubeflow.org", "PyTorchJob", ""},
		{"serving.kserve.io", "InferenceService", ""},
		{"example.com", "MPIJob", ""},
		{"ray.io", "RayJob", ""},
		{"", "Pod", ""},
	} {
		got := can.NotRun(schema.GroupKind{Group: tt.group, Kind: tt.kind})
		if tt.want == "" && got != "" || tt.want != "" && !strings.HasSuffix(got, "; without it, "+tt.want) {
			t.Errorf("%s of %q: %q, want %q", tt.kind, tt.group, got, tt.want)
		}
	}
	if got := can.NotRunByName("xgboostjob"); !strings.HasPrefix(got, "Berth does not run XGBoostJobs: ") {
		t.Errorf("of a kind in lower case it is said %q", got)
	}
	if got := can.NotRunByName("pytorchjob"); got != "" {
		t.Errorf("of a kind that Berth runs it is said %q", got)
	}
	for kind, want := range map[string]string{
		"JAXJob": "; use a TrainJob or a Job", "RayJob": "; install KubeRay", "Widget": "; install what defines it, or correct apiVersion and kind",
	} {
		if got := can.Unserved(schema.GroupVersionKind{Group: "g", Version: "v1", Kind: kind}); !strings.HasSuffix(got, want) {
			t.Errorf("of %s, which no cluster serves, it is said %q", kind, got)
		}
	}
}

// The page on manifests names each kind that there is an answer for, with that answer.
func TestThePageHasWhatToUseInstead(t *testing.T) {
	page, err := os.ReadFile("../../docs/tasks/check-manifests.md")
	if err != nil {
		t.Fatal(err)
	}
	for kind, do := range can.Instead() {
		row := ""
		for line := range strings.Lines(string(page)) {
			if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| ") && strings.Contains(", "+strings.TrimPrefix(cells[0], "| ")+",", ", "+kind+",") {
				row = line
			}
		}
		if want := strings.TrimPrefix(do, "use "); !strings.Contains(row, want) {
			t.Errorf("the row of %s is %q, want %q in it", kind, row, want)
		}
	}
}
