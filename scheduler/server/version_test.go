package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"
	cliflag "k8s.io/component-base/cli/flag"
	basecompatibility "k8s.io/component-base/compatibility"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"

	"berth.dev/berth/internal/buildinfo"
	"berth.dev/berth/scheduler/server/leader"
	"berth.dev/berth/scheduler/server/report"
)

func TestTheVersionOfAnAPIServer(t *testing.T) {
	for _, tt := range []struct {
		name string
		info apiversion.Info
		want string
	}{
		{"its own where it emulates none", apiversion.Info{Major: "1", Minor: "34", GitVersion: "v1.34.4"}, "1.34"},
		{"the one that it emulates", apiversion.Info{Major: "1", Minor: "36", EmulationMajor: "1", EmulationMinor: "33"}, "1.33"},
		{"a managed cluster's, with a sign", apiversion.Info{Major: "1", Minor: "35+", GitVersion: "v1.35.2-gke.1"}, "1.35"},
		{"from gitVersion alone", apiversion.Info{GitVersion: "v1.33.1+k3s1"}, "1.33"},
		{"a newer one is no error", apiversion.Info{Major: "1", Minor: "40"}, "1.40"},
		{"the oldest that is supported", apiversion.Info{Major: "1", Minor: "33"}, "1.33"},
		{"one older is refused by name", apiversion.Info{Major: "1", Minor: "32", GitVersion: "v1.32.9"}, "Kubernetes 1.32 at HOST is older than the scheduler supports: it needs 1.33 or newer; upgrade the cluster, or use an older version of Berth"},
		{"also where it emulates it", apiversion.Info{Major: "1", Minor: "34", EmulationMajor: "1", EmulationMinor: "31"}, "Kubernetes 1.31 at HOST is older than the scheduler supports: it needs 1.33 or newer; upgrade the cluster, or use an older version of Berth"},
		{"an answer without a version is an error", apiversion.Info{}, `version of HOST: major "", minor "", gitVersion "" name no version of Kubernetes`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := []string{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.Method+" "+r.URL.Path)
				_ = json.NewEncoder(w).Encode(tt.info)
			}))
			defer server.Close()
			client := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
			got, err := serverVersion(t.Context(), client.Discovery().RESTClient(), server.URL)
			if err != nil {
				got = strings.ReplaceAll(err.Error(), server.URL, "HOST")
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if len(asked) != 1 || asked[0] != "GET /version" {
				t.Errorf("it asked %v, want GET /version alone", asked)
			}
		})
	}
}

// TestASchedulerRefusesAnOldAPIServerAndWritesNothing runs the whole scheduler.
func TestASchedulerRefusesAnOldAPIServerAndWritesNothing(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Method+" "+r.URL.Path)
		_ = json.NewEncoder(w).Encode(apiversion.Info{Major: "1", Minor: "32"})
	}))
	defer server.Close()
	err := Run(t.Context(), Options{Kubeconfig: kubeconfigFor(t, server.URL), Names: []string{"berth-scheduler"}, Policies: true})
	if !errors.Is(err, errTooOld) {
		t.Errorf("Run() = %v, want errTooOld", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 1 || asked[0] != "GET /version" {
		t.Errorf("it asked %v, want GET /version alone", asked)
	}
}

// The versions that Berth says it supports are those that Kubernetes' code emulates.
func TestEverySupportedVersionCanBeEmulated(t *testing.T) {
	for _, minor := range buildinfo.KubernetesMinors() {
		own := compatibility.DefaultComponentGlobalsRegistry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent)
		if allowed := own.AllowedEmulationVersionRange(); !strings.HasPrefix(allowed, buildinfo.KubernetesMinors()[0]+"..") {
			t.Errorf("Kubernetes' code emulates %s, and Berth says %s is the oldest", allowed, buildinfo.KubernetesMinors()[0])
		}
		if !strings.HasPrefix(buildinfo.Kubernetes, "v"+minor+".") && minor == buildinfo.KubernetesMinors()[3] {
			t.Errorf("the newest version is %s, and the control plane is %s", minor, buildinfo.Kubernetes)
		}
	}
}

