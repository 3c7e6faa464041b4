package training

import (
	"encoding/json"
	"fmt"

	"berth.dev/berth/core/training"
)

// counted is one entry of the annotation berth.dev/restarts.
type counted struct {
	Times int    `json:"times"`
	UID   string `json:"uid,omitempty"`
}

// all is the entry of the annotation berth.dev/restarts that counts the rounds of the job: members have a dash
// in their names.
const all = "all"

// Restarts returns how often pods were restarted, and the round of the job, as the annotation berth.dev/restarts has
// them: a JSON object by member. It is "" if there was no restart.
func Restarts(r training.Restarts, round int) string {
	out := map[string]counted{}
	for member, c := range r {
		out[member] = counted(c)
	}
	if round > 0 {
		out[all] = counted{Times: round}
	}
	if len(out) == 0 {
		return ""
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "" // strings and numbers can be written
	}
	return string(text)
}

// ParseRestarts reads what Restarts wrote.
func ParseRestarts(text string) (r training.Restarts, round int, err error) {
	if text == "" {
		return nil, 0, nil
	}
	read := map[string]counted{}
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		return nil, 0, fmt.Errorf("read counts of restarts: %w", err)
	}
	round = read[all].Times
	delete(read, all)
	for member, c := range read {
		if r == nil {
			r = training.Restarts{}
		}
		r[member] = training.Counted(c)
	}
	return r, round, nil
}
