package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/usage"
)

// reader reads rows until something fails.
type reader struct {
	ctx context.Context //nolint:containedctx // it lives for one call
	db  interface {     // *sql.DB, or *sql.Tx for what must be of one moment
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
	from, to int64
	err      error
}

// rows has each row of a query read.
func (r *reader) rows(query string, args []any, each func(scan func(...any) error) error) {
	if r.err != nil {
		return
	}
	list, err := r.db.QueryContext(r.ctx, query, args...)
	if err != nil {
		r.err = err
		return
	}
	for err == nil && list.Next() {
		err = each(list.Scan)
	}
	r.err = errors.Join(err, list.Err(), list.Close())
}

// span is the columns begins and ends.
type span struct {
	begins int64
	ends   sql.NullInt64
}

func (s span) times() (from, to time.Time) {
	from = time.UnixMilli(s.begins).UTC()
	if s.ends.Valid {
		to = time.UnixMilli(s.ends.Int64).UTC()
	}
	return from, to
}

// within selects intervals that overlap the time that is read.
const within = " WHERE begins < ? AND (ends IS NULL OR ends > ?)"

func (r *reader) facts() *cost.Facts {
	f := &cost.Facts{Pods: map[string]cost.Pod{}}
	at, limits := map[string]int{}, []any{r.to, r.from}
	var s span
	r.rows("SELECT node, begins, ends, parts FROM ups"+within+" ORDER BY node, begins", limits, func(scan func(...any) error) error {
		var node string
		var up usage.Up
		if err := scan(&node, &s.begins, &s.ends, &up.Parts); err != nil {
			return err
		}
		up.From, up.To = s.times()
		if _, has := at[node]; !has {
			at[node] = len(f.Nodes)
			f.Nodes = append(f.Nodes, cost.NodeFacts{UID: node})
		}
		n := &f.Nodes[at[node]]
		n.Ups = append(n.Ups, up)
		return nil
	})
	r.rows("SELECT uid, name, product FROM nodes", nil, func(scan func(...any) error) error {
		var uid, name, product string
		err := scan(&uid, &name, &product)
		if i, has := at[uid]; has {
			f.Nodes[i].Name, f.Nodes[i].Product = name, product
		}
		return err
	})
	r.rows("SELECT pod, begins, ends, node, parts FROM holds"+within, limits, func(scan func(...any) error) error {
		var h usage.Hold
		var node string
		err := scan(&h.Pod, &s.begins, &s.ends, &node, &h.Parts)
		if i, has := at[node]; has {
			h.From, h.To = s.times()
			f.Nodes[i].Holds = append(f.Nodes[i].Holds, h)
			f.Pods[h.Pod] = cost.Pod{UID: h.Pod}
		}
		return err
	})
	r.rows("SELECT node, reason, begins, ends, parts FROM strands"+within, limits, func(scan func(...any) error) error {
		var t usage.Strand
		var node string
		err := scan(&node, &t.Reason, &s.begins, &s.ends, &t.Parts)
		if i, has := at[node]; has {
			t.From, t.To = s.times()
			f.Nodes[i].Strands = append(f.Nodes[i].Strands, t)
		}
		return err
	})
	r.rows("SELECT node, begins, micros, currency, source, remark FROM prices"+within+" ORDER BY node, begins", limits, func(scan func(...any) error) error {
		var p cost.Price
		var node string
		err := scan(&node, &s.begins, &p.Micros, &p.Currency, &p.Source, &p.Remark)
		if i, has := at[node]; has {
			p.From, _ = s.times()
			f.Nodes[i].Prices = append(f.Nodes[i].Prices, p)
		}
		return err
	})
	r.pods(f)
	return f
}

// pods reads who the pods were that held something.
func (r *reader) pods(f *cost.Facts) {
	if len(f.Pods) == 0 {
		return
	}
	const who = "SELECT uid, namespace, name, kind, owner, user, queue, COALESCE(s.labels, '') FROM pods LEFT JOIN pod_labels l ON l.pod = uid LEFT JOIN label_sets s ON s.id = l.labels"
	r.rows(who+" WHERE uid IN (SELECT pod FROM holds"+within+")", []any{r.to, r.from}, func(scan func(...any) error) error {
		var p cost.Pod
		err := scan(&p.UID, &p.Namespace, &p.Name, &p.Kind, &p.Owner, &p.User, &p.Queue, &p.Labels)
		if _, held := f.Pods[p.UID]; held {
			f.Pods[p.UID] = p
		}
		return err
	})
}

// State is what goes on by the book, when it began, and when its writer was last there; zero is never.
type State struct {
	Holds   []Holds
	Ups     []Ups
	Strands []Strands
	Prices  []Prices
	Lows    []Lows
	Nodes   map[string]Node // all that it knows, by UID
	Began   time.Time
	Alive   time.Time
}

// State reads what goes on.
func (b *Book) State(ctx context.Context) (*State, error) {
	r := reader{ctx: ctx, db: b.db}
	s := &State{Nodes: map[string]Node{}}
	var begins int64
	r.rows("SELECT pod, begins, node, parts FROM holds WHERE ends IS NULL", nil, func(scan func(...any) error) error {
		var h Holds
		err := scan(&h.Key, &begins, &h.Value.Node, &h.Value.Parts)
		h.From = time.UnixMilli(begins).UTC()
		s.Holds = append(s.Holds, h)
		return err
	})
	r.rows("SELECT node, begins, parts FROM ups WHERE ends IS NULL", nil, func(scan func(...any) error) error {
		var u Ups
		err := scan(&u.Key, &begins, &u.Value)
		u.From = time.UnixMilli(begins).UTC()
		s.Ups = append(s.Ups, u)
		return err
	})
	r.rows("SELECT node, reason, begins, parts FROM strands WHERE ends IS NULL", nil, func(scan func(...any) error) error {
		var t Strands
		var of Strand
		err := scan(&of.Node, &of.Reason, &begins, &t.Value)
		t.Key, t.From = StrandKey(of), time.UnixMilli(begins).UTC()
		s.Strands = append(s.Strands, t)
		return err
	})
	r.rows("SELECT node, begins, micros, currency, source, remark FROM prices WHERE ends IS NULL", nil, func(scan func(...any) error) error {
		var p Prices
		err := scan(&p.Key, &begins, &p.Value.Micros, &p.Value.Currency, &p.Value.Source, &p.Value.Remark)
		p.From = time.UnixMilli(begins).UTC()
		s.Prices = append(s.Prices, p)
		return err
	})
	r.rows("SELECT uid, name, product, instance, region, zone, capacity FROM nodes", nil, func(scan func(...any) error) error {
		var n Node
		err := scan(&n.UID, &n.Name, &n.Product, &n.Instance, &n.Region, &n.Zone, &n.Capacity)
		s.Nodes[n.UID] = n
		return err
	})
	r.rows("SELECT began, at FROM alive", nil, func(scan func(...any) error) error {
		var alive int64
		err := scan(&begins, &alive)
		s.Began, s.Alive = time.UnixMilli(begins).UTC(), time.UnixMilli(alive).UTC()
		return err
	})
	s.Lows = r.openLows()
	if r.err != nil {
		return nil, fmt.Errorf("read the ledger %s: %w", b.path, r.err)
	}
	return s, nil
}

// Began returns when the book began; zero is that nothing is in it yet.
func (b *Book) Began(ctx context.Context) (time.Time, error) {
	r := reader{ctx: ctx, db: b.db}
	var at time.Time
	r.rows("SELECT began FROM alive", nil, func(scan func(...any) error) error {
		var millis int64
		err := scan(&millis)
		at = time.UnixMilli(millis).UTC()
		return err
	})
	if r.err != nil {
		return at, fmt.Errorf("read the ledger %s: %w", b.path, r.err)
	}
	return at, nil
}

// Ended reports whether the book has a pod as a holder that has ended.
func (b *Book) Ended(ctx context.Context, pod string) (ended bool, err error) {
	err = b.db.QueryRowContext(ctx, "SELECT COUNT(*) > 0 AND COUNT(*) = COUNT(ends) FROM holds WHERE pod = ?", pod).Scan(&ended)
	return ended, b.read(err)
}
