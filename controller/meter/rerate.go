package meter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/price"
	"berth.dev/berth/ledger"
)

// serveRerate prices the time from one parameter to the other again: POST rerate?from=TIME&to=TIME&reason=TEXT.
func (m *Meter) serveRerate(w http.ResponseWriter, r *http.Request, user string) {
	now := time.Now().Truncate(time.Millisecond).UTC()
	q, err := question(r, now)
	reason := r.FormValue("reason")
	if err == nil && (reason == "" || len(reason) > 256) {
		err = fmt.Errorf("say in at most 256 letters why prices of the past change: the ledger keeps it")
	}
	if kept := m.book.Kept(); err == nil && q.From.Before(kept) {
		err = fmt.Errorf("prices of the time before %s cannot change, as its facts are not kept any longer", kept.Format(time.DateOnly))
	}
	if err != nil {
		Refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	answer, err := m.rerate(r.Context(), &ledger.Rerating{From: q.From.Truncate(time.Millisecond), To: q.To.Truncate(time.Millisecond), At: now, User: user, Reason: reason})
	if err != nil {
		Refuse(w, apierrors.NewInternalError(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client is gone
}

// rerate prices a time again by the PriceBooks and lists of now. Nodes that are gone keep their prices, as their labels are
// not known any longer.
func (m *Meter) rerate(ctx context.Context, r *ledger.Rerating) (*cost.Rerated, error) {
	m.mu.Lock()
	m.tally.settle()
	m.tally.cutPrices()
	rules, nodes := m.tally.rules, map[string]*cost.Node{}
	for _, n := range m.tally.nodes {
		counted := devices.CountNode(n, nil, nil)
		nodes[string(n.UID)] = price.Node(n, counted.Product, counted.Physical)
	}
	m.mu.Unlock()
	if err := m.flush(ctx); err != nil {
		return nil, err
	}
	out := &cost.Rerated{From: r.From, To: r.To}
	var err error
	if out.Before, err = m.amounts(ctx, r); err != nil {
		return nil, err
	}
	gone := map[string]bool{}
	changed, err := m.book.Rerate(ctx, r, func(uid string, old cost.Rate) []cost.Rate {
		n := nodes[uid]
		if n == nil {
			gone[uid] = true
			return []cost.Rate{old}
		}
		return cost.Rerate(n, rules, old, r.From, r.To)
	})
	if err != nil {
		return nil, err
	}
	out.Nodes, out.Gone = len(changed), len(gone)
	out.After, err = m.amounts(ctx, r)
	return out, err
}

// amounts is what is charged in the time of a rerating, by currency.
func (m *Meter) amounts(ctx context.Context, r *ledger.Rerating) ([]cost.Amount, error) {
	rows, err := m.book.Rows(ctx, r.From, r.To, cost.Product)
	if err != nil {
		return nil, err
	}
	out := []cost.Amount{}
	for _, row := range rows {
		if row.Currency != "" {
			out = cost.AddAmounts(out, cost.Amount{Currency: row.Currency, Micros: row.Micros})
		}
	}
	return out, nil
}

// cutPrices ends all prices now, and begins the same again: what has passed can be priced again then.
func (t *tally) cutPrices() {
	now := t.now()
	for _, p := range t.price.Open() {
		if p.From.Before(now) {
			t.batch.Prices = append(t.batch.Prices, t.price.End(p.Key, now, p.End)...)
			t.batch.Prices = append(t.batch.Prices, t.price.Set(p.Key, p.Value, now)...)
		}
	}
}
