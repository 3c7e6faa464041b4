package ledger

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/test/soak"
)

// TestLostDaysComeBackFromCopies damages books at random. A lost day whose copy is that with which it was closed is charged as it was, also after
// all days are closed again, and what else is lost is still said. A copy that was changed restores nothing.
func TestLostDaysComeBackFromCopies(t *testing.T) {
	soak.Plainly(t)
	good := aBook(t)
	restored, refused := 0, 0
	for seed := range soak.Pick(uint64(4), 300) {
		r := rand.New(rand.NewPCG(seed, 52))
		path := filepath.Join(t.TempDir(), "ledger.db")
		b, _, how := good.damaged(t, r, path)
		lost, err := b.Lost(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		copies := slices.Clone(good.copies)
		changed := &copies[r.IntN(len(copies))]
		changed.Rows = slices.Clone(changed.Rows)
		changed.Rows[0].Micros++
		changed.Sums = SumsHash(changed.Rows) // a person who changes rows may change this, too
		var want, left []time.Time
		for _, day := range lost {
			if day.Equal(changed.Day) {
				left = append(left, day)
			} else {
				want = append(want, day)
			}
		}
		n, err := b.Repair(t.Context(), copies)
		if err != nil || n != len(want) {
			t.Errorf("seed %d, %s: %d of the days %v are restored, %v; want %v", seed, how, n, lost, err, want)
		}
		restored, refused = restored+n, refused+len(left)
		if still, err := b.Lost(t.Context()); err != nil || !slices.Equal(still, left) {
			t.Errorf("seed %d, %s: the days %v are lost still, %v; want %v", seed, how, still, err, left)
		}
		if n, err := b.Repair(t.Context(), copies); err != nil || n != 0 {
			t.Errorf("seed %d, %s: %d days are restored again, %v", seed, how, n, err)
		}
		for range 2 {
			for _, day := range want {
				if got := charged(t, b, day); got != good.charged[day] {
					t.Errorf("seed %d, %s: %v is charged %d and was %d", seed, how, day, got, good.charged[day])
				}
			}
			for _, p := range good.compare(t, b) {
				t.Errorf("seed %d, %s: %s", seed, how, p)
			}
			closeAll(t, b, good.end.Add(2*cost.Day))
		}
		_ = b.Close()
	}
	t.Logf("%d days were restored, and %d had another copy", restored, refused)
	if restored == 0 || refused == 0 {
		t.Errorf("%d days were restored, and %d had another copy: that shows little", restored, refused)
	}
}

func TestLossesOfRestoredDays(t *testing.T) {
	day := func(n, hour int) time.Time { return time.Date(2026, 11, n, hour, 0, 0, 0, time.UTC) }
	losses := []cost.Loss{
		{From: day(2, 9), To: day(5, 0), What: "some of who held GPUs, prices"},
		{From: day(2, 9), To: day(5, 0), What: "some of how busy GPUs were"},
		{From: day(3, 9), To: day(4, 0), Node: "a100-1", What: "what 3 pods held"},
	}
	for _, test := range []struct {
		name string
		day  time.Time
		want string
	}{
		{"a day in the middle", day(3, 0), "2 09-3 00, 3 00-4 00 whole, 4 00-5 00"},
		{"the first day, which begins later", day(2, 0), "2 09-3 00 whole, 3 00-5 00"},
		{"the last day", day(4, 0), "2 09-4 00, 4 00-5 00 whole"},
		{"a day before it", day(1, 0), "2 09-5 00"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out := mended(losses, test.day)
			if !slices.Equal(out[len(out)-2:], losses[1:]) {
				t.Errorf("other losses are %v", out)
			}
			text := ""
			for _, l := range out[:len(out)-2] {
				if text != "" {
					text += ", "
				}
				text += l.From.Format("2 15") + "-" + l.To.Format("2 15")
				if l.What == losses[0].What+sumsAreWhole {
					text += " whole"
				}
			}
			if text != test.want {
				t.Errorf("losses of facts are %s; want %s", text, test.want)
			}
		})
	}
}
