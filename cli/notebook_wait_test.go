package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli"
	"berth.dev/berth/test/golden"
)

// rows: NB-37 NB-39 NB-66

// TestNotebookWait plays what a controller would write, and reads what a person
// sees of it.
func TestNotebookWait(t *testing.T) {
	waits := told("Waiting", "2nd of 2 that wait for nvidia.com/gpu", "Queued", "waits for 1 nvidia.com/gpu, 2nd of 2 that wait for nvidia.com/gpu; held by old (1)")
	ready := told("Bound", "gpu-t4-1", "Ready", "on node gpu-t4-1")
	tests := []struct {
		name string
		args string
		play []*unstructured.Unstructured
		code int
		want []string // lines of stderr after the first, their times cut off
	}{
		{
			"until it is ready", "--wait", []*unstructured.Unstructured{
				book("default", "ada", waits), book("default", "ada", waits), book("default", "other", ready),
				book("default", "ada", told("Bound", "gpu-t4-1", "Pulling", "pulls image a:b on gpu-t4-1")), book("default", "ada", ready),
			}, 0, []string{
				"Starting", "Queued: waits for 1 nvidia.com/gpu, 2nd of 2 that wait for nvidia.com/gpu; held by old (1)",
				"Pulling: pulls image a:b on gpu-t4-1", "Ready on gpu-t4-1", "ready on gpu-t4-1; `berth notebook open ada` opens it",
			},
		},
		{
			"with what would help", "--wait", []*unstructured.Unstructured{
				book("default", "ada", waits, asks(gpuResource, "4")), book("default", "ada", ready),
			}, 0, []string{
				"Starting", "Queued: waits for 1 nvidia.com/gpu, 2nd of 2 that wait for nvidia.com/gpu; held by old (1)",
				"when: unknown: none of the 4 workloads using these GPUs has a known end time",
				"would help: ask for 2 nvidia.com/gpu instead of 4: it then fits on gpu-a100-1 now",
				"Ready on gpu-t4-1", "ready on gpu-t4-1; `berth notebook open ada` opens it",
			},
		},
		{
			"until it is clear that it cannot start", "--wait", []*unstructured.Unstructured{
				book("default", "ada", told("NoPod", "-", "MissingServiceAccount", "service account x does not exist in namespace default")),
			}, 1, []string{
				"Starting", "MissingServiceAccount: service account x does not exist in namespace default",
				"error: notebook default/ada cannot start: MissingServiceAccount: service account x does not exist in namespace default",
			},
		},
		{
			"until its time is over", "--wait --timeout 50ms", []*unstructured.Unstructured{book("default", "ada", waits)}, 5, []string{
				"Starting", "Queued: waits for 1 nvidia.com/gpu, 2nd of 2 that wait for nvidia.com/gpu; held by old (1)",
				"error: notebook default/ada is not ready after 50ms: Queued: waits for 1 nvidia.com/gpu, 2nd of 2 that wait for nvidia.com/gpu; held by old (1);" +
					" it continues in the background; see `berth notebook why ada`",
			},
		},
		{
			"until it is deleted", "--wait", []*unstructured.Unstructured{nil}, 1, []string{
				"Starting", "error: notebook default/ada: it was deleted while waiting for it",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := notebooks(t)
				w := watch.NewFakeWithChanSize(len(tt.play), false)
				for _, u := range tt.play {
					if u == nil {
						w.Delete(book("default", "ada"))
						continue
					}
					w.Modify(u)
				}
				s.dynamic.PrependWatchReactor("notebooks", func(clienttesting.Action) (bool, watch.Interface, error) { return true, w, nil })
				_, stderr, code := s.run(append([]string{"berth", "notebook", "create", "ada"}, strings.Fields(tt.args)...)...)
				var got []string
				for i, line := range strings.Split(strings.TrimSpace(stderr), "\n") {
					if i > 0 {
						got = append(got, strings.TrimPrefix(strings.TrimSpace(line), "0.0s  "))
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" || code != tt.code {
					t.Errorf("exit code %d, want %d; lines differ (-want +got):\n%s", code, tt.code, diff)
				}
			})
		})
	}
}

// rows: JH-37

