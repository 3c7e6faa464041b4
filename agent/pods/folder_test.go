package pods_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/agent/pods"
)

// TestAKubeletThatHasJustStarted lists no pods, though their containers run: the
// folders tell, until the kubelet has removed them.
func TestAKubeletThatHasJustStarted(t *testing.T) {
	var list atomic.Pointer[v1.PodList]
	list.Store(&v1.PodList{Items: []v1.Pod{named("a", v1.PodRunning)}})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(list.Load())
	}))
	defer h.Close()
	dir := t.TempDir()
	folder := filepath.Join(dir, "uid-a")
	if err := os.Mkdir(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	k := pods.FromKubelet(pods.KubeletOptions{URL: h.URL, Dir: dir})
	ctx := context.Background()
	if got, err := k.Pods(ctx, true); names(got) != "a uid-a Running" || err != nil {
		t.Errorf("a pod that is listed: %s, %v", names(got), err)
	}
	list.Store(&v1.PodList{})
	got, err := k.Pods(ctx, true)
	if err != nil || len(got) != 1 || got[0].UID != "uid-a" || got[0].Name != "" {
		t.Errorf("a pod that only has a folder: %v, %v", got, err)
	}
	if p, err := k.Pod(ctx, "uid-a", true); p != nil || err == nil || !strings.Contains(err.Error(), "does not list it") {
		t.Errorf("the same by name: %v, %v", p, err)
	}
	<-k.Changed()
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Pods(ctx, true); len(got) != 0 || err != nil {
		t.Errorf("a pod whose folder is gone: %v, %v", got, err)
	}
	if len(k.Changed()) != 1 {
		t.Error("that it is gone is not told")
	}
}
