package proxy_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"testing"

	"berth.dev/berth/activator/proxy"
)

// slow is a listener whose Accept notices only at the second Close that it is closed.
type slow struct {
	net.Listener
	accepting chan struct{}
	closed    chan struct{}
	times     int
}

func (s *slow) Accept() (net.Conn, error) {
	close(s.accepting)
	<-s.closed
	return nil, net.ErrClosed
}

func (s *slow) Close() error {
	if s.times++; s.times == 2 {
		close(s.closed)
	}
	return s.Listener.Close()
}

// A listener can be closed, as that of a service which is deleted, and not have ended when the server drains.
func TestADrainAfterAListenerWasClosedSucceeds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &slow{Listener: l, accepting: make(chan struct{}), closed: make(chan struct{})}
	server := proxy.NewServer(log.New(io.Discard, "", 0))
	server.Serve(s, http.NotFoundHandler())
	<-s.accepting
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := server.Drain(context.Background(), func() {}); err != nil {
		t.Error(err)
	}
	if err := s.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a listener that Drain should have closed says %v", err)
	}
}
