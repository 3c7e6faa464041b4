package proxy

import (
	"io"
	"net/http"
	"strconv"
	"strings"

	"berth.dev/berth/activator/gate"
)

// retryAfter is how many seconds a client should wait before it asks again.
const retryAfter = 5

// The codes of gRPC for what HTTP's 502 and 503 say.
const grpcUnavailable = 14

// refuse answers a request that was not let through.
func (s *Service) refuse(w http.ResponseWriter, r *http.Request, why *gate.Refusal) {
	if why.Reason == gate.WentAway {
		panic(http.ErrAbortHandler)
	}
	text := "InferenceService " + s.name + " cannot answer: " + why.Text
	if clause := s.why.Load(); clause != nil && *clause != "" && why.Reason != gate.Closed {
		text += "; " + *clause
	}
	answer(w, r, http.StatusServiceUnavailable, text)
}

// answer writes a sentence for people with a status, as gRPC expects it if the request
// was one of its.
func answer(w http.ResponseWriter, r *http.Request, status int, text string) {
	h := w.Header()
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		h.Set("Content-Type", "application/grpc")
		h.Set("Grpc-Status", strconv.Itoa(grpcUnavailable))
		h.Set("Grpc-Message", grpcText(text))
		w.WriteHeader(http.StatusOK)
		return
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // the client may have gone
}

// grpcText escapes a message as gRPC over HTTP/2 asks: bytes outside of printable ASCII,
// and '%', as %XX.
func grpcText(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
