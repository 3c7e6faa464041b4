package labels_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// server plays an API server with one Node, n1, and events. Server-side apply is
// the API machinery's own.
type server struct {
	tb  testing.TB
	url string

	mu       sync.Mutex
	node     managedfieldstest.TestFieldManager
	version  int
	writes   int             // of the Node
	reads    int             // of the Node
	events   []v1.Event      // as created and patched
	posted   chan struct{}   // a value for each write of an event
	before   func(s *server) // called once before the next apply
	failures int             // answer so many requests with 500
}

func newServer(tb testing.TB) *server {
	s := &server{
		tb: tb, posted: make(chan struct{}, 1000), version: 1,
		node: managedfieldstest.NewTestFieldManager(managedfields.NewDeducedTypeConverter(), schema.GroupVersionKind{Version: "v1", Kind: "Node"}),
	}
	s.as("kubelet", func(labels, _ map[string]string) { labels["kubernetes.io/hostname"] = "n1" })
	h := httptest.NewServer(s)
	tb.Cleanup(h.Close)
	s.url = h.URL
	return s
}

func (s *server) client() corev1.CoreV1Interface {
	c, err := corev1.NewForConfig(&rest.Config{Host: s.url, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		s.tb.Fatal(err)
	}
	return c
}

// as lets another manager change labels and annotations by an update.
func (s *server) as(manager string, change func(labels, annotations map[string]string)) {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(manager, change)
}

func (s *server) change(manager string, change func(labels, annotations map[string]string)) {
	live := s.node.Live().(*unstructured.Unstructured)
	live.SetName("n1")
	labels, annotations := live.GetLabels(), live.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	change(labels, annotations)
	live.SetLabels(labels)
	live.SetAnnotations(annotations)
	if err := s.node.Update(live, manager); err != nil {
		s.tb.Errorf("update as %s: %v", manager, err)
	}
	s.version++
}

// get returns the Node.
func (s *server) get() *v1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read()
}

func (s *server) read() *v1.Node {
	var n v1.Node
	live := s.node.Live().(*unstructured.Unstructured)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &n); err != nil {
		s.tb.Error(err)
	}
	n.ManagedFields = s.node.ManagedFields()
	n.ResourceVersion = strconv.Itoa(s.version)
	return &n
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out any
	var err error
	switch path := strings.TrimPrefix(r.URL.Path, "/api/v1/"); {
	case s.failures > 0:
		s.failures--
		err = apierrors.NewInternalError(errors.New("etcd is away"))
	case path == "nodes/n1" && r.Method == http.MethodGet:
		s.reads++
		out = s.read()
	case path == "nodes/n1" && r.Method == http.MethodPatch:
		out, err = s.apply(r)
	case strings.HasSuffix(path, "/events") && r.Method == http.MethodPost:
		out, err = s.create(r)
	case strings.Contains(path, "/events/") && r.Method == http.MethodPatch:
		out, err = s.patch(r, path[strings.LastIndex(path, "/")+1:])
	default:
		err = apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, path)
	}
	w.Header().Set("Content-Type", "application/json")
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		w.WriteHeader(int(status.ErrStatus.Code))
		out = status.ErrStatus
	} else if err != nil {
		s.tb.Error(err)
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (s *server) apply(r *http.Request) (any, error) {
	if before := s.before; before != nil {
		s.before = nil
		before(s)
	}
	if got := r.Header.Get("Content-Type"); got != "application/apply-patch+yaml" {
		s.tb.Errorf("patch of the Node as %s", got)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var obj unstructured.Unstructured
	if err := obj.UnmarshalJSON(body); err != nil {
		return nil, err
	}
	if v := obj.GetResourceVersion(); v != "" && v != strconv.Itoa(s.version) {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n1", errors.New("the object has been modified"))
	}
	obj.SetResourceVersion("")
	q := r.URL.Query()
	if err := s.node.Apply(&obj, q.Get("fieldManager"), q.Get("force") == "true"); err != nil {
		return nil, err
	}
	s.version++
	s.writes++
	return s.read(), nil
}

func (s *server) create(r *http.Request) (any, error) {
	var e v1.Event
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		return nil, err
	}
	s.events = append(s.events, e)
	s.posted <- struct{}{}
	return e, nil
}

func (s *server) patch(r *http.Request, name string) (any, error) {
	for i := range s.events {
		if s.events[i].Name == name {
			err := json.NewDecoder(r.Body).Decode(&s.events[i])
			s.posted <- struct{}{}
			return s.events[i], err
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, name)
}
