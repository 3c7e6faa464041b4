package send

import (
	"errors"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	sentDesc    = prometheus.NewDesc("berth_readings_sent_total", "Samples that a receiver of remote write or OTLP has taken.", []string{"to"}, nil)
	droppedDesc = prometheus.NewDesc("berth_readings_dropped_total", "Samples that were not sent: too many waited (full), or the receiver did not take them (refused).", []string{"to", "why"}, nil)
	unsentDesc  = prometheus.NewDesc("berth_readings_unsent", "Samples that wait to be sent.", []string{"to"}, nil)
)

// Senders are all of a process.
type Senders []*Sender

// Describe implements prometheus.Collector.
func (list Senders) Describe(ch chan<- *prometheus.Desc) {
	ch <- sentDesc
	ch <- droppedDesc
	ch <- unsentDesc
}

// Collect implements prometheus.Collector. Those that differ only in what is not shown of their URLs are counted together.
func (list Senders) Collect(ch chan<- prometheus.Metric) {
	type counts struct{ sent, full, refused, unsent int64 }
	all := map[string]counts{}
	for _, s := range list {
		c := all[s.to]
		all[s.to] = counts{c.sent + s.sent.Load(), c.full + s.full.Load(), c.refused + s.refusals.Load(), c.unsent + int64(s.queue.len())}
	}
	for to, c := range all {
		ch <- prometheus.MustNewConstMetric(sentDesc, prometheus.CounterValue, float64(c.sent), to)
		ch <- prometheus.MustNewConstMetric(droppedDesc, prometheus.CounterValue, float64(c.full), to, "full")
		ch <- prometheus.MustNewConstMetric(droppedDesc, prometheus.CounterValue, float64(c.refused), to, "refused")
		ch <- prometheus.MustNewConstMetric(unsentDesc, prometheus.GaugeValue, float64(c.unsent), to)
	}
}

// short is an error without the URL, which may have a password.
func short(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}

// firstLine is the beginning of what a receiver says.
func firstLine(raw []byte) string {
	text, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(string(raw), "?")), "\n")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "..."
	}
	return text
}
