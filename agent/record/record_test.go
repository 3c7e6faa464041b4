package record

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	format "berth.dev/berth/kube/record"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func pod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name, UID: types.UID("uid-" + name)}}
}

// names lists the pods that lines have, in their order.
func names(lines []byte) string {
	var out []string
	gone, _ := format.Read(lines)
	for _, g := range gone {
		out = append(out, g.Pod.Name+" "+g.At.Format("15:04"))
	}
	return strings.Join(out, ", ")
}

func TestARecordIsThereAfterARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "record")
	for i, name := range []string{"a", "b", "c"} {
		r, err := Open(dir, nil) // an agent that starts again
		if err != nil {
			t.Fatal(err)
		}
		r.Gone(pod(name), noon.Add(time.Duration(i)*time.Hour))
	}
	r, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for since, want := range map[time.Time]string{{}: "a 12:00, b 13:00, c 14:00", noon.Add(time.Hour): "b 13:00, c 14:00", noon.Add(9 * time.Hour): ""} {
		if got, err := r.Since(since); names(got) != want || err != nil {
			t.Errorf("since %v: %s, %v; want %s", since, names(got), err, want)
		}
	}
}

// TestALineThatWasCutOff is what a node leaves that lost power while it wrote: it costs that line.
func TestALineThatWasCutOff(t *testing.T) {
	dir := t.TempDir()
	r, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Gone(pod("a"), noon)
	path := filepath.Join(dir, file)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(raw, raw[:len(raw)/2]...), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Gone(pod("b"), noon)
	if got, err := r.Since(time.Time{}); names(got) != "a 12:00, b 12:00" || err != nil {
		t.Errorf("the record has %s, %v", names(got), err)
	}
}

func TestARecordDoesNotGrowWithoutEnd(t *testing.T) {
	dir := t.TempDir()
	r, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	full := pod("early")
	full.Annotations = map[string]string{"berth.dev/text": strings.Repeat("x", most)}
	for _, p := range []*v1.Pod{full, pod("middle"), full, pod("late")} {
		r.Gone(p, noon)
	}
	got, err := r.Since(noon)
	if names(got) != "middle 12:00, early 12:00, late 12:00" || err != nil {
		t.Errorf("the record has %s, %v; want the two newest files", names(got), err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("the folder has %v, %v", list, err)
	}
}

func TestARecordIsServed(t *testing.T) {
	r, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Gone(pod("a"), noon)
	for query, want := range map[string]struct {
		status int
		names  string
	}{
		"":                            {http.StatusOK, "a 12:00"},
		"?since=2026-11-28T12:00:00Z": {http.StatusOK, "a 12:00"},
		"?since=2026-11-28T13:00:00Z": {http.StatusOK, ""},
		"?since=noon":                 {http.StatusBadRequest, ""},
	} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, format.Path+query, nil))
		if _, now := format.Read(w.Body.Bytes()); now.IsZero() == (want.status == http.StatusOK) {
			t.Errorf("%s: it is %v there", query, now)
		}
		if w.Code != want.status || names(w.Body.Bytes()) != want.names {
			t.Errorf("%s: status %d, %s; want %d, %s", query, w.Code, names(w.Body.Bytes()), want.status, want.names)
		}
	}
}

func TestAFolderThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, nil); err == nil || !strings.Contains(err.Error(), "keep a record of pods that are gone") {
		t.Errorf("the error is %v", err)
	}
}
