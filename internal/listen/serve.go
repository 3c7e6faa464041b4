package listen

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Serve answers the requests that come to l with handler until stop is called,
// which closes l. Requests under way may take patience longer; stop returns when
// the last of them has ended or was cut off.
func Serve(l net.Listener, handler http.Handler, patience time.Duration) (stop func()) {
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // it ends with ErrServerClosed
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = errors.Join(s.Shutdown(ctx), s.Close()) // nobody is left to be told
		<-done
	}
}