// TestNotebookWaitGoesOnForHours: without --timeout, --wait gives up for no time that
// passes while the notebook waits for its place.
func TestNotebookWaitGoesOnForHours(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := notebooks(t)
		w := watch.NewFakeWithChanSize(2, false)
		w.Modify(book("default", "ada", told("Waiting", "2nd of 2 that wait for nvidia.com/gpu", "Queued", "waits for 1 nvidia.com/gpu")))
		s.dynamic.PrependWatchReactor("notebooks", func(clienttesting.Action) (bool, watch.Interface, error) { return true, w, nil })
		ended := make(chan int, 1)
		go func() {
			_, _, code := s.run("berth", "notebook", "create", "ada", "--wait")
			ended <- code
		}()
		<-time.After(30 * time.Hour) // of virtual time
		select {
		case code := <-ended:
			t.Fatalf("it gave up with exit code %d while the notebook waited", code)
		default:
		}
		w.Modify(book("default", "ada", told("Bound", "gpu-t4-1", "Ready", "on node gpu-t4-1")))
		if code := <-ended; code != 0 {
			t.Errorf("exit code %d when it is ready, want 0", code)
		}
	})
}

// TestNotebookWhyTellsOfEventsAndHelps holds what a person reads of one that waits:
// its own events, not those of an older one of its name, and whom to ask to stop.
func TestNotebookWhyTellsOfEventsAndHelps(t *testing.T) {
	s := notebooks(t, append(books(), book("vision", "wants", asks(gpuResource, "3"), set("new", "metadata", "uid"),
		told("Waiting", "the only one", "Queued", "waits for 3 nvidia.com/gpu, the only one")),
		book("nlp", "lazy", asks(gpuResource, "1"), told("Bound", "gpu-a100-1", "Ready", "on node gpu-a100-1"), annotated(api.AnnotationLastActivity, at(2*time.Hour))))...)
	ctx := context.Background()
	for i, e := range []struct{ uid, message string }{
		{"old", "of an older one"}, {"new", "waits for 3 nvidia.com/gpu, the only one"}, {"new", "something else"},
	} {
		event := &v1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "vision", Name: fmt.Sprint("wants.", i)},
			InvolvedObject: v1.ObjectReference{Kind: "Notebook", Name: "wants", UID: types.UID(e.uid)},
			Reason:         "Told", Message: e.message, Type: "Normal", Count: 2, LastTimestamp: metav1.Time{Time: now.Add(-time.Minute)},
		}
		if _, err := s.client.CoreV1().Events("vision").Create(ctx, event, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	lazy, err := s.client.CoreV1().Pods("nlp").Get(ctx, "tokenizer-experiment", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lazy.Labels[api.LabelNotebook] = "lazy"
	if _, err := s.client.CoreV1().Pods("nlp").Update(ctx, lazy, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	golden.File(t, "notebook_why_helps.txt", s.ok("notebook", "why", "-n", "vision", "wants"))
}

func TestNotebookListWatches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := notebooks(t, books()...)
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		ended := make(chan error)
		root := cli.New(cli.Options{Out: &out, Err: &bytes.Buffer{}, Connect: s.connect, Dynamic: func(*rest.Config) (dynamic.Interface, error) { return s.dynamic, nil }})
		root.SetArgs([]string{"notebook", "list", "-n", "vision", "-w", "--no-headers"})
		go func() { ended <- root.ExecuteContext(ctx) }()
		synctest.Wait()
		if strings.Count(out.String(), "\n") != 5 {
			t.Errorf("it begins with %q, want 5 notebooks", out.String())
		}
		if _, err := s.dynamic.Resource(kubeflow.Resource).Namespace("vision").Create(ctx, book("vision", "late"), metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		<-time.After(time.Minute) // of virtual time: it passes when all else waits
		cancel()
		if err := <-ended; err != nil || !strings.Contains(out.String(), "late") {
			t.Errorf("an interrupted watch returns %v, want nil, and has printed %q", err, out.String())
		}
	})
}

func TestNotebookNamesComplete(t *testing.T) {
	stdout, stderr, code := notebooks(t, books()...).run("kubectl_complete-berth", "notebook", "stop", "-n", "research", "big", "")
	if code != 0 || !strings.Contains(stdout, "nb-ada\n") || strings.Contains(stdout, "big\n") {
		t.Errorf("exit code %d; completions are %q: %s", code, stdout, stderr)
	}
}

func TestNotebookManifestNeedsNoCluster(t *testing.T) {
	s := newStage(t)
	t.Setenv("KUBECONFIG", "")
	if out := s.ok("notebook", "create", "ada", "--dry-run=client", "-o", "yaml"); !strings.Contains(out, "namespace: default") {
		t.Errorf("it prints\n%s", out)
	}
}
