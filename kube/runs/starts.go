package runs

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"berth.dev/berth/core/forecast"
)

// StartsKey is the key of what came of estimates of starts, beside Key.
const StartsKey = "starts"

// startsFormat is the version of what is written under StartsKey.
const startsFormat = 1

// mostStarts is how many bytes it has at most, unpacked.
const mostStarts = 4 << 20

var errStarts = errors.New("what is remembered of estimates is damaged or from another version of Berth")

// Hidden is a name as it is remembered, where everybody may read it: a hash.
func Hidden(name string) string {
	if name == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}

// starts is what is written under StartsKey, packed by gzip, which notices damage.
type starts struct {
	Format  int          `json:"format"`
	Queues  []string     `json:"queues"`
	Started []outcome    `json:"started"`
	Waiting []submission `json:"waiting"`
}

// outcome is a forecast.Outcome: the number of its queue, its GPUs, and in seconds what was estimated, for nine of ten, and
// came. Unknown is -1.
type outcome [5]float64

// submission is a forecast.Submission.
type submission struct {
	ID   string  `json:"id"`
	At   int64   `json:"at"` // Unix time
	What outcome `json:"what"`
}

// EncodeStarts returns what came of estimates as bytes.
func EncodeStarts(o *forecast.Outcomes) ([]byte, error) {
	out := starts{Format: startsFormat}
	number := map[string]int{}
	write := func(o *forecast.Outcome) outcome {
		at, known := number[o.Queue]
		if !known {
			at = len(out.Queues)
			number[o.Queue], out.Queues = at, append(out.Queues, o.Queue)
		}
		return outcome{float64(at), o.GPUs, seconds(o.Estimated), seconds(o.By), seconds(o.Came)}
	}
	for _, one := range o.List() {
		out.Started = append(out.Started, write(&one))
	}
	for _, s := range o.Waiting() {
		out.Waiting = append(out.Waiting, submission{s.ID, s.At.Unix(), write(&s.Outcome)})
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if err := errors.Join(json.NewEncoder(w).Encode(&out), w.Close()); err != nil {
		return nil, fmt.Errorf("encode what came of estimates: %w", err)
	}
	return b.Bytes(), nil
}

func seconds(d time.Duration) float64 {
	if d == forecast.Never {
		return -1
	}
	return float64(d / time.Second)
}

// DecodeStarts reads what EncodeStarts wrote; without bytes nothing is remembered.
func DecodeStarts(text []byte) (*forecast.Outcomes, error) {
	if len(text) == 0 {
		return &forecast.Outcomes{}, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, errStarts
	}
	raw, err := io.ReadAll(io.LimitReader(z, mostStarts+1))
	var in starts
	if err != nil || len(raw) > mostStarts || json.Unmarshal(raw, &in) != nil || in.Format != startsFormat {
		return nil, errStarts
	}
	read := func(what *outcome) (o forecast.Outcome, ok bool) {
		at := int(what[0])
		if at < 0 || at >= len(in.Queues) || what[1] < 0 || what[4] < 0 || slices.ContainsFunc(what[2:], func(s float64) bool { return s < -1 || s > longest }) {
			return o, false
		}
		return forecast.Outcome{Queue: in.Queues[at], GPUs: what[1], Estimated: duration(what[2]), By: duration(what[3]), Came: duration(what[4])}, true
	}
	var list []forecast.Outcome
	for i := range in.Started {
		o, ok := read(&in.Started[i])
		if !ok {
			return nil, errStarts
		}
		list = append(list, o)
	}
	var waiting []forecast.Submission
	for i := range in.Waiting {
		s := &in.Waiting[i]
		o, ok := read(&s.What)
		if !ok || s.ID == "" {
			return nil, errStarts
		}
		waiting = append(waiting, forecast.Submission{ID: s.ID, At: time.Unix(s.At, 0).UTC(), Outcome: o})
	}
	return forecast.RememberedOutcomes(list, waiting), nil
}

func duration(seconds float64) time.Duration {
	if seconds < 0 {
		return forecast.Never
	}
	return time.Duration(seconds) * time.Second
}
