package ledger

import (
	"context"
	"fmt"
	"time"

	"berth.dev/berth/core/usage"
)

// uses writes what pods did with their GPUs.
func (w *writer) uses(b *Batch) {
	for i := range b.Lows {
		l := &b.Lows[i]
		w.do("INSERT OR REPLACE INTO lows VALUES (?, ?, ?, ?, ?, ?)", l.Key, l.From.UnixMilli(), ends(l.To), string(l.End.Source), l.End.Late.Milliseconds(), l.Value)
	}
	for i := range b.Uses {
		u := &b.Uses[i]
		w.do("INSERT OR REPLACE INTO uses VALUES (?, ?, ?, ?, ?, ?, ?)", u.From.UnixMilli(), u.Pod, u.To.UnixMilli(), u.Used.Milliseconds(), u.Busy, u.MemoryBytes, u.Shared)
	}
}

// openLows reads which pods do next to nothing, as far as the book has it.
func (r *reader) openLows() (out []Lows) {
	r.rows("SELECT pod, begins, shared FROM lows WHERE ends IS NULL", nil, func(scan func(...any) error) error {
		var l Lows
		var begins int64
		err := scan(&l.Key, &begins, &l.Value)
		l.From = time.UnixMilli(begins).UTC()
		out = append(out, l)
		return err
	})
	return out
}

// Lows returns when the GPUs of pods did next to nothing in a time, by UID of pods, in the order of time.
func (b *Book) Lows(ctx context.Context, from, to time.Time) (map[string][]usage.Low, error) {
	r := reader{ctx: ctx, db: b.db}
	out := map[string][]usage.Low{}
	r.rows("SELECT pod, begins, ends, shared FROM lows"+within+" ORDER BY pod, begins", []any{to.UnixMilli(), from.UnixMilli()}, func(scan func(...any) error) error {
		var l usage.Low
		var s span
		err := scan(&l.Pod, &s.begins, &s.ends, &l.Shared)
		l.From, l.To = s.times()
		out[l.Pod] = append(out[l.Pod], l)
		return err
	})
	if r.err != nil {
		return nil, fmt.Errorf("read the ledger %s: %w", b.path, r.err)
	}
	return out, nil
}

// Uses returns what pods did with their GPUs in a time, by UID of pods, in the order of time.
func (b *Book) Uses(ctx context.Context, from, to time.Time) (map[string][]usage.Use, error) {
	r := reader{ctx: ctx, db: b.db}
	out := map[string][]usage.Use{}
	// Each row is within an hour.
	args := []any{from.Add(-time.Hour).UnixMilli(), to.UnixMilli(), from.UnixMilli()}
	r.rows("SELECT pod, begins, ends, used, busy, memory, shared FROM uses WHERE begins >= ? AND begins < ? AND ends > ? ORDER BY begins, pod", args, func(scan func(...any) error) error {
		var u usage.Use
		var s span
		var used int64
		err := scan(&u.Pod, &s.begins, &s.ends, &used, &u.Busy, &u.MemoryBytes, &u.Shared)
		u.From, u.To = s.times()
		u.Used = time.Duration(used) * time.Millisecond
		out[u.Pod] = append(out[u.Pod], u)
		return err
	})
	if r.err != nil {
		return nil, fmt.Errorf("read the ledger %s: %w", b.path, r.err)
	}
	return out, nil
}
