package kubelet_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/fleet/kubelet"
)

func TestASimulatedJupyterTellsOfItsKernel(t *testing.T) {
	c := pod("a-0")
	c.Ports, c.Env = []int{8888}, []string{"HOME=/home/jovyan", "NB_PREFIX=/notebook/default/a"}
	c.Jupyter = &kubelet.Jupyter{Activity: epoch.Add(-time.Hour)}
	rt := &fakeRuntime{cs: []kubelet.Container{c}}
	h := kubelet.New(rt, fixed).PodHandler(node, "default", "a-0", 8888)
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if !strings.Contains(w.Header().Get("Server"), "simulated") {
			t.Errorf("GET %s does not say that it is simulated", path)
		}
		return w
	}
	kernels := func() (state string, at time.Time) {
		var got []struct {
			State    string    `json:"execution_state"` //nolint:tagliatelle // Jupyter's
			Activity time.Time `json:"last_activity"`   //nolint:tagliatelle // Jupyter's
		}
		if err := json.Unmarshal(get("/notebook/default/a/api/kernels").Body.Bytes(), &got); err != nil || len(got) != 1 {
			t.Fatalf("kernels are %v, %v; want one", got, err)
		}
		return got[0].State, got[0].Activity
	}
	if state, at := kernels(); state != "idle" || !at.Equal(epoch.Add(-time.Hour)) {
		t.Errorf("the kernel is %s since %s, want idle for an hour", state, at)
	}
	// The same connection sees what changes.
	c.Jupyter = &kubelet.Jupyter{Busy: true, Activity: epoch}
	rt.set(c)
	if state, _ := kernels(); state != "busy" {
		t.Errorf("the kernel is %s, want busy", state)
	}
	if got := get("/notebook/default/a/api/terminals").Body.String(); strings.TrimSpace(got) != "[]" {
		t.Errorf("terminals are %s, want none", got)
	}
	if got := get("/notebook/default/a/api/status").Body.String(); !strings.Contains(got, `"kernels":1`) {
		t.Errorf("status is %s, want one kernel", got)
	}
	if w := get("/notebook/default/a/api/contents"); w.Code != http.StatusNotFound {
		t.Errorf("what is not played answers %d, want 404", w.Code)
	}
	if got := get("/notebook/default/a/lab").Body.String(); !strings.Contains(got, "simulated by Berth") {
		t.Errorf("other pages say %q", got)
	}
	rt.set()
	if w := get("/notebook/default/a/api/kernels"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("a container that has ended answers %d", w.Code)
	}
}
