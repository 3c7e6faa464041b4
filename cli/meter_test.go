package cli_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/cli"
	"berth.dev/berth/cli/process"
	"berth.dev/berth/core/usage"
)

// meter runs `berth meter` with arguments and returns what it asked for; nil is that it was refused.
func meter(t *testing.T, args string) (asked *process.MeterOptions, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	o := cli.Options{Out: &out, Err: &errs, Meter: func(_ context.Context, o process.MeterOptions) error {
		asked = &o
		return nil
	}}
	cli.Main(append([]string{"berth", "meter"}, strings.Fields(args)...), o)
	return asked, errs.String()
}

func TestMeterOptions(t *testing.T) {
	got, stderr := meter(t, "--kubeconfig k --data d")
	if got == nil || got.Dir != "d" || got.Addr != "127.0.0.1:10261" || got.Keep != 400*24*time.Hour || got.Smallest != usage.SmallestPod || got.Export != "" || got.UsageDays != 62 {
		t.Errorf("by default it is asked for %+v, %s", got, stderr)
	}
	got, stderr = meter(t, "--kubeconfig k --data d --ledger-keep-days 0 --smallest-cpu 500m --smallest-memory 2Gi")
	if got == nil || got.Keep != 0 || got.Smallest != (usage.Room{MilliCPU: 500, MemoryBytes: 2 << 30}) {
		t.Errorf("asked for is %+v, %s", got, stderr)
	}
	if got.Prometheus != "auto" || got.RemoteWrite != nil || got.OTLP != nil {
		t.Errorf("by default readings are shared with %+v", got.ReadingsPolicy)
	}
	got, stderr = meter(t, "--kubeconfig k --data d --prometheus none --remote-write http://a/write --remote-write https://b/write --otlp http://c:4318")
	if got == nil || got.Prometheus != "" || strings.Join(got.RemoteWrite, " ") != "http://a/write https://b/write" || strings.Join(got.OTLP, " ") != "http://c:4318" {
		t.Fatalf("asked for is %+v, %s", got, stderr)
	}
	if again, stderr := meter(t, "--kubeconfig k --data d "+strings.ReplaceAll(strings.Join(got.LedgerPolicy.Args(), "="), "=--", " --")); again == nil || again.Prometheus != "" || len(again.RemoteWrite) != 2 || len(again.OTLP) != 1 {
		t.Errorf("its flags give %+v, %s", again, stderr)
	}
	secret := filepath.Join(t.TempDir(), "urls.yaml")
	if err := os.WriteFile(secret, []byte("urls: [{url: http://a, authorization: {credentials: x}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, stderr = meter(t, "--kubeconfig k --data d --url-credentials "+secret); got == nil || got.Credentials == nil || !slices.Contains(got.Args(), secret) {
		t.Fatalf("with credentials it is asked for %+v, %s", got, stderr)
	}
	for args, want := range map[string]string{
		"--kubeconfig k --data d --url-credentials none.yaml": "invalid --url-credentials: read credentials: open ",
		"--kubeconfig k --data d --prometheus there":          `invalid --prometheus "there": must be auto, none, or a URL such as http://prometheus:9090`,
		"--kubeconfig k --data d --remote-write ftp://x/":     `invalid --remote-write "ftp://x/": must be a URL such as http://prometheus:9090/api/v1/write`,
		"--kubeconfig k --data d --otlp collector:4318":       `invalid --otlp "collector:4318": must be a URL such as http://collector:4318`,
		"--kubeconfig k": "set --data to the folder of the ledger",
		"--kubeconfig k --data d --tls-cert-file c":     "set both --tls-cert-file and --tls-private-key-file, or neither",
		"--kubeconfig k --data d --ledger-keep-days=-1": "invalid --ledger-keep-days -1: must be a number of days, or 0 to keep everything",
		"--kubeconfig k --data d --usage-days 401":      "invalid --usage-days 401: must be a number of days up to 400, or 0 to write none",
		"--kubeconfig k --data d --smallest-cpu much":   `invalid --smallest-cpu "much": must be an amount such as 1 or 500m`,
		"--kubeconfig k --data d --smallest-memory=-1":  `invalid --smallest-memory "-1": must be an amount such as 1Gi`,
	} {
		if got, stderr := meter(t, args); got != nil || !strings.Contains(stderr, want) {
			t.Errorf("%s: the error is %q, want %q", args, stderr, want)
		}
	}
}
