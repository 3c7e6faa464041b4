package cli_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"berth.dev/berth/cli"
	"berth.dev/berth/cli/process"
)

func TestActivatorOptions(t *testing.T) {
	t.Setenv("POD_NAME", "berth-activator-x")
	ask := func(args string) (asked *process.ActivatorOptions, stderr string) {
		var out, errs bytes.Buffer
		cli.Main(append([]string{"berth", "activator"}, strings.Fields(args)...), cli.Options{Out: &out, Err: &errs, Activator: func(_ context.Context, o process.ActivatorOptions) error {
			asked = &o
			return nil
		}})
		return asked, errs.String()
	}
	got, stderr := ask("--kubeconfig k --pod-ip 10.1.2.3")
	if got == nil || got.PodName != "berth-activator-x" || got.Service != "berth-activator" || got.Addr != "127.0.0.1:10262" || got.Bind != "" {
		t.Errorf("by default it is asked for %+v, %s", got, stderr)
	}
	for args, want := range map[string]string{
		"--kubeconfig k":                                            `invalid --pod-ip "": must be the IP address of this pod, such as 10.1.2.3`,
		"--kubeconfig k --pod-ip 127.0.0.1":                         `invalid --pod-ip "127.0.0.1"`,
		"--kubeconfig k --pod-ip 10.1.2.3 --bind-address localhost": `invalid --bind-address "localhost": must be an IP address`,
		"--kubeconfig k --pod-ip 10.1.2.3 --tls-cert-file c":        "set both --tls-cert-file and --tls-private-key-file, or neither",
	} {
		if got, stderr := ask(args); got != nil || !strings.Contains(stderr, want) {
			t.Errorf("%s: the error is %q, want %q", args, stderr, want)
		}
	}
}
