package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"berth.dev/berth/core/audit"
	"berth.dev/berth/core/quota"
)

// The acts of nodes, beside those of pods.
const (
	nodeUp       audit.Act = "up"
	nodeDown     audit.Act = "down"
	nodeStranded audit.Act = "stranded"
	nodeUsable   audit.Act = "usable"
	nodePriced   audit.Act = "priced"
)

// NodeLife returns what happened to the nodes of a name in a time: when they came and went, when parts of them could not be had, and
// what they cost.
func (b *Book) NodeLife(ctx context.Context, name string, from, to time.Time) (out []audit.Line, err error) {
	r := reader{ctx: ctx, db: b.db}
	add := func(at time.Time, uid string, act audit.Act, reason, detail string) {
		if at.IsZero() || at.Before(from) || !at.Before(to) {
			return
		}
		l := audit.Line{Record: audit.Record{At: at, Subject: uid, Act: act, Node: name, Reason: reason, Detail: detail}}
		l.Who.Kind, l.Who.Owner = "Node", name
		out = append(out, l)
	}
	const of = " WHERE node IN (SELECT uid FROM nodes WHERE name = ?)"
	r.rows("SELECT node, begins, ends, parts FROM ups"+of, []any{name}, func(scan func(...any) error) error {
		var uid string
		var s span
		var parts int64
		err := scan(&uid, &s.begins, &s.ends, &parts)
		begins, ends := s.times()
		add(begins, uid, nodeUp, "", fmt.Sprintf("with %s GPUs", gpus(parts)))
		add(ends, uid, nodeDown, "", "")
		return err
	})
	r.rows("SELECT node, reason, begins, ends, parts FROM strands"+of, []any{name}, func(scan func(...any) error) error {
		var uid, reason string
		var s span
		var parts int64
		err := scan(&uid, &reason, &s.begins, &s.ends, &parts)
		begins, ends := s.times()
		add(begins, uid, nodeStranded, reason, gpus(parts)+" GPUs")
		add(ends, uid, nodeUsable, reason, "no longer so")
		return err
	})
	r.rows("SELECT node, begins, micros, currency, source FROM prices"+of, []any{name}, func(scan func(...any) error) error {
		var uid, currency, source string
		var s span
		var micros int64
		err := scan(&uid, &s.begins, &micros, &currency, &source)
		begins, _ := s.times()
		if source == "" {
			add(begins, uid, nodePriced, "", "no price is known")
		} else {
			add(begins, uid, nodePriced, "", fmt.Sprintf("%.4f %s an hour (%s)", float64(micros)/1e6, currency, source))
		}
		return err
	})
	if r.err != nil {
		return nil, fmt.Errorf("read the ledger %s: %w", b.path, r.err)
	}
	return out, nil
}

// gpus are parts in GPUs.
func gpus(parts int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", float64(parts)/quota.Whole), "0"), ".")
}
