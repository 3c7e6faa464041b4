package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"berth.dev/berth/core/audit"
)

// records writes what happened, and leaves what is there already.
func (w *writer) records(b *Batch) {
	for i := range b.Askers {
		p := &b.Askers[i]
		w.do("INSERT OR IGNORE INTO askers VALUES (?, ?, ?, ?, ?, ?, ?)", p.UID, p.Namespace, p.Name, p.Kind, p.Owner, p.User, p.Queue)
	}
	for i := range b.Records {
		r := &b.Records[i]
		w.do("INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?, ?, ?)", r.At.UnixMilli(), r.Subject, string(r.Act), r.Node, r.Reason, r.Detail)
	}
}

// AuditFilter is what records are asked for; what is empty is not asked.
type AuditFilter struct {
	From, To                     time.Time
	User, Namespace, Queue, Node string
	Workload                     string // a name, KIND/NAME, or the name of a pod, in any case of letters
	Most                         int    // of records, the last; 0 is all
}

// Audit returns what happened in a time, in its order.
func (b *Book) Audit(ctx context.Context, f *AuditFilter) ([]audit.Line, error) {
	where, args := []string{"at >= ?", "at < ?"}, []any{f.From.UnixMilli(), f.To.UnixMilli()}
	for column, value := range map[string]string{"user": f.User, "namespace": f.Namespace, "queue": f.Queue, "node": f.Node} {
		if value != "" {
			where, args = append(where, column+" = ?"), append(args, value)
		}
	}
	if f.Workload != "" {
		where = append(where, "? COLLATE NOCASE IN (owner, kind || '/' || owner, name)")
		args = append(args, f.Workload)
	}
	query := "SELECT at, subject, act, node, reason, detail, IFNULL(namespace, ''), IFNULL(name, ''), IFNULL(kind, ''), IFNULL(owner, ''), IFNULL(user, ''), IFNULL(queue, '')" +
		" FROM records LEFT JOIN askers ON uid = subject WHERE " + strings.Join(where, " AND ") + " ORDER BY at DESC, subject DESC, act DESC"
	if f.Most > 0 {
		query, args = query+" LIMIT ?", append(args, f.Most)
	}
	r := reader{ctx: ctx, db: b.db}
	var out []audit.Line
	r.rows(query, args, func(scan func(...any) error) error {
		var l audit.Line
		var at int64
		p := &l.Who
		err := scan(&at, &l.Subject, &l.Act, &l.Node, &l.Reason, &l.Detail, &p.Namespace, &p.Name, &p.Kind, &p.Owner, &p.User, &p.Queue)
		p.UID, l.At = l.Subject, time.UnixMilli(at).UTC()
		out = append(out, l)
		return err
	})
	if r.err != nil {
		return nil, fmt.Errorf("read the ledger %s: %w", b.path, r.err)
	}
	audit.Sort(out)
	return out, nil
}
