package meter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/quota"
)

// Path is where the ledger is served: below the address of the API server in `berth up`, and below that of `berth meter`.
const Path = api.LedgerPath

// Handler serves what the ledger has, as JSON: GET cost?from=TIME&to=TIME&by=NAME&spread=BOOL below Path, with times as
// in RFC 3339, and the others as their functions say. It does not ask clients who they are: the server before it does.
// user returns the name of the user who asks.
func (m *Meter) Handler(user func(*http.Request) string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path+"cost", m.serveCost)
	mux.HandleFunc("GET "+Path+"idle", m.serveIdle)
	mux.HandleFunc("GET "+Path+"use", m.serveUse)
	mux.HandleFunc("GET "+Path+"budget", m.serveBudget)
	mux.HandleFunc("GET "+Path+"verify", m.serveVerify)
	mux.HandleFunc("GET "+Path+"allocation", m.serveAllocation)
	mux.HandleFunc("POST "+Path+"rerate", func(w http.ResponseWriter, r *http.Request) { m.serveRerate(w, r, user(r)) })
	mux.HandleFunc("GET "+Path+"audit", m.serveAudit)
	return mux
}

func (m *Meter) serveCost(w http.ResponseWriter, r *http.Request) {
	q, err := question(r, clock())
	if err != nil {
		Refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	report, err := m.report(r.Context(), q)
	answer(w, report, err)
}

// Refuse answers as the API server does, so its clients print why.
func Refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(err.ErrStatus.Code))
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	_ = json.NewEncoder(w).Encode(status) // the client is gone
}

// question reads what is asked for. By default it is the last day by namespace.
func question(r *http.Request, now time.Time) (*cost.Question, error) {
	q := &cost.Question{From: now.Add(-24 * time.Hour), To: now, By: cost.Namespace, Spread: r.FormValue("spread") == "true"}
	for name, to := range map[string]*time.Time{"from": &q.From, "to": &q.To} {
		text := r.FormValue(name)
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, fmt.Errorf("%s=%q is not a time such as 2026-11-02T09:00:00Z", name, text)
		}
		*to = at
	}
	if by := r.FormValue("by"); by != "" {
		q.By = cost.By(by)
	}
	if q.To.After(now) {
		q.To = now
	}
	if wrong := q.Check(now); wrong != "" {
		return nil, fmt.Errorf("%s", wrong)
	}
	return q, nil
}

// report answers a question.
func (m *Meter) report(ctx context.Context, asked *cost.Question) (*cost.Report, error) {
	kept, changed := m.book.Kept(), *asked
	q := &changed
	if wrong := q.Keep(kept); wrong != "" {
		return nil, apierrors.NewBadRequest(wrong)
	}
	rows, err := m.book.Rows(ctx, q.From, q.To, q.By)
	if err != nil {
		return nil, err
	}
	remarks, err := m.book.Remarks(ctx, q.From, q.To)
	if err != nil {
		return nil, err
	}
	began, err := m.book.Began(ctx)
	if err != nil {
		return nil, err
	}
	report := cost.NewReport(rows, remarks, began, q, quota.Whole)
	if asked.From.Before(kept) {
		report.Kept = kept
	}
	report.Losses, err = m.book.Losses(ctx, report.From, report.To)
	return report, err
}

// serveVerify checks the days that are closed.
func (m *Meter) serveVerify(w http.ResponseWriter, r *http.Request) {
	checked, err := m.book.Verify(r.Context())
	if err != nil {
		Refuse(w, apierrors.NewInternalError(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(checked) // the client is gone
}
