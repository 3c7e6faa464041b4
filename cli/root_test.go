package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/api"
	"berth.dev/berth/cli"
	"berth.dev/berth/internal/datadir"
)

func TestProgramNames(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"alone it says how to start", []string{"/usr/bin/berth"}, "  berth up       start a Kubernetes cluster"},
		{"as a plugin it calls itself kubectl berth", []string{"/usr/bin/kubectl-berth", "nodes", "--help"}, "kubectl berth nodes [NODE...] [flags]"},
		{"as kubectl's completer it completes", []string{"kubectl_complete-berth", "nod"}, "nodes\t"},
		{"completion of kinds", []string{"kubectl_complete-berth", "sim", "break", ""}, "kubelet\n"},
		{"completion of simulated nodes", []string{"kubectl_complete-berth", "sim", "break", "image", ""}, "gpu-t4-1\n"},
		{"completion of nodes", []string{"kubectl_complete-berth", "gpus", "gpu-t"}, "gpu-t4-1\n"},
		{"completion of nodes that are not named yet", []string{"kubectl_complete-berth", "nodes", "gpu-t4-1", ""}, "gpu-t4-2\n"},
		{"completion of contexts", []string{"kubectl_complete-berth", "nodes", "--context", ""}, "test\n"},
		{"completion of formats", []string{"kubectl_complete-berth", "doctor", "-o", ""}, "sarif\n"},
		{"completion of columns", []string{"kubectl_complete-berth", "nodes", "--sort-by", ""}, "-free\n"},
		{"version tells the Kubernetes it carries", []string{"berth", "version", "-o", "json"}, `"kubernetes": "v1.`},
		{"completion scripts are cobra's", []string{"berth", "completion", "bash"}, "__start_berth"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, code := newStage(t, lab()...).run(tt.args...)
			if code != 0 || !strings.Contains(stdout, tt.want) {
				t.Errorf("exit code %d, want 0; stdout lacks %q:\n%s%s", code, tt.want, stdout, stderr)
			}
		})
	}
}

func TestWelcomeIsEightLines(t *testing.T) {
	if out := newStage(t).ok(); strings.Count(out, "\n") != 8 {
		t.Errorf("berth alone prints %d lines, want 8:\n%s", strings.Count(out, "\n"), out)
	}
}

func TestWrongUsageIsExitCode2(t *testing.T) {
	for args, says := range map[string]string{
		"nods":                       `did you mean "nodes"?`,
		"frobnicate":                 `unknown command "frobnicate"`,
		"nodes --frob":               "unknown flag: --frob",
		"status extra":               `unknown command "extra"`,
		"nodes --sort-bi x":          `unknown flag: --sort-bi; did you mean --sort-by?`,
		"nodes --view pie":           "must be allocation",
		"nodes -o jsn":               "must be json, yaml",
		"nodes -o jsonpath={.items[": "jsonpath",
		"nodes -o custom-columns":    "custom-columns=NAME:PATH",
		"nodes -o custom-columns=N":  `invalid column "N": must be NAME:PATH`,

		"nodes -o custom-columns=N:.items[":     `column N: path ".items["`,
		"nodes -o custom-columns-file=/no/file": "read the columns",
		"nodes -l a=b=c":                        "--selector",
		"version -o xml":                        "must be json or yaml",
		"completion tcsh":                       "unknown command",
	} {
		_, stderr, code := newStage(t).run(append([]string{"berth"}, strings.Fields(args)...)...)
		if code != 2 || !strings.Contains(stderr, says) || !strings.Contains(stderr, "--help`") {
			t.Errorf("berth %s: exit code %d, want 2; stderr lacks %q or the way to help:\n%s", args, code, says, stderr)
		}
	}
}

func TestExitCodesOfFailedCalls(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	pods := schema.GroupResource{Resource: "nodes"}
	tests := []struct {
		name string
		err  error
		code int
		says string
	}{
		{"nobody listens", refused, 4, "cannot reach https://cluster.test:6443 ($KUBECONFIG): dial tcp: connection refused; check that it is running"},
		{"the user may not", apierrors.NewForbidden(pods, "", errors.New("no")), 1, "request a role that allows it"},
		{"the login has expired", apierrors.NewUnauthorized("no"), 1, "log in to the cluster again"},
		{"no answer in time", context.DeadlineExceeded, 5, "--request-timeout"},
		{"the server gives up", apierrors.NewServerTimeout(pods, "list", 1), 5, "try again"},
		{"the server is broken", apierrors.NewInternalError(errors.New("oops")), 1, "oops"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			client := fake.NewClientset()
			client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.err })
			s.client = client
			stdout, stderr, code := s.run("berth", "nodes")
			if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.says) {
				t.Errorf("exit code %d, want %d; stdout %q, want none; stderr lacks %q:\n%s", code, tt.code, stdout, tt.says, stderr)
			}
		})
	}
}

