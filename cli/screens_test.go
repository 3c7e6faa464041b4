package cli_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"berth.dev/berth/cli"
	"berth.dev/berth/test/screen"
)

// TestScreens prints each table on terminals of 60, 80, and 200 columns. No line of a table is longer than the terminal,
// and what is left out is named.
func TestScreens(t *testing.T) {
	hub, file := hubStage(t)
	hub.ok("profiles", "import", file)
	for _, tt := range []struct {
		file  string
		stage *stage
		args  string
		prose []string // starts of lines that are text
	}{
		{"nodes", newStage(t, lab()...), "nodes", nil},
		{"nodes_by", newStage(t, lab()...), "nodes --by nvidia.com/gpu.product", nil},
		{"gpus", newStage(t, lab()...), "gpus", nil},
		{"queue", busyTeams(t), "queue", []string{"old: "}},
		{"queue_show", busyTeams(t), "queue show speech", []string{"1 workload more"}},
		{"notebooks", notebooks(t, books()...), "notebook list -A", nil},
		{"train", trainStage(t), "train list -A", []string{"tfjob "}},
		{"train_show", trainStage(t), "train show bert -n vision", []string{"vision/bert"}},
		{"services", serviceStage(t), "service list -A", nil},
		{"service_show", serviceStage(t), "service show mnist -n vision", []string{"WHY "}},
		{"service_show_canary", canaryStage(t, "Canary", "the new revision gets 20% of the requests"), "service show mnist -n vision", []string{"WHY "}},
		{"prices", pricedLab(t), "price list", nil},
		{"explain", newStage(t), "explain", nil},
		{"profiles", hub, "profiles list", []string{"one-t4: ", "an-h100: "}},
		{"doctor", newStage(t, served()...), "doctor", nil},
		{"why", newStage(t, node("n-1", "Tesla T4", 4, "", "nvidia.com/gpu", 4), pending("vision", "large-a-with-a-long-name-of-a-replica-set-7c9d8", "9"), pending("vision", "b", "9")), "why -A", nil},
		{"notebook_why", notebooks(t, books()...), "notebook why -n research big", []string{"research/", "WHY", "WHEN", "HELPS", "         "}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			screen.File(t, "screens_"+tt.file+".txt", func(w io.Writer) {
				code := cli.Main(append([]string{"berth"}, strings.Fields(tt.args)...), cli.Options{
					Out: w, Err: w, Connect: tt.stage.connect, Now: func() time.Time { return now }, BusyPatience: time.Minute,
					Dynamic: func(*rest.Config) (dynamic.Interface, error) { return tt.stage.dynamic, nil },
				})
				if code != 0 {
					t.Errorf("berth %s: exit code %d", tt.args, code)
				}
			}, tt.prose...)
		})
	}
}
