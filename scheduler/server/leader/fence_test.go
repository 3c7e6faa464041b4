package leader

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestALeaderWaitsUntilTheAPIServerKnowsIt(t *testing.T) {
	away := errors.New("connection refused")
	for _, tt := range []struct {
		name    string
		answers []error // before it knows; nil is that it knows another leader
		takes   time.Duration
	}{
		{"the API server knows", nil, settles},
		{"the API server learns of it", []error{nil, nil}, settles + 2*lookAgain},
		{"the API server was away", []error{away, nil}, settles + 2*lookAgain},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, asked := time.Now(), 0
				err := Fenced(t.Context(), func(context.Context) (bool, error) {
					if asked++; asked <= len(tt.answers) {
						return false, tt.answers[asked-1]
					}
					return true, nil
				})
				if took := time.Since(began); err != nil || took != tt.takes {
					t.Errorf("%v after %s, want nil after %s", err, took, tt.takes)
				}
			})
		})
	}
}

func TestALeaderThatIsRefusedGivesUp(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		err        error
	}{
		{"another one leads", "ask the API server who leads: for 1m0s it has refused the bindings of this scheduler, as of one that does not lead", nil},
		{"the API server is away", "ask the API server who leads: connection refused", errors.New("connection refused")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := Fenced(t.Context(), func(context.Context) (bool, error) { return false, tt.err })
				if err == nil || err.Error() != tt.want {
					t.Errorf("got %v, want %s", err, tt.want)
				}
			})
		})
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := Fenced(ended, func(context.Context) (bool, error) { return false, nil }); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "ask ") {
		t.Errorf("told to stop it gives %v", err)
	}
}