func TestClusterChoice(t *testing.T) {
	tests := []struct {
		name string
		set  func(t *testing.T, home string) []string // returns flags
		code int
		says string
	}{
		{"--kubeconfig goes first", func(t *testing.T, home string) []string {
			path := filepath.Join(home, "other")
			write(t, path, strings.Replace(kubeconfig, "cluster.test", "other.test", 1))
			return []string{"--kubeconfig", path}
		}, 0, "other (https://other.test:6443)"},
		{"then $KUBECONFIG, also before --dir", func(_ *testing.T, home string) []string {
			return []string{"--dir", home}
		}, 0, "cluster: $KUBECONFIG (which takes precedence over --dir) (https://cluster.test:6443)"},
		{"then --dir", func(t *testing.T, home string) []string {
			t.Setenv("KUBECONFIG", "")
			return []string{"--dir", home}
		}, 0, "cluster: berth up in "},
		{"then a running berth up", func(t *testing.T, _ string) []string {
			t.Setenv("KUBECONFIG", "")
			hold(t)
			return nil
		}, 0, "cluster: berth up in ~/data/berth/default (https://cluster.test:6443)"},
		{"a running berth up that lacks the context is passed over", func(t *testing.T, _ string) []string {
			t.Setenv("KUBECONFIG", "")
			hold(t)
			return []string{"--context", "mine"}
		}, 4, "no kubeconfig was found"},
		{"nothing at all", func(t *testing.T, _ string) []string {
			t.Setenv("KUBECONFIG", "")
			return nil
		}, 4, "start one with `berth up`"},
		{"a folder without a cluster", func(t *testing.T, home string) []string {
			t.Setenv("KUBECONFIG", "")
			return []string{"--dir", filepath.Join(home, "none")}
		}, 4, "start it with `berth up --dir "},
		{"a $KUBECONFIG that does not exist", func(t *testing.T, home string) []string {
			t.Setenv("KUBECONFIG", filepath.Join(home, "gone"))
			return nil
		}, 4, "gone does not exist"},
		{"a context that does not exist", func(*testing.T, string) []string {
			return []string{"--context", "gone"}
		}, 1, `context "gone" does not exist`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, lab()...)
			args := append([]string{"berth", "nodes"}, tt.set(t, filepath.Dir(os.Getenv("KUBECONFIG")))...)
			_, stderr, code := s.run(args...)
			if code != tt.code || !strings.Contains(stderr, tt.says) {
				t.Errorf("exit code %d, want %d; stderr lacks %q:\n%s", code, tt.code, tt.says, stderr)
			}
		})
	}
}

// hold makes the default data folder look as it does while `berth up` runs.
func hold(t *testing.T) {
	t.Helper()
	d, err := datadir.Default()
	if err != nil {
		t.Fatal(err)
	}
	release, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	if err := d.WriteState(datadir.State{Ready: true}); err != nil {
		t.Fatal(err)
	}
	write(t, d.Kubeconfig(), kubeconfig)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestImpersonationAndProtobufReachTheClient(t *testing.T) {
	s := newStage(t, lab()...)
	var got rest.Config
	s.connect = func(cfg *rest.Config) (kubernetes.Interface, error) { got = *cfg; return s.client, nil }
	s.ok("gpus", "--as", "ada")
	if got.Impersonate.UserName != "ada" || got.ContentType != "application/vnd.kubernetes.protobuf" {
		t.Errorf("client acts as %q and speaks %q, want ada and protobuf", got.Impersonate.UserName, got.ContentType)
	}
}

func TestCompletionInstallMakesLinks(t *testing.T) {
	s := newStage(t)
	dir := t.TempDir()
	for _, want := range []string{"made", "exists"} {
		out := s.ok("completion", "install", "--dir", dir)
		for _, name := range []string{"kubectl-berth", "kubectl_complete-berth"} {
			if !strings.Contains(out, filepath.Join(dir, name)+": "+want) {
				t.Errorf("output does not say that %s %s:\n%s", name, want, out)
			}
		}
	}
	other := t.TempDir()
	write(t, filepath.Join(other, "kubectl-berth"), "not ours")
	if _, stderr, code := s.run("berth", "completion", "install", "--dir", other); code != 1 || !strings.Contains(stderr, "remove it") {
		t.Errorf("over a file of somebody else: exit code %d, want 1; stderr:\n%s", code, stderr)
	}
}

func TestWatchShowsChanges(t *testing.T) {
	// The signal loop of package os/signal must not belong to the bubble.
	signal.Stop(func() chan os.Signal { c := make(chan os.Signal, 1); signal.Notify(c, os.Interrupt); return c }())
	s := newStage(t, lab()...)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		ended := make(chan error)
		root := cli.New(cli.Options{Out: &out, Err: &bytes.Buffer{}, Connect: s.connect})
		root.SetArgs([]string{"nodes", "-w", "--view", "allocation", "--no-headers", "-l", "one"})
		go func() { ended <- root.ExecuteContext(ctx) }()
		synctest.Wait()
		if out.Len() != 0 {
			t.Errorf("no node has the label, but it prints %q", out.String())
		}
		n := node("new", "Tesla T4", 2, "", api.ResourceGPU, 2)
		n.Labels["one"] = "yes"
		if _, err := s.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		<-time.After(time.Minute) // of virtual time: it passes when all else waits
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("an interrupted watch returns %v, want nil", err)
		}
		if want := "new   2   0 (0%)   -\n"; !strings.HasSuffix(out.String(), want) {
			t.Errorf("it printed %q, want %q at the end", out.String(), want)
		}
	})
}

func TestVersionIsOneObject(t *testing.T) {
	var got map[string]string
	if err := json.Unmarshal([]byte(newStage(t).ok("version", "-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"version", "revision", "kubernetes", "go", "platform"} {
		if got[key] == "" {
			t.Errorf("version -o json has no %s: %v", key, fmt.Sprint(got))
		}
	}
}
