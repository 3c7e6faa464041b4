package report

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// recorder notes the events that get to it.
type recorder struct{ got *[]string }

func (r recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	*r.got = append(*r.got, regarding.(*v1.Pod).Name+" "+reason+" "+fmt.Sprintf(note, args...))
}

func (r recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

func TestARefusalIsToldOncePerChange(t *testing.T) {
	var got []string
	q := (&Recorder{EventRecorderLogger: recorder{&got}, Told: NewHistory(time.Now())}).WithLogger(klog.Background())
	a := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}}
	b := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "2"}}
	say := func(pod *v1.Pod, reason, note string, args ...any) {
		q.Eventf(pod, nil, v1.EventTypeWarning, reason, "Scheduling", note, args...)
	}
	say(a, "FailedScheduling", "%d nodes are full", 3)
	say(a, "FailedScheduling", "3 nodes are full") // the same words
	say(b, "FailedScheduling", "3 nodes are full") // another pod
	say(a, "FailedScheduling", "2 nodes are full")
	say(a, "FailedScheduling", "2 nodes are full")
	say(a, "FailedScheduling", "3 nodes are full") // as before the change
	say(a, "Scheduled", "on n")
	say(a, "Scheduled", "on n") // whatever else is told is told
	say(a, "FailedScheduling", "3 nodes are full")
	want := []string{
		"a FailedScheduling 3 nodes are full", "b FailedScheduling 3 nodes are full", "a FailedScheduling 2 nodes are full",
		"a FailedScheduling 3 nodes are full", "a Scheduled on n", "a Scheduled on n", "a FailedScheduling 3 nodes are full",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("told\n%q\nwant\n%q", got, want)
	}
}

// TestToldEqualsItsDefinition compares told with one that forgets nothing, over a
// day of random refusals.
func TestToldEqualsItsDefinition(t *testing.T) {
	type last struct {
		message string
		at      time.Time
	}
	for seed := range int64(20) {
		rng := rand.New(rand.NewSource(seed))
		now := time.Unix(0, 0)
		told, all := NewHistory(now), map[types.UID]last{}
		for range 3000 {
			now = now.Add(time.Duration(rng.Int63n(int64(time.Minute))))
			uid, message := types.UID(fmt.Sprint(rng.Intn(9))), fmt.Sprint(rng.Intn(3))
			if rng.Intn(10) == 0 {
				told.forget(string(uid))
				delete(all, uid)
			}
			was, ok := all[uid]
			want := !ok || was.message != message || now.Sub(was.at) >= retell
			if want {
				all[uid] = last{message, now}
			}
			if got := told.isNews(string(uid), message, now); got != want {
				t.Fatalf("seed %d at %s: news %v, want %v", seed, now.UTC().Format(time.TimeOnly), got, want)
			}
		}
	}
}

func TestToldForgets(t *testing.T) {
	now := time.Unix(0, 0)
	told := NewHistory(now)
	for i := range 10000 {
		told.isNews(fmt.Sprint(i), "full", now.Add(time.Duration(i)*time.Second))
	}
	if n, most := len(told.now)+len(told.last), int(2*retell/time.Second); n > most {
		t.Errorf("%d objects are remembered, want at most the %d of the last hour", n, most)
	}
}
