package send

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
)

// otlp is OTLP over HTTP: https://opentelemetry.io/docs/specs/otlp/. A job with its instance is a resource, as OpenTelemetry's compatibility with Prometheus
// has it. Counters are sums, and all else gauges: also the parts of a histogram, each of which is a series here.
type otlp struct {
	counter func(name string) bool
}

func (otlp) headers() map[string]string {
	return map[string]string{"Content-Type": "application/x-protobuf"}
}

func (o otlp) encode(points []point) ([]byte, error) {
	type target struct{ job, instance string }
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b point) int {
		x, y := a.Series.Labels(), b.Series.Labels()
		for _, name := range []string{"job", "instance", model.MetricNameLabel} {
			if c := cmp.Compare(x.Get(name), y.Get(name)); c != 0 {
				return c
			}
		}
		return 0
	})
	req := &collector.ExportMetricsServiceRequest{}
	var of target
	var metric *metrics.Metric
	var scope *metrics.ScopeMetrics
	for i := range points {
		ls := points[i].Series.Labels()
		if to := (target{ls.Get("job"), ls.Get("instance")}); scope == nil || to != of {
			of, metric = to, nil
			scope = &metrics.ScopeMetrics{Scope: &common.InstrumentationScope{Name: "berth"}}
			req.ResourceMetrics = append(req.ResourceMetrics, &metrics.ResourceMetrics{
				Resource:     &resource.Resource{Attributes: []*common.KeyValue{attribute("service.name", of.job), attribute("service.instance.id", of.instance)}},
				ScopeMetrics: []*metrics.ScopeMetrics{scope},
			})
		}
		if name := ls.Get(model.MetricNameLabel); metric == nil || metric.Name != name {
			metric = o.metric(name)
			scope.Metrics = append(scope.Metrics, metric)
		}
		add(metric, numberOf(&points[i], ls))
	}
	return proto.Marshal(req)
}

func (o otlp) metric(name string) *metrics.Metric {
	m := &metrics.Metric{Name: name, Data: &metrics.Metric_Gauge{Gauge: &metrics.Gauge{}}}
	if o.counter(name) {
		m.Data = &metrics.Metric_Sum{Sum: &metrics.Sum{IsMonotonic: true, AggregationTemporality: metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE}}
	}
	return m
}

func add(m *metrics.Metric, p *metrics.NumberDataPoint) {
	switch data := m.Data.(type) {
	case *metrics.Metric_Gauge:
		data.Gauge.DataPoints = append(data.Gauge.DataPoints, p)
	case *metrics.Metric_Sum:
		data.Sum.DataPoints = append(data.Sum.DataPoints, p)
	}
}

// numberOf is a point; the end of a series is one without a value.
func numberOf(p *point, ls labels.Labels) *metrics.NumberDataPoint {
	out := &metrics.NumberDataPoint{TimeUnixNano: uint64(p.at.UnixNano())}
	ls.Range(func(l labels.Label) {
		switch l.Name {
		case model.MetricNameLabel, "job", "instance":
		default:
			out.Attributes = append(out.Attributes, attribute(l.Name, l.Value))
		}
	})
	if value.IsStaleNaN(p.Value) {
		out.Flags = uint32(metrics.DataPointFlags_DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK)
		return out
	}
	out.Value = &metrics.NumberDataPoint_AsDouble{AsDouble: p.Value}
	return out
}

func attribute(name, v string) *common.KeyValue {
	return &common.KeyValue{Key: name, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: v}}}
}

// again is what the protocol has tried again.
func (otlp) again(status int) bool {
	return slices.Contains([]int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, status)
}

// refused reads an answer: a receiver may take a part.
func (otlp) refused(body []byte) (n int64, why string) {
	var answer collector.ExportMetricsServiceResponse
	if proto.Unmarshal(body, &answer) != nil {
		return 0, ""
	}
	return answer.GetPartialSuccess().GetRejectedDataPoints(), answer.GetPartialSuccess().GetErrorMessage()
}
