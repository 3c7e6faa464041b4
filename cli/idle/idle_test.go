package idle

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/cli/client"
	core "berth.dev/berth/core/cost"
	"berth.dev/berth/test/screen"
)

var now = time.Date(2026, 11, 24, 15, 4, 5, 0, time.UTC)

// idlers are a notebook with a whole GPU, and a pod with a share of one and a name that would act on a terminal.
var idlers = []core.IdleRow{
	{Namespace: "vision", Pod: "quiet-0", Kind: "Notebook", Owner: "quiet", User: "ann", Node: "a100-1", GPUs: 1, Since: now.Add(-5*time.Hour - 10*time.Minute), CostMicros: 51_670_000, CostMicrosAnHour: 10_000_000, Currency: "USD"},
	{Namespace: "speech", Pod: "evil\x1b[2J\nname", Node: "t4-1", GPUs: 0.25, Since: now.Add(-time.Minute), Shared: true},
}

func TestTheTable(t *testing.T) {
	var out bytes.Buffer
	c := &command{o: client.Options{Out: &out, Err: &out}}
	limit := 4.0
	if err := c.print(&out, []idleRow{{IdleRow: idlers[0], CPU: &cpu{Cores: 3.9, Limit: &limit}}, {IdleRow: idlers[1]}}, now); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		`NAMESPACE  WORKLOAD               USER  GPUS  NODE    IDLE   CPU                      COST       PER HOUR`,
		`vision     Notebook/quiet         ann   1     a100-1  5h10m  3.9 of 4 (at its limit)  51.67 USD  10.00 USD`,
		`speech     Pod/evil\x1b[2J\nname  -     0.25  t4-1    60s *  -                        unpriced   unpriced`,
		`* device-level: other pods use the same GPUs, and it is not known what each of them does`,
	}, "\n")
	if got := strings.TrimSpace(out.String()); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
}

func TestTheTableOnScreens(t *testing.T) {
	limit := 4.0
	rows := []idleRow{{IdleRow: idlers[0], CPU: &cpu{Cores: 3.9, Limit: &limit}}, {IdleRow: idlers[1]}}
	screen.File(t, "screens.txt", func(w io.Writer) {
		c := &command{o: client.Options{Out: w, Err: w}}
		if err := c.print(w, rows, now); err != nil {
			t.Fatal(err)
		}
	}, "*")
}

func TestTheWebhookIsToldInWordsAndInRows(t *testing.T) {
	var got struct {
		Text    string
		Holders []core.IdleRow
	}
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	r := &core.IdleReport{Now: now, Rows: idlers[:1]}
	if err := post(t.Context(), server.URL, r); err != nil {
		t.Fatal(err)
	}
	want := "Notebook/quiet of namespace vision holds 1 GPU of node a100-1 and has used next to nothing of that since 2026-11-24 09:54 UTC, which has cost 51.67 USD so far; stop it if it does not need GPUs"
	if got.Text != want || len(got.Holders) != 1 || got.Holders[0] != idlers[0] {
		t.Errorf("the webhook got %+v, want %s", got, want)
	}
	status = http.StatusForbidden
	if err := post(t.Context(), server.URL, r); err == nil || !strings.Contains(err.Error(), "it responds with status 403") {
		t.Errorf("a webhook that refuses is %v", err)
	}
}
