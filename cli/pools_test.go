package cli_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// declared is the ConfigMap that declares pools.
func declared(text string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "berth-pools"}, Data: map[string]string{"pools.yaml": text}}
}

func TestNodesTellHowFarPoolsCanGrow(t *testing.T) {
	const pools = "[{name: gpu-t4, max: 20, gpus: {product: Tesla T4, count: 1}}, {name: a, max: 1, labels: {team: a}}]"
	of := node("t4-1", "Tesla T4", 1, "", "nvidia.com/gpu", 1)
	of.Labels["cloud.google.com/gke-nodepool"] = "gpu-t4"
	for _, tt := range []struct {
		name, text string
		args       string
		want       string // the lines of pools
	}{
		{"below the table", pools, "nodes", "pool gpu-t4: 1 node of at most 20, can grow by 19: 19 x T4; 1 node can go, as its GPUs are free: t4-1\npool a: 0 nodes of at most 1, can grow by 1\n"},
		{"those of a selector, with nodes that have other labels counted", pools, "nodes -l nvidia.com/gpu.product=Tesla-T4", "pool gpu-t4: 1 node of at most 20, can grow by 19: 19 x T4\n"},
		{"by the labels that are declared", pools, "nodes -l team=a", "pool a: 0 nodes of at most 1, can grow by 1\n"},
		{"not in the view that documents show", pools, "nodes --view allocation", ""},
		{"one that cannot be read", "[{name: a}]", "nodes", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, code := newStage(t, of, declared(tt.text)).run(append([]string{"berth"}, strings.Split(tt.args, " ")...)...)
			got := ""
			for line := range strings.Lines(stdout) {
				if strings.HasPrefix(line, "pool ") {
					got += line
				}
			}
			if code != 0 || got != tt.want {
				t.Errorf("berth %s: exit code %d\n%s\nwant\n%s\n%s", tt.args, code, got, tt.want, stderr)
			}
			if warned := strings.Contains(stderr, "warning: pools are omitted: "); warned != (tt.text != pools) {
				t.Errorf("it warns: %v:\n%s", warned, stderr)
			}
		})
	}
}

func TestWhereNoNodeHasGPUsPoolsAreToldOf(t *testing.T) {
	stdout, stderr, code := newStage(t, node("cpu-1", "", 0, ""), declared("[{name: gpu-t4, max: 20, gpus: {product: Tesla T4, count: 1}}]")).run("berth", "nodes")
	if code != 0 || stdout != "pool gpu-t4: 0 nodes of at most 20, can grow by 20: 20 x T4\n" || !strings.Contains(stderr, "no node has GPUs") {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
}
