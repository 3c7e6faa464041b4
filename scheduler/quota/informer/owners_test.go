package informer

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
)

// metadataServer is an API server with a Job "train" of user ann in namespace vision. Its watch of Jobs
// has begun from when it is opened, and lacks the Job if it is late.
type metadataServer struct {
	late bool
	open chan struct{}

	mu   sync.Mutex
	gets []string // paths of objects that were asked for
}

func (s *metadataServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	say := func(value any) { _ = json.NewEncoder(w).Encode(value) }
	job := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "train", UID: "owner", ResourceVersion: "5", Annotations: map[string]string{api.AnnotationUser: "ann"}},
	}
	switch query := r.URL.Query(); {
	case strings.Contains(r.URL.Path, "/namespaces/"):
		s.mu.Lock()
		s.gets = append(s.gets, r.URL.Path)
		s.mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/jobs/train") {
			say(job)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		say(&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
	case query.Get("sendInitialEvents") == "true":
		select {
		case <-s.open:
		case <-r.Context().Done():
			return
		}
		if !s.late {
			say(map[string]any{"type": "ADDED", "object": job})
		}
		end := job.DeepCopy()
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		say(map[string]any{"type": "BOOKMARK", "object": end})
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// readOwners are owners of an API server, and a channel that tells when a kind has been read.
func readOwners(t *testing.T, s *metadataServer) (*owners, <-chan struct{}) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	read := make(chan struct{}, 1)
	o, err := newOwners(t.Context(), &rest.Config{Host: server.URL}, func() { read <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	return o, read
}

// madeFor is a pod that the Job controller has made for a Job.
func madeFor(name, uid string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "vision", Name: name + "-0", Annotations: map[string]string{api.AnnotationUser: "system:serviceaccount:kube-system:job-controller", api.AnnotationUserOf: uid},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: types.UID(uid)}},
	}}
}

func TestTheUserOfAPodIsKnownBeforeItsOwnerIsWatched(t *testing.T) {
	for name, late := range map[string]bool{"the watch of its kind has not begun": false, "the watch of its kind lags": true} {
		t.Run(name, func(t *testing.T) {
			s := &metadataServer{open: make(chan struct{}), late: late}
			o, read := readOwners(t, s)
			pod := madeFor("train", "owner")
			if late {
				request.UserOf(pod, o.of) // the watch begins
				close(s.open)
				<-read
			}
			if got := request.UserOf(pod, o.of); got != "-" {
				t.Errorf("by what is watched the user is %q", got)
			}
			for range 3 {
				if got := request.UserOf(pod, o.find); got != "ann" {
					t.Errorf("of a pod that asks for quota the user is %q, want that of the Job", got)
				}
			}
			if got := request.UserOf(pod, o.of); got != "ann" {
				t.Errorf("when it is counted then the user is %q, want the same", got)
			}
			if len(s.gets) != 1 {
				t.Errorf("the API server is asked for %q, want once", s.gets)
			}
			if !late {
				close(s.open)
				select {
				case <-read:
				case <-time.After(time.Minute):
					t.Fatal("the Jobs are not read")
				}
				if got := request.UserOf(pod, o.of); got != "ann" || len(o.asked) > 0 {
					t.Errorf("by what is watched the user is %q, and %d answers are kept", got, len(o.asked))
				}
			}
		})
	}
}

func TestAnOwnerThatIsNotThereIsAskedForOnceInAWhile(t *testing.T) {
	s := &metadataServer{open: make(chan struct{})}
	o, _ := readOwners(t, s)
	for range 3 {
		if got := request.UserOf(madeFor("gone", "gone"), o.find); got != "-" {
			t.Errorf("the user is %q, want that none is known", got)
		}
		// Another object of the same name is not the owner.
		if got := request.UserOf(madeFor("train", "earlier"), o.find); got != "-" {
			t.Errorf("the user of a pod of an earlier Job is %q", got)
		}
	}
	if len(s.gets) != 2 {
		t.Errorf("the API server is asked for %q, want once for each", s.gets)
	}
}
