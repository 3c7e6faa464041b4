package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/kube/lint"
)

func TestDocumentsAndScripts(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		want             []string
	}{
		{
			"a comment after a continuation", "a.md", "Text\n\n```bash\nhelm upgrade x \\\n  --set a=b \\  # why\n  --set c=d\n```\n",
			[]string{"5 fail shell-continuation"},
		},
		{"a continuation", "a.md", "```sh\nhelm upgrade x \\\n  --set a=b\n```\n", nil},
		{"a backslash in a comment", "a.md", "```sh\n# a \\ # b\ntrue\n```\n", nil},
		{"a block of another language", "a.md", "```python\nx = 1 + \\  # no\n  2\n```\n", nil},
		{"a manifest in a document", "a.md", "# T\n```yaml\nkind: PriorityClass\nglobalDefault: true\n```\n", []string{"4 warn global-default"}},
		{
			"a manifest that a command reads", "a.md", "```bash\ncat <<'EOF' | kubectl apply -f -\nkind: PriorityClass\nglobalDefault: true\nEOF\nkubectl get nodes\n```\n",
			[]string{"4 warn global-default"},
		},
		{"a script", "a.sh", "#!/bin/sh\nkubectl apply \\ \n  -f x\n", []string{"2 fail shell-continuation"}},
		{"a text that a command reads", "a.sh", "cat <<EOF\nx \\  # y\nz\nEOF\n", nil},
		{"a command that knows no GPUs", "a.md", "```bash\nkubectl resource-capacity --sort gpu.nvidia.com\n```\n", []string{"2 warn shell-command"}},
		{"a restart of the plugin", "a.md", "```bash\nkubectl rollout restart daemonset nvidia-device-plugin-daemonset -n gpu-operator\n```\n", []string{"2 warn shell-command"}},
		{
			"commands that are called YAML", "a.md", "```yaml\nkubectl create namespace n\n\nkubectl apply -f - <<EOF\nkind: PriorityClass\nglobalDefault: true\nEOF\n```\n",
			[]string{"6 warn global-default"},
		},
		{"YAML that speaks of kubectl", "a.md", "```yaml\n# kubectl apply -f this\nkind: PriorityClass\nglobalDefault: true\n```\n", []string{"4 warn global-default"}},
		{
			"queries", "a.md", "```promql\n# use\nDCGM_FI_DEV_GPU_UTIL\n\nsum(DCGM_FI_DEV_GPU_UTIL) * (2/3600)\n  * on(pod) group_left(job) kube_pod_labels\n# memory\nDCGM_FI_DEV_FB_TOTAL\n```\n",
			[]string{"5 warn query", "8 warn metric-name"},
		},
		{"what an exporter serves", "a.md", "```prometheus\n# use\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 87\n\n# occupancy\nDCGM_FI_DEV_SM_OCCUPANCY{gpu=\"0\"} 0.76\n```\n", []string{"6 warn metric-name"}},
		{"a block that does not end", "a.md", "```yaml\nkind: PriorityClass\nglobalDefault: true\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, f := range lint.Check(c.file, []byte(c.text), reader) {
				got = append(got, strings.TrimSpace(fmt.Sprintln(f.Line, f.Status, f.Name)))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s%s", diff, c.text)
			}
		})
	}
}
