package cli_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli"
)

// TestTrainWatches has commands print again when a job changes, and end without an error when they are interrupted.
func TestTrainWatches(t *testing.T) {
	for _, tt := range []struct{ name, args, before, after string }{
		{"a list shows a job that comes later", "train list -n vision -w --no-headers", "bert ", "late "},
		{"a job shows its new state", "train show off -n vision -w", "PyTorchJob, Suspended", "PyTorchJob, Running"},
		{"logs of a job that has no pods wait for some", "train logs mnist -n vision -f", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := trainStage(t)
				ctx, cancel := context.WithCancel(t.Context())
				var out bytes.Buffer
				ended := make(chan error)
				root := cli.New(cli.Options{
					Out: &out, Err: &bytes.Buffer{}, Connect: s.connect, Now: func() time.Time { return now },
					Dynamic: func(*rest.Config) (dynamic.Interface, error) { return s.dynamic, nil },
				})
				root.SetArgs(strings.Fields(tt.args))
				go func() { ended <- root.ExecuteContext(ctx) }()
				synctest.Wait()
				if text := out.String(); !strings.Contains(text, tt.before) || tt.after != "" && strings.Contains(text, tt.after) {
					t.Errorf("it begins with\n%s\nwant %q", text, tt.before)
				}
				jobs := s.dynamic.Resource(kubeflow.PyTorchJobs).Namespace("vision")
				if _, err := jobs.Create(ctx, trainingJob("PyTorchJob", "vision", "late", 0), metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
				if _, err := jobs.Update(ctx, trainingJob("PyTorchJob", "vision", "off", 1, states("Created", "Running")), metav1.UpdateOptions{}); err != nil {
					t.Error(err)
				}
				<-time.After(time.Minute) // of virtual time: it passes when all else waits
				cancel()
				if err := <-ended; err != nil || !strings.Contains(out.String(), tt.after) {
					t.Errorf("an interrupted command returns %v, want nil, and has printed\n%s\nwant %q", err, out.String(), tt.after)
				}
			})
		})
	}
}

func TestTrainNamesComplete(t *testing.T) {
	for args, want := range map[string]string{
		"train stop -n vision bert ": "both\nelastic\nmnist\noff\nwrong\n",
		"train create --framework ":  "torch\ntensorflow\n",
	} {
		stdout, stderr, code := trainStage(t).run(append([]string{"kubectl_complete-berth"}, strings.Split(args, " ")...)...)
		if code != 0 || !strings.HasPrefix(stdout, want) {
			t.Errorf("%s: exit code %d; completions are %q, want %q: %s", args, code, stdout, want, stderr)
		}
	}
}
