package cli_test

import (
	"strings"
	"testing"
)

func TestNodePolicyFlags(t *testing.T) {
	got, stderr, code := scheduler(t, "--kubeconfig k --other-pods refuse --report-stuck 0 --release-stuck 1h", nil)
	if code != 0 || got.OtherPods != "refuse" || got.ReportStuck != 0 || got.ReleaseStuck.String() != "1h0m0s" {
		t.Errorf("got %+v, exit code %d: %s", got, code, stderr)
	}
	for args, want := range map[string]string{
		"--other-pods closed":  `--other-pods "closed": must be open, report, or refuse`,
		"--release-stuck -5m":  "invalid --report-stuck or --release-stuck: must be a duration such as 10m",
		"--reserve-after -1s":  "invalid --reserve-after -1s: must be a duration such as 10s",
		"--report-stuck often": "invalid argument",
	} {
		if _, stderr, code := scheduler(t, "--kubeconfig k "+args, nil); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q; want 2 and %q", args, code, stderr, want)
		}
	}
}
