package audit

import "time"

// Report is what happened in a time. Its JSON is what Berth serves and prints.
type Report struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Began time.Time `json:"began"` // when the ledger did
	Cut   bool      `json:"cut"`   // there were more before these
	Rows  []Row     `json:"rows"`
}

// Row is one Line.
type Row struct {
	At        time.Time `json:"at"`
	Act       Act       `json:"act"`
	Namespace string    `json:"namespace,omitempty"`
	Pod       string    `json:"pod,omitempty"`
	Kind      string    `json:"kind,omitempty"` // of the object that was applied
	Owner     string    `json:"owner,omitempty"`
	User      string    `json:"user,omitempty"`
	Queue     string    `json:"queue,omitempty"`
	Node      string    `json:"node,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Detail    string    `json:"detail,omitempty"`
	UID       string    `json:"uid"`
}

// NewReport makes a report of lines.
func NewReport(lines []Line, from, to, began time.Time, cut bool) *Report {
	r := &Report{From: from, To: to, Began: began, Cut: cut, Rows: make([]Row, len(lines))}
	for i := range lines {
		l := &lines[i]
		p := &l.Who
		r.Rows[i] = Row{l.At, l.Act, p.Namespace, p.Name, p.Kind, p.Owner, p.User, p.Queue, l.Node, l.Reason, l.Detail, l.Subject}
	}
	return r
}
