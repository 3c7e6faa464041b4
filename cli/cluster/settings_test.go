package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/internal/datadir"
)

func TestUpNamesTheSettingsThatDifferOfAClusterThatRuns(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"fleet.yaml", "same.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("name: a\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runs := datadir.State{Fleet: "my.yaml", Port: 6443, Scheduler: "berth", HostProcesses: []string{"a=b"}}
	for name, tt := range map[string]struct {
		o    UpOptions
		want []string
	}{
		"nothing is asked for": {UpOptions{}, nil},
		"what is asked for runs": {
			UpOptions{Fleet: "my.yaml", Port: 6443, Scheduler: "berth", Notebooks: "auto", Training: "auto", Kubernetes: "1.36", HostProcesses: []string{"a=b"}}, nil,
		},
		"a file of the same fleet":   {UpOptions{Fleet: filepath.Join(dir, "same.yaml")}, nil},
		"another fleet":              {UpOptions{Fleet: "lab"}, []string{"--fleet is my.yaml, not lab"}},
		"another scheduler and port": {UpOptions{Scheduler: "stock", Port: 7000}, []string{"--scheduler is berth, not stock", "--port is 6443, not 7000"}},
		"modes of kinds":             {UpOptions{Notebooks: "off", Training: "own"}, []string{"--notebooks is auto, not off", "--training is auto, not own"}},
		"an older Kubernetes":        {UpOptions{Kubernetes: "1.33"}, []string{"--kubernetes-version is 1.36, not 1.33"}},
		"other host processes":       {UpOptions{HostProcesses: []string{"c=d"}}, []string{`--host-process is ["a=b"], not ["c=d"]`}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.o.Dir = datadir.Dir(dir)
			if diff := cmp.Diff(tt.want, differences(&tt.o, &runs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
