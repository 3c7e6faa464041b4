package controlplane

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestALedgerThatCannotBeOpenedIsTriedAgain has one fail once: answers say why, and then it serves.
func TestALedgerThatCannotBeOpenedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lateHandler
		answer := func() string {
			w := httptest.NewRecorder()
			l.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/berth/v1/cost", nil))
			return w.Body.String()
		}
		if got := answer(); !strings.Contains(got, "the ledger is not open yet; try again in a moment") {
			t.Errorf("before it is open the answer is %s", got)
		}
		ctx, stop := context.WithCancel(t.Context())
		tries := 0
		go l.keep(ctx, slog.New(slog.DiscardHandler), func(ctx context.Context) error {
			if tries++; tries == 1 {
				return errors.New("no space left on device")
			}
			l.set(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("served")) }))
			<-ctx.Done()
			return nil
		})
		synctest.Wait()
		if got := answer(); !strings.Contains(got, "the ledger cannot be used: no space left on device; it is tried again every 30s") {
			t.Errorf("after it has failed the answer is %s", got)
		}
		time.Sleep(openAgain)
		synctest.Wait()
		if got := answer(); got != "served" {
			t.Errorf("after the next try the answer is %s", got)
		}
		stop()
		synctest.Wait()
		if tries != 2 {
			t.Errorf("the ledger was tried %d times, want 2", tries)
		}
	})
}
