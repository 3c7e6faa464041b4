package kubelet

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
)

// transformerHandler answers as a transformer that changes nothing: it passes requests on to the model that it calls, and its answers back, with
// a header that says so.
func (s *Server) transformerHandler(c Container) http.Handler {
	m := c.Model
	host, port, _ := strings.Cut(m.Calls, ":")
	name, rest, _ := strings.Cut(host, ".")
	namespace, _, _ := strings.Cut(rest, ".")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Via", "1.1 "+c.Pod+" (Berth: a simulated transformer, which changes nothing)")
		var model http.Handler
		if s.Service != nil {
			model = s.Service(cmp.Or(namespace, c.Namespace), name, cmp.Or(port, "80"))
		}
		if model == nil {
			body, status := refusal(http.StatusBadGateway, "the transformer finds no model at %s", m.Calls)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(body) // the client may have gone
			return
		}
		m.work(r)
		model.ServeHTTP(w, r)
	})
}
