package web

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
)

// result is what an expression gives.
type result struct {
	Type  parser.ValueType `json:"resultType"`
	Value parser.Value     `json:"result"`
}

// query serves query: an expression at one moment.
func (s *Server) query(r *http.Request) (any, []string, error) {
	at, err := s.time(r, "time", s.Now())
	if err != nil {
		return nil, nil, err
	}
	expr, err := expression(r)
	if err != nil {
		return nil, nil, err
	}
	q, err := s.Engine.NewInstantQuery(r.Context(), s.Data, nil, expr, at)
	if err != nil {
		return nil, nil, badData{err}
	}
	return run(r, q)
}

// queryRange serves query_range: an expression at many moments.
func (s *Server) queryRange(r *http.Request) (any, []string, error) {
	var from, to time.Time
	for name, t := range map[string]*time.Time{"start": &from, "end": &to} {
		at, err := s.time(r, name, time.Time{})
		if err != nil {
			return nil, nil, err
		}
		if at.IsZero() {
			return nil, nil, bad("%s is missing: a time such as 2026-11-02T09:00:00Z", name)
		}
		*t = at
	}
	step, err := duration(r.FormValue("step"))
	switch {
	case err != nil:
		return nil, nil, bad("step=%q: %v", r.FormValue("step"), err)
	case step <= 0:
		return nil, nil, bad("step=%q: must be above 0", r.FormValue("step"))
	case to.Before(from):
		return nil, nil, bad("end is before start")
	case to.Sub(from)/step > mostPoints:
		return nil, nil, bad("exceeded maximum resolution of %d points per timeseries: use a larger step", mostPoints)
	}
	expr, err := expression(r)
	if err != nil {
		return nil, nil, err
	}
	q, err := s.Engine.NewRangeQuery(r.Context(), s.Data, nil, expr, from, to, step)
	if err != nil {
		return nil, nil, badData{err}
	}
	return run(r, q)
}

func run(r *http.Request, q promql.Query) (any, []string, error) {
	defer q.Close()
	got := q.Exec(r.Context())
	if got.Err != nil {
		return nil, nil, got.Err
	}
	return result{got.Value.Type(), copied(got.Value)}, texts(got.Warnings), nil
}

// copied is a value that stays when its query is closed.
func copied(v parser.Value) parser.Value {
	switch v := v.(type) {
	case promql.Vector:
		return append(promql.Vector{}, v...)
	case promql.Matrix:
		out := make(promql.Matrix, 0, len(v))
		for _, s := range v {
			s.Floats = append([]promql.FPoint(nil), s.Floats...)
			out = append(out, s)
		}
		return out
	}
	return v
}

func texts(list annotations.Annotations) (out []string) {
	warnings, infos := list.AsStrings("", 10, 10)
	return append(warnings, infos...)
}

func expression(r *http.Request) (string, error) {
	expr := r.FormValue("query")
	switch {
	case expr == "":
		return "", bad("query is missing: an expression such as up")
	case len(expr) > mostText:
		return "", bad("the expression has %d bytes; at most %d are taken", len(expr), mostText)
	}
	return expr, nil
}

// time reads a time: seconds since 1970, or as in RFC 3339.
func (s *Server) time(r *http.Request, name string, otherwise time.Time) (time.Time, error) {
	text := r.FormValue(name)
	if text == "" {
		return otherwise, nil
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(seconds) < 1e11 {
		return time.UnixMilli(int64(math.Round(seconds * 1000))).UTC(), nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil && at.Year() > 0 && at.Year() < 5000 {
		return at, nil
	}
	return time.Time{}, bad("%s=%q is not a time such as 2026-11-02T09:00:00Z or 1793600000", name, text)
}

// duration reads seconds, or a duration such as 15s.
func duration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if !(math.Abs(seconds) < 1e9) {
			return 0, fmt.Errorf("must be less than 1e9 seconds")
		}
		return time.Duration(seconds * float64(time.Second)), nil
	}
	d, err := model.ParseDuration(text)
	return time.Duration(d), err
}
