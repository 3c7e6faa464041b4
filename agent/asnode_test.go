package agent

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// reader is an API server that lets some names read, and the requests it had.
type reader struct {
	mu       sync.Mutex
	may      string // names, separated by spaces: "node", "itself"
	requests []string
}

func (s *reader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	who := "itself"
	if r.Header.Get("Impersonate-User") == "system:node:n1" {
		who = "node"
	}
	s.requests = append(s.requests, r.Method+" "+who)
	if r.Method == http.MethodGet && !slices.Contains(strings.Fields(s.may), who) {
		http.Error(w, who+" may not", http.StatusForbidden)
	}
}

func TestAnAgentReadsAsItsNodeWhereItMay(t *testing.T) {
	s := &reader{}
	server := httptest.NewServer(s)
	defer server.Close()
	var log strings.Builder
	client := &http.Client{Transport: &asNode{node: "n1", next: http.DefaultTransport, log: slog.New(slog.NewTextHandler(&log, nil))}}
	for _, c := range []struct {
		name, may, method string
		want              string // requests
		code              int
		says              string // in the log
	}{
		{"as its node", "node", "GET", "GET node", 200, ""},
		{"it writes as itself", "node", "PATCH", "PATCH itself", 200, ""},
		{"a server that grants both sees the node", "node itself", "GET", "GET node", 200, ""},
		{"neither may", "", "GET", "GET node,GET itself", 403, "also deploy/agent-older.yaml"},
		{"neither may, which is said once", "", "GET", "GET node,GET itself", 403, ""},
		{"an older server", "itself", "GET", "GET node,GET itself", 200, "so it reads as itself"},
		{"an older server is remembered", "itself", "GET", "GET itself", 200, ""},
		{"the server is upgraded, and the wider rights are taken away", "node", "GET", "GET itself,GET node", 200, "so it sees only its own pods"},
		{"which is remembered, too", "node itself", "GET", "GET node", 200, ""},
		{"neither may any more", "", "GET", "GET node,GET itself", 403, "also deploy/agent-older.yaml"},
	} {
		s.mu.Lock()
		s.may, s.requests = c.may, nil
		s.mu.Unlock()
		log.Reset()
		req, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+"/api/v1/pods", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := strings.Join(s.requests, ","); got != c.want || resp.StatusCode != c.code {
			t.Errorf("%s: %s is answered with %d, want %s with %d", c.name, got, resp.StatusCode, c.want, c.code)
		}
		if (c.says == "") != (log.Len() == 0) || !strings.Contains(log.String(), c.says) {
			t.Errorf("%s: the log says %q, want %q", c.name, log.String(), c.says)
		}
		if req.Header.Get("Impersonate-User") != "" {
			t.Errorf("%s: the caller's request was changed", c.name)
		}
	}
}
