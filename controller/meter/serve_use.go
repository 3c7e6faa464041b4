package meter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/usage"
	"berth.dev/berth/ledger"
)

// serveIdle serves GET idle?for=DURATION: see cost.IdleReport.
func (m *Meter) serveIdle(w http.ResponseWriter, r *http.Request) {
	least, err := duration(r, "for", cost.Grace)
	if err != nil {
		Refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	now := clock()
	list, err := idlers(r.Context(), m.book, least, now)
	answer(w, cost.NewIdleReport(list, now, quota.Whole), err)
}

// serveUse serves GET use?from=TIME&to=TIME&by=NAME&grace=DURATION: see cost.UseReport.
func (m *Meter) serveUse(w http.ResponseWriter, r *http.Request) {
	q, err := question(r, clock())
	if err == nil {
		var grace time.Duration
		if grace, err = duration(r, "grace", cost.Grace); err == nil {
			m.answerUse(w, r, &cost.UseQuestion{From: q.From, To: q.To, By: q.By, Grace: grace})
			return
		}
	}
	Refuse(w, apierrors.NewBadRequest(err.Error()))
}

func (m *Meter) answerUse(w http.ResponseWriter, r *http.Request, q *cost.UseQuestion) {
	began, err := m.book.Began(r.Context())
	if err != nil {
		answer(w, nil, err)
		return
	}
	rows, err := useOf(r.Context(), m.book, q)
	answer(w, cost.NewUseReport(rows, began, q, quota.Whole), err)
}

// answer answers with what there is, or why there is nothing.
func answer(w http.ResponseWriter, o any, err error) {
	if err != nil {
		refused, ok := errors.AsType[*apierrors.StatusError](err)
		if !ok {
			refused = apierrors.NewInternalError(err)
		}
		Refuse(w, refused)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o) // the client is gone
}

// clock is the time, as the ledger has times.
func clock() time.Time { return time.Now().Truncate(time.Millisecond).UTC() }

// duration reads a parameter that is a duration.
func duration(r *http.Request, name string, missing time.Duration) (time.Duration, error) {
	text := r.FormValue(name)
	if text == "" {
		return missing, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s=%q is not a duration such as 10m", name, text)
	}
	return d, nil
}

// idlers reads which pods hold GPUs at a time and have done next to nothing with them for so long at least.
func idlers(ctx context.Context, book *ledger.Book, least time.Duration, now time.Time) ([]cost.Idler, error) {
	lows, err := book.Lows(ctx, now.Add(-time.Millisecond), now)
	if err != nil {
		return nil, err
	}
	from := now
	for _, list := range lows {
		if begins := list[len(list)-1].From; begins.Before(from) {
			from = begins
		}
	}
	facts, err := book.Facts(ctx, from.Add(-time.Hour), now)
	if err != nil {
		return nil, err
	}
	return cost.Idlers(facts, lows, least, now), nil
}

// useOf reads what holders did with their GPUs.
func useOf(ctx context.Context, book *ledger.Book, q *cost.UseQuestion) ([]cost.UseRow, error) {
	from := q.From.Add(-time.Hour)
	facts, err := book.Facts(ctx, from, q.To)
	if err != nil {
		return nil, err
	}
	lows, err := book.Lows(ctx, from, q.To)
	if err != nil {
		return nil, err
	}
	var uses map[string][]usage.Use
	if uses, err = book.Uses(ctx, from, q.To); err != nil {
		return nil, err
	}
	return cost.UseOf(facts, lows, uses, q.Grace, q.From, q.To, q.By), nil
}
