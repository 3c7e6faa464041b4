package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth.dev/berth/internal/pause"
)

func TestFor(t *testing.T) {
	for _, tt := range []struct {
		name      string
		wait, end time.Duration // end is when the context ends; 0 is before
		took      time.Duration
		want      bool
	}{
		{"it waits as long as it is told", time.Minute, time.Hour, time.Minute, true},
		{"it does not wait for nothing", 0, time.Hour, 0, true},
		{"a negative time is nothing", -time.Second, time.Hour, 0, true},
		{"it ends with the context", time.Hour, time.Minute, time.Minute, false},
		{"it does not begin when the context has ended", time.Hour, 0, 0, false},
		{"nor say that it has waited for nothing", 0, 0, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if tt.end == 0 {
					stop()
				} else {
					time.AfterFunc(tt.end, stop)
				}
				began := time.Now()
				if got := pause.For(ctx, tt.wait); got != tt.want || time.Since(began) != tt.took {
					t.Errorf("For(%v) = %v after %v, want %v after %v", tt.wait, got, time.Since(began), tt.want, tt.took)
				}
			})
		})
	}
}

func TestShorter(t *testing.T) {
	for _, tt := range []struct {
		name       string
		a, b, want time.Duration
	}{
		{"the shorter is the first", time.Second, time.Minute, time.Second},
		{"the shorter is the second", time.Minute, time.Second, time.Second},
		{"the first is none", 0, time.Minute, time.Minute},
		{"the second is none", time.Minute, 0, time.Minute},
		{"a negative wait is none", time.Minute, -time.Second, time.Minute},
		{"both are none", 0, 0, 0},
	} {
		if got := pause.Shorter(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: Shorter(%v, %v) = %v, want %v", tt.name, tt.a, tt.b, got, tt.want)
		}
	}
}
