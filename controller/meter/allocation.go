package meter

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth.dev/berth/core/cost"
)

// allocations is the answer of OpenCost's API.
type allocations struct {
	Code    int                           `json:"code"`
	Data    []map[string]*cost.Allocation `json:"data"`
	Warning string                        `json:"warning,omitempty"`
}

// serveAllocation answers as OpenCost's API does, for what reads that: GET allocation?window=7d&aggregate=namespace&includeIdle=true&shareIdle=false.
func (m *Meter) serveAllocation(w http.ResponseWriter, r *http.Request) {
	now := time.Now().Truncate(time.Millisecond).UTC()
	window, err := cost.Window(r.FormValue("window"), now)
	by := cost.AggregateOf(r.FormValue("aggregate"))
	if err == nil && by == "" {
		err = fmt.Errorf("aggregate=%q is not known: write namespace, node, controller, or a label such as label:team", r.FormValue("aggregate"))
	}
	for _, name := range []string{"step", "filter"} {
		if err == nil && r.FormValue(name) != "" {
			err = fmt.Errorf("%s is not supported: ask for each window, and choose from the answer", name)
		}
	}
	if window.To.After(now) {
		window.To = now
	}
	q := &cost.Question{From: window.From, To: window.To, By: by, Spread: r.FormValue("shareIdle") == "true"}
	if err == nil {
		if wrong := q.Check(now); wrong != "" {
			err = fmt.Errorf("%s", wrong)
		}
	}
	if err != nil {
		Refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	report, err := m.report(r.Context(), q)
	if err != nil {
		answer(w, nil, err)
		return
	}
	sets, left := cost.Allocations(report, r.FormValue("includeIdle") == "true")
	out := allocations{Code: http.StatusOK, Data: []map[string]*cost.Allocation{sets}}
	if len(left) > 0 {
		out.Warning = fmt.Sprintf("costs in other currencies are left out: %v", left)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the client is gone
}
