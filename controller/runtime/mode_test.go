package runtime

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"berth.dev/berth/kube/view"
)

// deployments is a cache of deployments.
type deployments struct {
	client.Reader
	list []appsv1.Deployment
	err  error
}

func (d *deployments) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.(*appsv1.DeploymentList).Items = d.list
	return d.err
}

// newTestWatcher makes a watcher over d whose writes go to a fake API server.
func newTestWatcher(setting string, d *deployments) *modeWatcher {
	return &modeWatcher{
		kind: notebooks(setting), reader: d, client: fake.NewClientset(), events: events.NewFakeRecorder(10),
		in:   client.ObjectKey{Namespace: Namespace, Name: Name},
		look: make(chan struct{}, 1), changed: make(chan event.GenericEvent, 1),
	}
}

// recorded reads what `berth status` would show.
func recorded(t *testing.T, w *modeWatcher) string {
	t.Helper()
	mode, why, err := view.NotebookMode(t.Context(), w.client)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(mode + " " + why)
}

func TestModeFollowsTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs := deployment("kubeflow", "nb", "x", upstream, 1)
		d := &deployments{}
		w := newTestWatcher(Auto, d)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		if got := w.Mode(); got != Own {
			t.Errorf("mode %q before anything was told, want own: nothing else runs", got)
		}
		go func() { done <- w.Start(ctx) }()
		synctest.Wait()
		told := w.events.(*events.FakeRecorder).Events
		for _, step := range []struct {
			name string
			list []appsv1.Deployment
			want string // what is recorded
			tell string // reason of the event
		}{
			{"Kubeflow's controller comes", []appsv1.Deployment{theirs}, "govern deployment kubeflow/nb is running", "NotebooksGoverned"},
			{"it goes", nil, "own", "NotebooksOwned"},
			{"it comes back", []appsv1.Deployment{theirs}, "govern deployment kubeflow/nb is running", "NotebooksGoverned"},
		} {
			d.list = step.list
			w.OnAdd(&theirs, false)
			synctest.Wait()
			if got := recorded(t, w); got != step.want || !strings.HasPrefix(step.want, string(w.Mode())) {
				t.Errorf("%s: recorded %q and mode %q, want %q", step.name, got, w.Mode(), step.want)
			}
			select {
			case <-w.changed:
			default:
				t.Errorf("%s: notebooks are not looked at again", step.name)
			}
			select {
			case e := <-told:
				if !strings.Contains(e, step.tell) {
					t.Errorf("%s: event %q, want %s", step.name, e, step.tell)
				}
			default:
				t.Errorf("%s: no event", step.name)
			}
		}
		// A change that means nothing: no write, no event.
		writes := len(w.client.(*fake.Clientset).Actions())
		w.OnUpdate(&theirs, &theirs)
		synctest.Wait()
		if n := len(w.client.(*fake.Clientset).Actions()); n != writes || len(told) != 0 {
			t.Errorf("%d requests and %d events when nothing has changed, want none", n-writes, len(told))
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestModeIsTheSetting(t *testing.T) {
	for _, tt := range []struct {
		setting string
		mode    Mode
		want    string
	}{
		{"own", Own, "own although deployment kubeflow/nb is running: both write the same objects"},
		{"govern", Govern, "govern deployment kubeflow/nb is running"},
		{"off", Off, "off deployment kubeflow/nb is running"},
	} {
		t.Run(tt.setting, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestWatcher(tt.setting, &deployments{list: []appsv1.Deployment{deployment("kubeflow", "nb", "x", upstream, 1)}})
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- w.Start(ctx) }()
				synctest.Wait()
				if got := recorded(t, w); got != tt.want || w.Mode() != tt.mode {
					t.Errorf("recorded %q and mode %q, want %q", got, w.Mode(), tt.want)
				}
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestModeIsRecordedOnceThatIsAllowed has the API server refuse the record at
// first, as one does that has not read this process's roles yet.
func TestModeIsRecordedOnceThatIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, tries := newTestWatcher(Auto, &deployments{}), 0
		w.client.(*fake.Clientset).PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			if tries++; tries < 4 {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, Name, errors.New("no role"))
			}
			return false, nil, nil
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Start(ctx) }()
		synctest.Wait()
		if got := recorded(t, w); got != "" || w.Mode() != Own {
			t.Errorf("recorded %q and mode %q, want own, and nothing yet", got, w.Mode())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := recorded(t, w); got != "own" || tries != 4 {
			t.Errorf("recorded %q after %d tries, want own after 4 and none after it", got, tries)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestModeWatcherThatCannotLookOwnsNothing(t *testing.T) {
	w := newTestWatcher(Auto, &deployments{err: errors.New("the cache has ended")})
	if got := w.Mode(); got != Off {
		t.Errorf("mode %q, want off", got)
	}
}

func TestModeWatcherMindsOnlyItsDeployments(t *testing.T) {
	w := newTestWatcher(Auto, &deployments{})
	other := deployment("default", "web", "nginx", "web", 3)
	w.OnAdd(&other, true)
	w.OnUpdate(&other, &other)
	w.OnDelete(&metav1.PartialObjectMetadata{})
	if len(w.look) != 0 {
		t.Error("a deployment that is no rival makes the watcher look again")
	}
}
