package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"berth.dev/berth/metrics/rules"
)

// alert is one in an answer, as Prometheus writes it.
type alert struct {
	Labels      labels.Labels     `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	State       rules.State       `json:"state"`
	ActiveAt    time.Time         `json:"activeAt"`
	Value       string            `json:"value"`
}

func alertOf(a *rules.Alert) alert {
	return alert{a.Labels, a.Annotations, a.State, a.Since.UTC(), strconv.FormatFloat(a.Value, 'e', -1, 64)}
}

// alerts serves alerts: what is pending and firing.
func (s *Server) alerts(*http.Request) (any, []string, error) {
	out := []alert{}
	for _, a := range s.Rules.Alerts() {
		out = append(out, alertOf(&a))
	}
	return map[string]any{"alerts": out}, nil, nil
}

// rule is one in an answer.
type rule struct {
	Name        string            `json:"name"`
	Query       string            `json:"query"`
	Duration    *float64          `json:"duration,omitempty"` // seconds
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Alerts      []alert           `json:"alerts,omitempty"`
	State       string            `json:"state,omitempty"`
	Health      string            `json:"health"`
	LastError   string            `json:"lastError,omitempty"`
	Type        string            `json:"type"`
	Evaluated   time.Time         `json:"lastEvaluation"`
}

type group struct {
	Name     string    `json:"name"`
	File     string    `json:"file"`
	Interval float64   `json:"interval"` // seconds
	Rules    []rule    `json:"rules"`
	At       time.Time `json:"lastEvaluation"`
	Took     float64   `json:"evaluationTime"` // seconds
}

// rules serves rules: all of them, with their alerts.
func (s *Server) rules(r *http.Request) (any, []string, error) {
	last := s.Rules.Last()
	g := group{Name: rules.GroupName, File: "berth", Interval: rules.Interval.Seconds(), Rules: []rule{}, At: last.At.UTC(), Took: last.Took.Seconds()}
	kind := r.FormValue("type")
	finish := func(one rule) {
		one.Evaluated, one.Health = g.At, "ok"
		if err := last.Errs[one.Name]; err != nil {
			one.Health, one.LastError = "err", err.Error()
		} else if last.At.IsZero() {
			one.Health = "unknown"
		}
		g.Rules = append(g.Rules, one)
	}
	if kind == "" || kind == "record" {
		for _, rec := range rules.Records() {
			finish(rule{Name: rec.Name, Query: rec.Expr, Type: "recording"})
		}
	}
	if kind == "" || kind == "alert" {
		active := map[string][]alert{}
		states := map[string]string{}
		for _, a := range s.Rules.Alerts() { // those that fire come first
			active[a.Rule.Name] = append(active[a.Rule.Name], alertOf(&a))
			if states[a.Rule.Name] == "" {
				states[a.Rule.Name] = string(a.State)
			}
		}
		for _, one := range s.Rules.Rules() {
			state := states[one.Name]
			if state == "" {
				state = "inactive"
			}
			finish(rule{
				Name: one.Name, Query: one.Expr, Duration: new(one.For.Seconds()), Labels: map[string]string{"severity": string(one.Severity)},
				Annotations: map[string]string{"summary": one.Summary, "runbook": one.Page()}, Alerts: active[one.Name], State: state, Type: "alerting",
			})
		}
	}
	return map[string]any{"groups": []group{g}}, nil, nil
}
