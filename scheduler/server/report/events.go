package report

import (
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// retell is how long a refusal that does not change is told once. The API server
// forgets events after an hour (kube-apiserver's --event-ttl), so that a pod that
// waits always has one.
const retell = 30 * time.Minute

// reasonFailed is the reason of the event that says why a pod is not scheduled.
const reasonFailed = "FailedScheduling"

// Recorder is an event recorder that tells why a pod is not scheduled once for each
// change of the message, where the framework tells it at every try. All other
// events pass.
type Recorder struct {
	events.EventRecorderLogger
	Told *history
}

// Eventf implements events.EventRecorder.
func (q *Recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	if object, err := meta.Accessor(regarding); err == nil {
		switch {
		case reason != reasonFailed:
			q.Told.forget(string(object.GetUID()))
		case !q.Told.isNews(string(object.GetUID()), format(note, args), time.Now()):
			return
		}
	}
	q.EventRecorderLogger.Eventf(regarding, related, eventtype, reason, action, note, args...)
}

// WithLogger implements events.EventRecorderLogger.
func (q *Recorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return &Recorder{EventRecorderLogger: q.EventRecorderLogger.WithLogger(logger), Told: q.Told}
}

func format(note string, args []any) string {
	if len(args) == 0 {
		return note
	}
	return fmt.Sprintf(note, args...)
}

// history is what was said last of each object that was refused. What was neither
// said nor asked for in the last retell to twice that is forgotten.
type history struct {
	seed  maphash.Seed
	epoch time.Time // what times are counted from

	mu    sync.Mutex
	began time.Duration // when now began
	now   map[uint64]saying
	last  map[uint64]saying
}

// saying is a message, and when it was told.
type saying struct {
	hash uint64
	at   time.Duration
}

// NewHistory returns a history of messages in which nothing was said. Times in it are
// counted from epoch.
func NewHistory(epoch time.Time) *history {
	return &history{seed: maphash.MakeSeed(), epoch: epoch, now: map[uint64]saying{}}
}

// isNews says whether message is to be told of the object with the given UID: it
// is another than the last, or that was told long ago. It remembers it then.
func (t *history) isNews(uid, message string, now time.Time) bool {
	key, hash, at := maphash.String(t.seed, uid), maphash.String(t.seed, message), now.Sub(t.epoch)
	t.mu.Lock()
	defer t.mu.Unlock()
	if at-t.began >= retell {
		t.last, t.now, t.began = t.now, map[uint64]saying{}, at
	}
	was, ok := t.now[key]
	if !ok {
		was, ok = t.last[key]
	}
	news := !ok || was.hash != hash || at-was.at >= retell
	if news {
		was = saying{hash, at}
	}
	t.now[key] = was
	return news
}

// forget drops what was said of an object that had other news.
func (t *history) forget(uid string) {
	key := maphash.String(t.seed, uid)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.now, key)
	delete(t.last, key)
}
