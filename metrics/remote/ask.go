package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	Metric labels.Labels
	Value  sample
	Values []sample
}

// sample is a pair of seconds and a number as text.
type sample store.Point

// UnmarshalJSON implements json.Unmarshaler.
func (s *sample) UnmarshalJSON(raw []byte) error {
	var seconds float64
	var text string
	if err := json.Unmarshal(raw, &[]any{&seconds, &text}); err != nil {
		return err
	}
	v, err := strconv.ParseFloat(text, 64)
	s.T, s.V = int64(seconds*1000+0.5), v
	return err
}

// get asks for what an answer of Prometheus has as its data.
func (p *Prometheus) get(ctx context.Context, path string, params url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	raw, err := p.ask(ctx, path, params)
	if err != nil {
		return err
	}
	var answer struct {
		Status string
		Data   json.RawMessage
		Error  string
	}
	if err = json.Unmarshal(raw, &answer); err == nil && answer.Status != "success" {
		err = errors.New(answer.Error)
	}
	if err == nil {
		err = json.Unmarshal(answer.Data, into)
	}
	if err != nil {
		return fmt.Errorf("its answer is not understood: %w", err)
	}
	return nil
}

// at has an expression evaluated at one moment.
func (p *Prometheus) at(ctx context.Context, expr string, t time.Time) ([]series, error) {
	var data struct{ Result []series }
	err := p.get(ctx, "api/v1/query", url.Values{"query": {expr}, "time": {seconds(t.UnixMilli())}}, &data)
	return data.Result, err
}

// over has an expression evaluated at many moments, from a time to another in milliseconds.
func (p *Prometheus) over(ctx context.Context, expr string, from, to, step int64) ([]series, error) {
	var data struct{ Result []series }
	err := p.get(ctx, "api/v1/query_range", url.Values{"query": {expr}, "start": {seconds(from)}, "end": {seconds(to)}, "step": {seconds(step)}}, &data)
	return data.Result, err
}

func seconds(millis int64) string { return strconv.FormatFloat(float64(millis)/1000, 'f', 3, 64) }
