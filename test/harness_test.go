package test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestAQuestionWaitsForAWriteThatIsNoLease(t *testing.T) {
	w := &writes{more: make(chan struct{})}
	put := func(keys ...string) *clientv3.WatchResponse {
		r := &clientv3.WatchResponse{}
		for _, key := range keys {
			r.Events = append(r.Events, &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte(key)}})
		}
		return r
	}
	w.saw(&clientv3.WatchResponse{Created: true})
	seen := w.number()
	w.saw(put("/registry/leases/kube-node-lease/n1", "/registry/peerserverleases/a"))
	if w.after(seen, 0) {
		t.Error("a lease that is renewed counts as a write")
	}
	w.saw(put("/registry/leases/kube-node-lease/n1", "/registry/pods/default/p"))
	if !w.after(seen, 0) {
		t.Error("a write before the question waits does not count")
	}
	seen = w.number()
	go w.saw(put("/registry/events/default/e"))
	if !w.after(seen, patience) {
		t.Error("a question is not woken by a write")
	}
}

func TestOnlyObjectsAreAskedAboutWhenSomethingIsWritten(t *testing.T) {
	for line, want := range map[string]bool{
		"kubectl get pods -n team":    true,
		"kubectl get --raw /metrics":  false,
		"kubectl logs p":              false,
		"kubectl":                     false,
		"berth query up":              false,
		"cat get":                     false,
		"kubectl get events -o name ": true,
	} {
		if got := readsObjects(strings.Fields(line)); got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}

func TestACopyHasTheBytesOfItsFolder(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "deep", "copy")
	want := append(append(bytes.Repeat([]byte("a"), 100_000), make([]byte, 1<<20)...), "end"...)
	for name, data := range map[string][]byte{"etcd/member/wal": want, "etcd/zeros": make([]byte, 200_000), "state.json": []byte("{}"), "empty": nil} {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyFolder(from, to); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etcd/member/wal", "etcd/zeros", "state.json", "empty"} {
		was, _ := os.ReadFile(filepath.Join(from, name))
		is, err := os.ReadFile(filepath.Join(to, name))
		if err != nil || !bytes.Equal(was, is) {
			t.Errorf("%s: %v, %d bytes, want those %d", name, err, len(is), len(was))
		}
	}
	if err := copyFolder(from, to); err == nil {
		t.Error("a folder that is there was copied over")
	}
}

// Just before midnight, what is said of the next hours has a day before it.
func TestScriptsTakeAClockWithADay(t *testing.T) {
	scripts, err := filepath.Glob("script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	clock := regexp.MustCompile(`(\[0-9:\]\+|\\d\\d:\\d\\d) UTC`)
	day := `(\d{4}-\d\d-\d\d )?`
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, at := range clock.FindAllStringIndex(line, -1) {
				if !strings.HasSuffix(line[:at[0]], day) {
					t.Errorf("%s:%d: a time in UTC without %s before it, which is there when that is another day", path, i+1, day)
				}
			}
		}
	}
}
