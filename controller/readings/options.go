package readings

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"berth.dev/berth/controller/proxy"
)

// The jobs of the series, as label job has them.
const (
	ExporterJob = "gpu-exporter"
	OwnJob      = "berth"
)

// FindPrometheus is the value of Outside.Prometheus for one that is found in the cluster.
const FindPrometheus = "auto"

// Source is what is read beside exporters.
type Source interface {
	// Series returns metrics in the text format; none is that nothing is known yet.
	Series(ctx context.Context, now time.Time) []byte
	// Exporters returns the nodes that have one, and how to ask it.
	Exporters(ctx context.Context) (nodes []string, text func(ctx context.Context, node string) ([]byte, error), err error)
	// Prometheuses returns those of the cluster.
	Prometheuses(ctx context.Context) ([]proxy.Prometheus, error)
}

// Outside is what readings are shared with.
type Outside struct {
	// Webhook is a URL that is sent what fires and what ends, as Alertmanager does; "" is none.
	Webhook string
	// Prometheus is the URL of one that may read the same exporters, or FindPrometheus; "" is none.
	Prometheus string
	// RemoteWrite and OTLP are URLs of receivers that are sent all samples that are kept here.
	RemoteWrite, OTLP []string
	// Transport carries the requests to these URLs; nil is http.DefaultTransport.
	Transport http.RoundTripper
}

// Options says where readings are kept, and who hears of them.
type Options struct {
	Outside
	// File keeps them while the process is not running; "" is none. Its folder is made.
	File string
	// More is metrics of this process, of which those of Berth are kept; nil is none.
	More prometheus.Gatherer
}