// TestAnOlderAPIServerIsEmulated has the scheduler take the version of an older API
// server for its own, so it lists and writes only what there is; and its own for the newest.
func TestAnOlderAPIServerIsEmulated(t *testing.T) {
	minors := buildinfo.KubernetesMinors()
	for _, served := range minors {
		registry := basecompatibility.NewComponentGlobalsRegistry()
		if err := registry.Register(basecompatibility.DefaultKubeComponent, compatibility.DefaultBuildEffectiveVersion(), nil); err != nil {
			t.Fatal(err)
		}
		opts := &options.Options{ComponentGlobalsRegistry: registry, Flags: &cliflag.NamedFlagSets{}}
		registry.AddFlags(opts.Flags.FlagSet("feature gate"))
		if err := emulate(opts, served); err != nil {
			t.Fatal(err)
		}
		if got := registry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent).EmulationVersion().String(); got != served {
			t.Errorf("with an API server %s the scheduler is as of %s", served, got)
		}
	}
}

// TestAListThatIsNotServedEndsTheScheduler has informers watch what an API server
// does not have: they would ask for ever.
func TestAListThatIsNotServedEndsTheScheduler(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "resource.k8s.io") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&v1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}})
	}))
	defer server.Close()
	reads := &lists{}
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL, WrapTransport: reads.wrap})
	config := schedulerconfig.Config{
		InformerFactory:    informers.NewSharedInformerFactory(client, 0),
		DynInformerFactory: dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamicfake.NewSimpleDynamicClient(scheme.Scheme), 0, metav1.NamespaceAll, nil),
		EventBroadcaster:   report.NewEventWriter(noAdapter{}, fake.NewClientset().EventsV1()),
	}
	config.InformerFactory.Resource().V1().DeviceClasses().Informer()
	cc := config.Complete()
	guarded := false
	p := &process{
		cc: &cc, sched: &scheduler.Scheduler{}, gate: leader.NewGate(), synced: make(chan struct{}), failed: make(chan error, 1),
		stuck: func(context.Context) {}, reads: reads, guard: func(context.Context) error { guarded = true; return nil },
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := p.run(ctx, ctx, nil)
	want := "the API server does not serve deviceclasses of resource.k8s.io/v1, which the scheduler watches: have it serve that (kube-apiserver's --runtime-config), or upgrade the cluster"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if guarded {
		t.Error("it changed the admission policies of a cluster that it cannot serve")
	}
}

func TestOnlyAListThatIsNotThereIsNoted(t *testing.T) {
	answers := map[string]int{
		"/api/v1/pods?watch=true":                          http.StatusOK,
		"/apis/resource.k8s.io/v1/resourceclaims?limit=5":  http.StatusServiceUnavailable,
		"/api/v1/namespaces/default/pods/gone":             http.StatusNotFound, // one object, not a list
		"/apis/storage.k8s.io/v1/csinodes?watch=true":      http.StatusForbidden,
		"/apis/scheduling.k8s.io/v1/namespaces/a/podgroup": http.StatusNotFound,
	}
	var told []string
	l := &lists{}
	trip := l.wrap(answer(answers))
	l.told(func(err error) { told = append(told, err.Error()) })
	for path := range answers {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := trip.RoundTrip(req); err != nil { //nolint:bodyclose // it has none
			t.Fatal(err)
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], "podgroup of scheduling.k8s.io/v1") {
		t.Errorf("told %q, want the one list that is not there", told)
	}
}

// answer is a server that answers each path with a status.
type answer map[string]int

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) {
	code, ok := a[r.URL.RequestURI()]
	if !ok {
		return nil, fmt.Errorf("nothing is known about %s", r.URL)
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

// kubeconfigFor is the path of a kubeconfig for the API server at url.
func kubeconfigFor(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientapi.Config{
		Clusters:       map[string]*clientapi.Cluster{"c": {Server: url}},
		Contexts:       map[string]*clientapi.Context{"c": {Cluster: "c"}},
		CurrentContext: "c",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
