package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"berth.dev/berth/metrics/store"
)

// Ask gets a path of Prometheus' HTTP API, such as api/v1/query, with parameters, and returns the body of the answer. It is an
// error if the status is not 200 and the body is not an answer of Prometheus.
type Ask func(ctx context.Context, path string, params url.Values) ([]byte, error)

// patience is how long one answer may take.
const patience = 10 * time.Second

// series is one of an answer.
type series struct {
	Metric json.RawMessage // its labels
	Value  sample
	Values samples
}

// labels are those that the Prometheus has.
func (s *series) labels() (ls labels.Labels) {
	_ = json.Unmarshal(s.Metric, &ls) // which has been read as JSON before; then it has none
	return ls
}

// sample is a pair of seconds and a number as text.
type sample store.Point

// UnmarshalJSON implements json.Unmarshaler.
func (s *sample) UnmarshalJSON(raw []byte) error {
	before, after, ok := bytes.Cut(raw, []byte(","))
	at, err := strconv.ParseFloat(string(bytes.Trim(before, "[ \t\r\n")), 64)
	v, err2 := strconv.ParseFloat(string(bytes.Trim(after, "\"] \t\r\n")), 64)
	if err := errors.Join(err, err2); err != nil || !ok {
		return fmt.Errorf("sample %s is not a time and a number", raw)
	}
	s.T, s.V = int64(math.Round(at*1000)), v
	return nil
}

// samples is a list of them.
type samples []store.Point

// UnmarshalJSON implements json.Unmarshaler: of a list as a whole, as there are millions of samples.
func (list *samples) UnmarshalJSON(raw []byte) error {
	out := make(samples, 0, bytes.Count(raw, []byte("]")))
	raw = bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("["))
	for {
		begin, end := bytes.IndexByte(raw, '['), bytes.IndexByte(raw, ']')
		if begin < 0 || end < begin {
			*list = out
			return nil
		}
		var s sample
		if err := s.UnmarshalJSON(raw[begin : end+1]); err != nil {
			return err
		}
		out = append(out, store.Point(s))
		raw = raw[end+1:]
	}
}

// get asks for what an answer of Prometheus has as its data.
func get[T any](ctx context.Context, p *Prometheus, path string, params url.Values) (data T, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	raw, err := p.ask(ctx, path, params)
	if err != nil {
		return data, err
	}
	return decode[T](raw)
}

func decode[T any](raw []byte) (T, error) {
	var answer struct {
		Status, Error string
		Data          T
	}
	err := json.Unmarshal(raw, &answer)
	if err == nil && answer.Status != "success" {
		err = fmt.Errorf("its status is %q %s", answer.Status, answer.Error)
	}
	if err != nil {
		return answer.Data, fmt.Errorf("read its answer: %w", err)
	}
	return answer.Data, nil
}

// result is the data of an answer to an expression.
type result struct{ Result []series }

// evaluated asks for what an expression gives.
func (p *Prometheus) evaluated(ctx context.Context, path string, params url.Values) ([]series, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	raw, err := p.ask(ctx, path, params)
	if err != nil {
		return nil, err
	}
	if list, ok := quick(raw); ok {
		return list, nil
	}
	data, err := decode[result](raw)
	return data.Result, err
}

// at has an expression evaluated at one moment.
func (p *Prometheus) at(ctx context.Context, expr string, t time.Time) ([]series, error) {
	return p.evaluated(ctx, "api/v1/query", url.Values{"query": {expr}, "time": {seconds(t.UnixMilli())}})
}

// over has an expression evaluated at many moments, from a time to another in milliseconds.
func (p *Prometheus) over(ctx context.Context, expr string, from, to, step int64) ([]series, error) {
	return p.evaluated(ctx, "api/v1/query_range", url.Values{"query": {expr}, "start": {seconds(from)}, "end": {seconds(to)}, "step": {seconds(step)}})
}

func seconds(millis int64) string { return strconv.FormatFloat(float64(millis)/1000, 'f', 3, 64) }
