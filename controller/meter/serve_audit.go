package meter

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth.dev/berth/core/audit"
	"berth.dev/berth/ledger"
)

// mostRecords is how many records an answer has at most: the last ones.
const mostRecords = 20_000

// serveAudit serves GET audit?from=TIME&to=TIME&user=NAME&namespace=NAME&queue=NAME&node=NAME&workload=NAME: see audit.Report.
func (m *Meter) serveAudit(w http.ResponseWriter, r *http.Request) {
	q, err := question(r, clock())
	if err != nil {
		Refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	f := ledger.AuditFilter{
		From: q.From, To: q.To, User: r.FormValue("user"), Namespace: r.FormValue("namespace"), Queue: r.FormValue("queue"), Node: r.FormValue("node"), Workload: r.FormValue("workload"), Most: mostRecords,
	}
	lines, err := m.book.Audit(r.Context(), &f)
	if err == nil && f.Node != "" {
		var own []audit.Line
		own, err = m.book.NodeLife(r.Context(), f.Node, f.From, f.To)
		lines = append(lines, own...)
		audit.Sort(lines)
	}
	if err != nil {
		answer(w, nil, err)
		return
	}
	began, err := m.book.Began(r.Context())
	answer(w, audit.NewReport(lines, q.From, q.To, began, len(lines) == mostRecords), err)
}
