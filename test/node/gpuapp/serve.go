package main

import (
	"encoding/json"
	"net/http"
	"os"
	"time"
)

// serveJupyter answers what Jupyter's server tells of itself, for a notebook in which
// nothing has happened since it was started: one kernel, idle, and no terminal.
// Source: jupyter_server's REST API, as its openapi document has it.
func serveJupyter(address string) error {
	started := time.Now().UTC().Format(time.RFC3339Nano)
	mux := http.NewServeMux()
	for path, answer := range map[string]any{
		"/api/kernels": []any{map[string]any{
			"id": "1", "name": "python3", "execution_state": "idle", "last_activity": started, "connections": 0,
		}},
		"/api/terminals": []any{},
		"/api/status":    map[string]any{"started": started, "last_activity": started, "connections": 0, "kernels": 1},
	} {
		mux.HandleFunc("GET "+os.Getenv("NB_PREFIX")+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer) // an error is the client's, who is gone
		})
	}
	return http.ListenAndServe(address, mux) //nolint:gosec // in a test's own network
}

// serveFile answers /metrics with what a file holds at that moment.
func serveFile(path, address string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		text, err := os.ReadFile(path)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(text) // as above
	})
	return http.ListenAndServe(address, mux) //nolint:gosec // as above
}
