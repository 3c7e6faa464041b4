package deviceplugin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// However late the goroutine that waits gets its turn, the one who gave up is
// named rightly.
func TestWhoeverGivesUpFirstIsNamed(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	mute := func(context.Context) error { <-end; return nil }
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, c := range []struct {
		name  string
		ctx   context.Context //nolint:containedctx // an input of the case
		limit time.Duration
		want  string
	}{
		{"a time that is over before anybody looks is the node's", t.Context(), time.Microsecond, "Allocate of nvidia.com/gpu was not answered within 1µs: "},
		{"no time at all is the node's", t.Context(), -1, "Allocate of nvidia.com/gpu was not answered within "},
		{"a kubelet that has left is told nothing new", gone, time.Hour, context.Canceled.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlugin("nvidia.com/gpu", Options{}.Allowing(c.limit).withDefaults(), idle{}, func(error) {})
			for range 1000 {
				if err := p.guard(c.ctx, "Allocate", mute); err == nil || !strings.HasPrefix(err.Error(), c.want) {
					t.Fatalf("guard = %v, want %q", err, c.want)
				}
			}
		})
	}
	p := newPlugin("nvidia.com/gpu", Options{}.withDefaults(), idle{}, func(error) {})
	fail := errors.New("no such device")
	if err := p.guard(t.Context(), "Allocate", func(context.Context) error { return fail }); !errors.Is(err, fail) {
		t.Errorf("guard = %v, want the node's own error", err)
	}
}
