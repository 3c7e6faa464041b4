package remote

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// thousand is a Prometheus with one metric of 1,000 GPUs of 125 nodes, whose answers are made before.
func thousand(b *testing.B, points int) *Querier {
	b.Helper()
	var list []string
	p := New("bench", nil, Options{Job: "gpu-exporter"})
	p.names = map[string]bool{"DCGM_FI_DEV_GPU_UTIL": true}
	for gpu := range 1000 {
		target := target{"dcgm", fmt.Sprintf("10.0.0.%d:9400", gpu/8)}
		p.targets[target] = &known{instance: fmt.Sprintf("n%d:9400", gpu/8), labels: map[string]string{"job": target.job, "instance": target.instance, "namespace": "gpu-operator", "pod": "dcgm-x", "container": "exporter", "endpoint": "metrics", "service": "dcgm"}}
		metric := fmt.Sprintf(`{"__name__":"DCGM_FI_DEV_GPU_UTIL","UUID":"GPU-%d","gpu":"%d","hostname":"n%d","job":"dcgm","instance":%q,"namespace":"gpu-operator","pod":"dcgm-x","container":"exporter","endpoint":"metrics","service":"dcgm","exported_namespace":"ml","exported_pod":"p%d","exported_container":"main"}`, gpu, gpu%8, gpu/8, target.instance, gpu)
		var values []string
		for i := range points {
			values = append(values, fmt.Sprintf(`[%d,"%d"]`, start.Unix()+int64(i)*15, (gpu+i)%100))
		}
		value := `"values":[` + strings.Join(values, ",") + `]`
		if points == 1 {
			value = `"value":` + values[0]
		}
		list = append(list, `{"metric":`+metric+`,`+value+`}`)
	}
	answer := []byte(`{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(list, ",") + `]}}`)
	p.ask = func(context.Context, string, url.Values) ([]byte, error) { return answer, nil }
	b.ReportMetric(float64(len(answer)), "bytes")
	return &Querier{of: p, failed: func(err error) { b.Error(err) }}
}

func benchmark(b *testing.B, points int, over time.Duration) {
	q := thousand(b, points)
	from := start.UnixMilli()
	name := labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "DCGM_FI_DEV_GPU_UTIL")
	hints := &storage.SelectHints{Start: from, End: from + over.Milliseconds(), Range: over.Milliseconds()}
	if points == 1 {
		hints.Range = 0
	}
	for b.Loop() {
		n := 0
		s := q.Select(b.Context(), true, hints, name)
		for s.Next() {
			it := s.At().Iterator(nil)
			for it.Next() == chunkenc.ValFloat {
				n++
			}
		}
		if n < 1000*points {
			b.Fatalf("%d samples; want %d", n, 1000*points)
		}
	}
}

// BenchmarkAMoment reads what a Prometheus has of 1,000 GPUs at one moment.
func BenchmarkAMoment(b *testing.B) { benchmark(b, 1, time.Minute) }

// BenchmarkAnHour reads what it has of one hour.
func BenchmarkAnHour(b *testing.B) { benchmark(b, 240, time.Hour) }
