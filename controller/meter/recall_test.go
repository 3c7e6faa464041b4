package meter

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"berth.dev/berth/api"
	"berth.dev/berth/controller/proxy"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/usage"
	"berth.dev/berth/kube/record"
)

// agentPod is the pod of a node agent.
func agentPod(node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: api.MetricsNamespace, Name: "agent-" + node, Labels: map[string]string{"app": "berth-agent"},
			Annotations: map[string]string{api.AnnotationScrapeScheme: "https"},
		},
		Spec:   v1.PodSpec{NodeName: node, ServiceAccountName: api.AgentAccount},
		Status: v1.PodStatus{Phase: v1.PodRunning},
	}
}

// TestPodsThatCameAndWentUnseen has a meter away for an hour. One pod that it knew is deleted in that time, one comes and goes, and one
// is of a node whose agent gives nothing. The other agent answers when it has started: what agents have recorded is charged to the minute.
func TestPodsThatCameAndWentUnseen(t *testing.T) {
	r := newRig(t)
	nodes := []*v1.Node{aNode("n", 2, 0), aNode("silent", 1, 0), aNode("far", 1, 0)}
	nodes[0].CreationTimestamp.Time = at(-60) // before the book began
	for _, n := range nodes {
		r.node(n)
	}
	r.pod(aPod("known", "n", 1, 0))
	r.pod(aPod("lost", "silent", 1, 0))
	r.flush()
	short, ended := aPod("short", "n", 1, 20), finished(aPod("done", "n", 1, 36), 51)
	foreign := aPod("foreign", "silent", 1, 20) // a node cannot speak for another
	early := aPod("early", "n", 1, -20)         // it was gone before the book began
	lines := record.WriteNow(at(60))
	for _, g := range []record.Gone{{At: at(-5), Pod: early}, {At: at(15), Pod: aPod("known", "n", 1, 0)}, {At: at(35), Pod: short}, {At: at(55), Pod: ended}, {At: at(30), Pod: foreign}} {
		g.Pod = record.Slim(g.Pod)
		line, err := record.Write(g)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line...)
	}
	asked := make(chan string, 9)
	var starting atomic.Int32
	starting.Store(2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked <- q.URL.RequestURI() + " " + q.Header.Get(api.MetricsTokenHeader)
		switch {
		case strings.Contains(q.URL.Path, "agent-silent:"):
			http.Error(w, "no right", http.StatusForbidden)
			return
		case starting.Add(-1) >= 0:
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		case !strings.Contains(q.URL.Path, "agent-n:"):
			t.Errorf("asked is %s", q.URL.Path)
		}
		_, _ = w.Write(lines)
	}))
	defer server.Close()
	gauges := &proxy.Gauges{
		Client: server.Client(), Root: server.URL + "/namespaces/", Now: time.Now, Longest: time.Minute,
		Pods:  fake.NewClientBuilder().WithObjects(agentPod("n"), agentPod("silent")).Build(),
		Token: func(context.Context) (string, error) { return "token", nil },
	}
	r.clock = at(60)
	r.start()
	for _, n := range nodes {
		r.node(n)
	}
	m := &Meter{book: r.book, tally: r.tally}
	m.recall(t.Context(), gauges)
	m.recall(t.Context(), gauges) // asked again, it is the same
	r.missed()
	sources := map[string]usage.Source{}
	for _, h := range r.batch.Holds {
		sources[h.Key] = h.End.Source
	}
	var trail []string
	for _, a := range r.batch.Records {
		if a.Subject == "uid-short" {
			trail = append(trail, a.At.Format("15:04 ")+string(a.Act))
		}
	}
	r.flush()
	if got, want := <-asked, "record?since=2026-11-02T08%3A59%3A30Z token"; !strings.HasSuffix(got, want) {
		t.Errorf("asked is %s, want ...%s", got, want)
	}
	r.want(cost.Workload, "vision/Pod/done=0.25h $0.25, vision/Pod/known=0.25h $0.25, vision/Pod/short=0.25h $0.25, idle=3.25h $3.25")
	r.want(cost.User, "ann=0.75h $0.75, idle=3.25h $3.25")
	want := map[string]usage.Source{"uid-known": usage.Recorded, "uid-short": usage.Recorded, "uid-done": usage.Stated, "uid-lost": usage.LastSeen}
	if !maps.Equal(sources, want) {
		t.Errorf("ends are known by %v, want %v", sources, want)
	}
	if got := strings.Join(slices.Compact(trail), ", "); !strings.HasSuffix(got, "09:20 granted, 09:35 released") {
		t.Errorf("the audit trail has %s", got)
	}
}
