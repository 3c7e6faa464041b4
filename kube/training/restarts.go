package training

import (
	"encoding/json"
	"fmt"

	"berth.dev/berth/core/training"
)

// counted is one entry of the annotation berth.dev/restarts.
type counted struct {
	Times int    `json:"times"`
	UID   string `json:"uid"`
}

// Restarts returns how often pods were restarted as the annotation berth.dev/restarts has it: a JSON
// object by member. It is "" if none was.
func Restarts(r training.Restarts) string {
	if len(r) == 0 {
		return ""
	}
	out := map[string]counted{}
	for member, c := range r {
		out[member] = counted(c)
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "" // strings and numbers can be written
	}
	return string(text)
}

// ParseRestarts reads what Restarts wrote.
func ParseRestarts(text string) (training.Restarts, error) {
	if text == "" {
		return nil, nil
	}
	read := map[string]counted{}
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		return nil, fmt.Errorf("read counts of restarts: %w", err)
	}
	out := training.Restarts{}
	for member, c := range read {
		out[member] = training.Counted(c)
	}
	return out, nil
}
