package web

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"berth.dev/berth/metrics/scrape"
)

// matchers reads the parameters match[]: several selectors, of which one has to fit.
func matchers(r *http.Request) (out [][]*labels.Matcher, err error) {
	for _, text := range r.Form["match[]"] {
		if len(text) > mostText {
			return nil, bad("match[] has %d bytes; at most %d are taken", len(text), mostText)
		}
		m, err := parser.ParseMetricSelector(text)
		if err != nil {
			return nil, badData{err}
		}
		if !slices.ContainsFunc(m, func(m *labels.Matcher) bool { return !m.Matches("") }) {
			return nil, bad("match[]=%s must contain at least one non-empty matcher", text)
		}
		out = append(out, m)
	}
	return out, nil
}

// limit reads the parameter limit; 0 is none.
func limit(r *http.Request) (int, error) {
	text := r.FormValue("limit")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, bad("limit=%q is not a number from 0 on", text)
	}
	return n, nil
}

// querier opens the data in the time that is asked for, all of it by default.
func (s *Server) querier(r *http.Request) (storage.Querier, error) {
	end := s.Now()
	from, err := s.time(r, "start", end.AddDate(0, 0, -30))
	if err == nil {
		end, err = s.time(r, "end", end)
	}
	if err != nil {
		return nil, err
	}
	return s.Data.Querier(from.UnixMilli(), end.UnixMilli())
}

// series serves series: the labels of those that fit.
func (s *Server) series(r *http.Request) (any, []string, error) {
	sets, err := matchers(r)
	if err == nil && len(sets) == 0 {
		err = bad("match[] is missing: a selector such as up")
	}
	most, err2 := limit(r)
	if err == nil {
		err = err2
	}
	if err != nil {
		return nil, nil, err
	}
	if most == 0 || most > mostSeries {
		most = mostSeries
	}
	q, err := s.querier(r)
	if err != nil {
		return nil, nil, err
	}
	defer q.Close()
	found := map[uint64]labels.Labels{}
	var warnings []string
	for _, m := range sets {
		set := q.Select(r.Context(), true, nil, m...)
		for set.Next() {
			ls := set.At().Labels()
			if len(found) >= most {
				warnings = []string{fmt.Sprintf("results truncated due to limit: %d series", most)}
				break
			}
			found[ls.Hash()] = ls
		}
		if err := set.Err(); err != nil {
			return nil, nil, err
		}
	}
	list := slices.SortedFunc(maps.Values(found), labels.Compare)
	return append([]labels.Labels{}, list...), warnings, nil
}

// labels serves labels: the names there are.
func (s *Server) labels(r *http.Request) (any, []string, error) {
	return s.texts(r, func(q storage.Querier, m []*labels.Matcher) ([]string, error) {
		list, _, err := q.LabelNames(r.Context(), nil, m...)
		return list, err
	})
}

// values serves label/NAME/values.
func (s *Server) values(r *http.Request) (any, []string, error) {
	return s.texts(r, func(q storage.Querier, m []*labels.Matcher) ([]string, error) {
		list, _, err := q.LabelValues(r.Context(), r.PathValue("name"), nil, m...)
		return list, err
	})
}

func (s *Server) texts(r *http.Request, ask func(storage.Querier, []*labels.Matcher) ([]string, error)) (any, []string, error) {
	sets, err := matchers(r)
	if err != nil {
		return nil, nil, err
	}
	most, err := limit(r)
	if err != nil {
		return nil, nil, err
	}
	q, err := s.querier(r)
	if err != nil {
		return nil, nil, err
	}
	defer q.Close()
	if len(sets) == 0 {
		sets = [][]*labels.Matcher{nil}
	}
	found := map[string]bool{}
	for _, m := range sets {
		list, err := ask(q, m)
		if err != nil {
			return nil, nil, err
		}
		for _, text := range list {
			found[text] = true
		}
	}
	out := append([]string{}, slices.Sorted(maps.Keys(found))...)
	if most > 0 && len(out) > most {
		return out[:most], []string{"results truncated due to limit"}, nil
	}
	return out, nil, nil
}

// metadata serves metadata: what exporters say of metrics.
func (s *Server) metadata(r *http.Request) (any, []string, error) {
	most, err := limit(r)
	if err != nil {
		return nil, nil, err
	}
	out := map[string][]scrape.Metadata{}
	names := s.Names()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if only := r.FormValue("metric"); (only == "" || only == name) && (most == 0 || len(out) < most) {
			out[name] = []scrape.Metadata{names[name]}
		}
	}
	return out, nil, nil
}

// federate serves the newest samples of the series that fit, as text, for another Prometheus to read.
func (s *Server) federate(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	sets, err := matchers(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, m := range sets {
		q, err := s.Engine.NewInstantQuery(r.Context(), s.Data, nil, selector(m), s.Now())
		if err != nil {
			continue // a selector that is none has been refused above
		}
		if v, ok := q.Exec(r.Context()).Value.(promql.Vector); ok {
			for _, one := range v {
				line(w, one)
			}
		}
		q.Close()
	}
}

func selector(m []*labels.Matcher) string {
	v := &parser.VectorSelector{LabelMatchers: m}
	return v.String()
}

// line writes one sample in the text format.
func line(w http.ResponseWriter, s promql.Sample) {
	name := s.Metric.Get(model.MetricNameLabel)
	rest := labels.NewBuilder(s.Metric).Del(model.MetricNameLabel).Labels()
	_, _ = fmt.Fprintf(w, "%s%s %s %d\n", name, rest.String(), strconv.FormatFloat(s.F, 'g', -1, 64), s.T) // the client is gone
}
