package send

import (
	"net/http"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
)

// remoteWrite is version 1 of Prometheus' remote write, which all receivers take: https://prometheus.io/docs/specs/prw/remote_write_spec/.
type remoteWrite struct{}

func (remoteWrite) headers() map[string]string {
	return map[string]string{"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0"}
}

func (remoteWrite) encode(points []point) ([]byte, error) {
	req := prompb.WriteRequest{Timeseries: make([]prompb.TimeSeries, 0, len(points))}
	at := make(map[*labels.Labels]int)
	for i := range points {
		p := &points[i]
		key := p.Series.Key()
		n, has := at[key]
		if !has {
			n = len(req.Timeseries)
			at[key] = n
			req.Timeseries = append(req.Timeseries, prompb.TimeSeries{Labels: prompb.FromLabels(*key, nil)})
		}
		one := &req.Timeseries[n]
		one.Samples = append(one.Samples, prompb.Sample{Value: p.Value, Timestamp: p.at.UnixMilli()})
	}
	raw, err := req.Marshal()
	if err != nil {
		return nil, err
	}
	return snappy.Encode(nil, raw), nil
}

// again is what the protocol has tried again: errors of the server, and too many requests.
func (remoteWrite) again(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests
}

func (remoteWrite) refused([]byte) (n int64, why string) { return 0, "" }
