package controlplane

import (
	"os"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"

	"berth.dev/berth/internal/datadir"
)

// A machine that stands still for some seconds must not have the store refuse what it
// would have done: "etcdserver: request timed out".
func TestTheStoreIsAsPatientAsTheAPIServer(t *testing.T) {
	dir := datadir.Dir(t.TempDir())
	if err := os.Mkdir(dir.Join("log"), 0o700); err != nil {
		t.Fatal(err)
	}
	socks, remove, err := sockets(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	e, _, err := startStore(t.Context(), dir, socks)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(e)
	if got := e.Server.Cfg.ReqTimeout(); got != time.Minute {
		t.Errorf("a request is refused after %v, want after a minute as by the API server", got)
	}
	client := v3client.New(e.Server)
	if _, err := client.Put(t.Context(), "k", "v"); err != nil {
		t.Errorf("write to the store: %v", err)
	}
	got, err := client.Get(t.Context(), "k")
	if err != nil || got.Count != 1 {
		t.Errorf("read from the store: %v, %v", got, err)
	}
}
