package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"berth.dev/berth/internal/buildinfo"
	"berth.dev/berth/metrics/rules"
	"berth.dev/berth/metrics/scrape"
)

// The bounds of queries.
const (
	mostText    = 20000            // bytes of an expression
	mostSamples = 5_000_000        // that a query has in memory: 80 MB
	mostPoints  = 11000            // of a series in an answer, as Prometheus has it
	mostSeries  = 50000            // of an answer to series
	atOnce      = 2                // queries; others wait
	patience    = 20 * time.Second // for a query
	mostBody    = 1 << 20          // bytes of a form
)

// NewEngine is a PromQL engine with these bounds.
func NewEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{MaxSamples: mostSamples, Timeout: patience, EnableAtModifier: true, EnableNegativeOffset: true})
}

// Server answers. Its fields are read only.
type Server struct {
	Engine *promql.Engine
	Data   storage.Queryable
	Names  func() map[string]scrape.Metadata // what is known of metrics
	Rules  *rules.Evaluator
	Now    func() time.Time
}

// Handler serves the API below a path, which ends with a slash.
func (s *Server) Handler(root string) http.Handler {
	mux := http.NewServeMux()
	slots := make(chan struct{}, atOnce)
	api := root + "api/v1/"
	for path, f := range map[string]func(*http.Request) (any, []string, error){
		"query": s.query, "query_range": s.queryRange, "series": s.series, "labels": s.labels, "label/{name}/values": s.values,
	} {
		h := answering(slots, f)
		mux.HandleFunc("GET "+api+path, h)
		mux.HandleFunc("POST "+api+path, h)
	}
	for path, f := range map[string]func(*http.Request) (any, []string, error){
		"metadata": s.metadata, "rules": s.rules, "alerts": s.alerts, "status/buildinfo": s.build,
	} {
		mux.HandleFunc("GET "+api+path, answering(nil, f))
	}
	mux.HandleFunc("GET "+root+"federate", s.federate)
	mux.HandleFunc("GET "+root+"-/healthy", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "Berth is healthy.") })
	mux.HandleFunc(api, func(w http.ResponseWriter, r *http.Request) {
		write(w, http.StatusNotFound, reply{Status: "error", ErrorType: "not_found", Error: r.URL.Path + " is not served by Berth, which has a part of Prometheus' API: see docs/metrics.md"})
	})
	return mux
}

// reply is the frame of all answers.
type reply struct {
	Status    string   `json:"status"`
	Data      any      `json:"data,omitempty"`
	ErrorType string   `json:"errorType,omitempty"`
	Error     string   `json:"error,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
}

// badData is an error of the one who asks.
type badData struct{ error }

func bad(format string, args ...any) error { return badData{fmt.Errorf(format, args...)} }

// answering answers with what f returns. As many run at the same time as there are slots.
func answering(slots chan struct{}, f func(*http.Request) (data any, warnings []string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		if slots != nil {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
				write(w, http.StatusServiceUnavailable, reply{Status: "error", ErrorType: "timeout", Error: "too many queries run at the same time"})
				return
			}
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		r = r.WithContext(ctx)
		if err := r.ParseForm(); err != nil {
			write(w, http.StatusBadRequest, reply{Status: "error", ErrorType: "bad_data", Error: err.Error()})
			return
		}
		data, warnings, err := f(r)
		if err == nil {
			write(w, http.StatusOK, reply{Status: "success", Data: data, Warnings: warnings})
			return
		}
		status, kind := kindOf(err)
		write(w, status, reply{Status: "error", ErrorType: kind, Error: err.Error()})
	}
}

// kindOf is an error as Prometheus names it.
func kindOf(err error) (status int, kind string) {
	var timeout promql.ErrQueryTimeout
	var canceled promql.ErrQueryCanceled
	var storage promql.ErrStorage
	switch {
	case errors.As(err, &badData{}):
		return http.StatusBadRequest, "bad_data"
	case errors.As(err, &timeout), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, "timeout"
	case errors.As(err, &canceled), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable, "canceled"
	case errors.As(err, &storage):
		return http.StatusInternalServerError, "internal"
	}
	return http.StatusUnprocessableEntity, "execution"
}

func write(w http.ResponseWriter, status int, r reply) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(r) // the client is gone
}

// build is what clients learn the abilities of a Prometheus from: the version is that of the engine.
func (s *Server) build(*http.Request) (any, []string, error) {
	return map[string]string{"application": "Berth", "version": "3.8.1", "revision": buildinfo.Version, "branch": "", "buildUser": "", "buildDate": "", "goVersion": ""}, nil, nil
}
