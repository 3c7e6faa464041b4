package kubelet

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Jupyter is what a simulated Jupyter server reports about its one kernel.
type Jupyter struct {
	Busy     bool
	Activity time.Time // when the kernel last began or ended to work; else its start
	Terminal bool      // there is a terminal, which was last used at Activity
}

// jupyterServer is the header by which every answer says what it is.
const jupyterServer = "Berth: a simulated Jupyter server; nothing runs here"

// jupyterTime is how Jupyter writes times.
const jupyterTime = "2006-01-02T15:04:05.000000Z07:00"

// jupyterHandler answers what asks a Jupyter server for its kernels, as it is at
// each request, and everything else with the page that says what this is. The
// answers have the fields of jupyter_server's REST API, and one more that says
// that they are simulated.
func (s *Server) jupyterHandler(c Container, port int) http.Handler {
	page, prefix := pageHandler(c, port), notebookPrefix(c.Env)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", jupyterServer)
		what, ok := strings.CutPrefix(r.URL.Path, prefix+"/api")
		if !ok {
			page.ServeHTTP(w, r)
			return
		}
		for _, is := range s.rt.Containers(c.Node, c.Namespace, c.Pod) {
			if is.UID == c.UID && is.Name == c.Name && is.Jupyter != nil {
				answerJupyter(w, what, is)
				return
			}
		}
		http.Error(w, "the container has ended", http.StatusServiceUnavailable)
	})
}

// answerJupyter answers one request for what is below /api.
func answerJupyter(w http.ResponseWriter, what string, c Container) {
	at := c.Jupyter.Activity.UTC().Format(jupyterTime)
	state := "idle"
	if c.Jupyter.Busy {
		state = "busy"
	}
	var answer any
	switch strings.TrimSuffix(what, "/") {
	case "":
		answer = map[string]any{"version": "2.0.0", "simulated": true}
	case "/kernels":
		answer = []map[string]any{{
			"id": c.UID, "name": "python3", "last_activity": at, "execution_state": state, "connections": 0, "simulated": true,
		}}
	case "/terminals":
		answer = []any{}
		if c.Jupyter.Terminal {
			answer = []map[string]any{{"name": "1", "last_activity": at, "simulated": true}}
		}
	case "/sessions":
		answer = []any{}
	case "/status":
		answer = map[string]any{
			"started": c.StartedAt.UTC().Format(jupyterTime), "last_activity": at, "connections": 0, "kernels": 1, "simulated": true,
		}
	default:
		http.Error(w, `{"message": "this Jupyter server is simulated: it has kernels, terminals and status only"}`, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client may have gone
}

// notebookPrefix is the path below which a notebook's server is told to answer.
func notebookPrefix(env []string) string {
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "NB_PREFIX="); ok {
			return strings.TrimSuffix(value, "/")
		}
	}
	return ""
}
