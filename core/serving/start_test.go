package serving_test

import (
	"testing"
	"time"

	"berth.dev/berth/core/serving"
)

func TestPhasesOfAStart(t *testing.T) {
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for _, tt := range []struct {
		name  string
		times serving.Times
		want  string
		total time.Duration
	}{
		{
			"with a download",
			serving.Times{Created: at(0), Bound: at(5), FetchBegan: at(7), FetchEnded: at(60), Server: at(70), Ready: at(100)},
			"queue 5s, pull 12s, download 53s, load 30s", 100 * time.Second,
		},
		{"the model is in a volume", serving.Times{Created: at(0), Bound: at(0), Server: at(3), Ready: at(93)}, "queue 0s, pull 3s, download 0s, load 1m30s", 93 * time.Second},
		{"the node's clock is behind", serving.Times{Created: at(10), Bound: at(11), Server: at(8), Ready: at(9)}, "queue 1s, pull 0s, download 0s, load 1s", 2 * time.Second},
		{"a download that has no end", serving.Times{Created: at(0), Bound: at(1), FetchBegan: at(2), Server: at(4), Ready: at(5)}, "queue 1s, pull 3s, download 0s, load 1s", 5 * time.Second},
		{"not ready", serving.Times{Created: at(0), Bound: at(1), Server: at(2)}, "", 0},
		{"a server that was started twice has no start", serving.Times{Created: at(0), Bound: at(1), Ready: at(2)}, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, ok := serving.StartOf(&tt.times)
			if !ok {
				if tt.want != "" {
					t.Fatal("no start is known")
				}
				return
			}
			if s.String() != tt.want || s.Total() != tt.total {
				t.Errorf("the start is %q, %v in all; want %q, %v", s, s.Total(), tt.want, tt.total)
			}
			again, ok := serving.ParseStart(s.String())
			if !ok || again.String() != tt.want {
				t.Errorf("read again it is %q, %v", again, ok)
			}
		})
	}
}

func TestTextsThatAreNoStart(t *testing.T) {
	for _, text := range []string{"", "queue 1s", "queue 1s, pull 2s, download 8s, load", "queue 1s, pull 2s, download 8s, load -3s", "queue 1s, pull 2s, download 8s, load 3s, nap 1s", "queue 1s, queue 2s, download 8s, load 3s"} {
		if s, ok := serving.ParseStart(text); ok {
			t.Errorf("%q is read as %v", text, s)
		}
	}
}
