package cli_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/cli"
	"berth.dev/berth/cli/process"
)

// scheduler runs `berth scheduler` with a scheduler that notes what it was asked
// for, and returns what.
func scheduler(t *testing.T, args string, result error) (asked *process.SchedulerOptions, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	o := cli.Options{Out: &out, Err: &errs, Scheduler: func(_ context.Context, o process.SchedulerOptions) error {
		asked = &o
		return result
	}}
	code = cli.Main(append([]string{"berth", "scheduler"}, strings.Fields(args)...), o)
	return asked, errs.String(), code
}

func TestSchedulerOptions(t *testing.T) {
	want := process.SchedulerOptions{
		Kubeconfig: "k", Names: []string{"berth-scheduler"}, MetricsAddr: "127.0.0.1:10259", Policies: true,
		LeaseOptions: process.LeaseOptions{
			LeaderElect: true, LeaseNamespace: "kube-system", LeaseName: "berth-scheduler",
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		},
		NodePolicy: process.NodePolicy{OtherPods: "open", ReserveAfter: 10 * time.Second, ReportStuck: 10 * time.Minute},
	}
	got, stderr, code := scheduler(t, "--kubeconfig k", nil)
	if code != 0 || got == nil {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("defaults differ (-want +got):\n%s", diff)
	}
	t.Setenv("KUBECONFIG", "from-env")
	got, _, _ = scheduler(t, "--scheduler-name a,b --leader-elect=false --metrics-addr= --policy-user u --take-over", nil)
	if got == nil || got.Kubeconfig != "from-env" || got.MetricsAddr != "" || got.LeaderElect || got.User != "u" || !got.TakeOver || !cmp.Equal(got.Names, []string{"a", "b"}) {
		t.Errorf("flags were not taken: %+v", got)
	}
}

func TestSchedulerRefusesWhatCannotWork(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for args, says := range map[string]string{
		"":                                 "no cluster: set --kubeconfig",
		"--kubeconfig k extra":             "unknown command",
		"--kubeconfig k --scheduler-name=": "must not be empty",
		"--kubeconfig k --tls-cert-file=c": "set both --tls-cert-file",
		"--kubeconfig k --leader-elect-lease-duration=10s":                                    "shorter than the lease",
		"--kubeconfig k --leader-elect-renew-deadline=2s":                                     "shorter than the renew deadline",
		"--kubeconfig k --leader-elect-lease-duration=500ms --leader-elect-renew-deadline=1s": "at least 1s",
	} {
		asked, stderr, code := scheduler(t, args, nil)
		if asked != nil || code != 2 || !strings.Contains(stderr, says) {
			t.Errorf("berth scheduler %s: exit code %d, want 2; stderr lacks %q:\n%s", args, code, says, stderr)
		}
	}
	t.Setenv("KUBECONFIG", "a"+string(os.PathListSeparator)+"b")
	if _, stderr, code := scheduler(t, "", nil); code != 2 || !strings.Contains(stderr, "choose one with --kubeconfig") {
		t.Errorf("two kubeconfigs: exit code %d: %s", code, stderr)
	}
}

func TestSchedulerSaysWhyItEnded(t *testing.T) {
	refused := fmt.Errorf("ask who this is: %w", &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")})
	if _, stderr, code := scheduler(t, "--kubeconfig k", refused); code != 4 || !strings.Contains(stderr, "cannot reach the cluster") {
		t.Errorf("nobody listens: exit code %d, want 4: %s", code, stderr)
	}
	if _, stderr, code := scheduler(t, "--kubeconfig k", errors.New("the lease was lost")); code != 1 || !strings.Contains(stderr, "error: the lease was lost") {
		t.Errorf("the lease was lost: exit code %d, want 1: %s", code, stderr)
	}
}
