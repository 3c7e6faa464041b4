package training

import (
	"encoding/json"
	"fmt"
	"strconv"

	"berth.dev/berth/api"
	"berth.dev/berth/core/training"
)

// Marks returns the annotations of a job that a plan changes, nil for those that it removes: how often pods were restarted or replaced together, and of a
// TrainJob how many have succeeded, which its gang is counted by.
func Marks(j *training.Job, plan *training.Plan) map[string]any {
	out := map[string]any{}
	set := func(name, was, is string) {
		switch is {
		case was:
		case "":
			out[name] = nil
		default:
			out[name] = is
		}
	}
	set(api.AnnotationRestarts, Restarts(j.Restarts, j.Round), Restarts(plan.Restarts, plan.Round))
	if j.Kind == training.TrainJob && !plan.Status.Ended() {
		set(api.AnnotationSucceeded, succeeded(&j.Status), succeeded(&plan.Status))
	}
	return out
}

// succeeded returns how many pods of a TrainJob have succeeded; "" is none.
func succeeded(s *training.Status) string {
	if n := s.Replicas[training.Node].Succeeded; n > 0 {
		return strconv.Itoa(n)
	}
	return ""
}

// counted is one entry of the annotation berth.dev/restarts.
type counted struct {
	Times int    `json:"times"`
	UID   string `json:"uid,omitempty"`
	Exit  int    `json:"exit,omitempty"`
	Nodes string `json:"nodes,omitempty"`
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
