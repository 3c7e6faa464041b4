package listen

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// Here refuses requests for another host than this machine. A page in a browser can
// have its own name lead to a loopback address, and would then be let read what is
// served there as its own.
func Here(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			name = strings.Trim(r.Host, "[]")
		}
		if ip := net.ParseIP(name); !strings.EqualFold(name, "localhost") && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "this address is for localhost, and the request is for another host", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// Serve answers the requests that come to l with handler until stop is called,
// which closes l. Where l is of this machine alone, requests under any other name than
// its own are refused: see Here. Requests under way may take patience longer; stop returns when
// the last of them has ended or was cut off.
func Serve(l net.Listener, handler http.Handler, patience time.Duration) (stop func()) {
	if addr, ok := l.Addr().(*net.TCPAddr); ok && addr.IP.IsLoopback() {
		handler = Here(handler)
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // it ends with ErrServerClosed
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = errors.Join(s.Shutdown(ctx), s.Close()) // there is no caller left to report to
		<-done
	}
}
