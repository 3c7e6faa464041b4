package simulation

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// decimals is a number that JSON has with a fixed number of decimals.
type decimals struct {
	value  float64
	digits int
}

// MarshalJSON writes the number.
func (d decimals) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, d.value, 'f', d.digits, 64), nil
}

type jsonReport struct {
	Policies []jsonPolicy `json:"policies"`
	Partial  bool         `json:"partial,omitempty"`
}

type jsonPolicy struct {
	Name string              `json:"name"`
	Mean map[string]decimals `json:"mean"`
	Runs []jsonRun           `json:"runs"`
}

type jsonRun struct {
	Seed        int64                `json:"seed"`
	Load        *decimals            `json:"load,omitempty"`
	Allocated   map[string]decimals  `json:"allocated"`
	Failed      map[string]jsonClass `json:"failed"`
	CPUSeconds  decimals             `json:"cpu_seconds"`  //nolint:tagliatelle // a name that programs read
	TuneSeconds decimals             `json:"tune_seconds"` //nolint:tagliatelle // a name that programs read
	Decisions   int                  `json:"decisions"`
	Impossible  int                  `json:"impossible,omitempty"`
	Partial     bool                 `json:"partial,omitempty"`
}

type jsonClass struct {
	Pods            int       `json:"pods"`
	Failed          int       `json:"failed"`
	WaitSeconds     *decimals `json:"wait_seconds,omitempty"`      //nolint:tagliatelle // a name that programs read
	MostWaitSeconds *decimals `json:"most_wait_seconds,omitempty"` //nolint:tagliatelle // a name that programs read
}

// JSON writes r: percentages with 2 decimals, seconds with 4, keys in order.
// "load" and the seconds of waiting are there with ProtocolChurn, "impossible"
// and "partial" where they are not 0 or false. Of equal plans all is equal but
// "cpu_seconds" and "tune_seconds".
func (r *Report) JSON() ([]byte, error) {
	out := jsonReport{Policies: []jsonPolicy{}, Partial: r.Partial()}
	for i := range r.Policies {
		p := &r.Policies[i]
		j := jsonPolicy{Name: p.Name, Mean: percents(p.Mean), Runs: []jsonRun{}}
		for k := range p.Runs {
			j.Runs = append(j.Runs, r.run(&p.Runs[k]))
		}
		out.Policies = append(out.Policies, j)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the class is "share<500", not "share\u003c500"
	e.SetIndent("", "    ")
	if err := e.Encode(out); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (r *Report) run(run *Run) jsonRun {
	j := jsonRun{
		Seed: run.Seed, Allocated: percents(run.Allocated), Failed: map[string]jsonClass{},
		CPUSeconds: decimals{run.CPUSeconds, 4}, TuneSeconds: decimals{run.TuneSeconds, 4},
		Decisions: run.Decisions, Impossible: run.Impossible, Partial: run.Partial,
	}
	churn := r.Protocol == ProtocolChurn
	if churn {
		j.Load = &decimals{run.Load, 2}
	}
	for class, n := range run.Failed {
		c := jsonClass{Pods: n.Pods, Failed: n.Failed}
		if churn {
			c.WaitSeconds, c.MostWaitSeconds = &decimals{n.WaitSeconds, 1}, &decimals{n.MostWaitSeconds, 1}
		}
		j.Failed[class] = c
	}
	return j
}

func percents(in map[int]float64) map[string]decimals {
	out := map[string]decimals{}
	for _, at := range slices.Sorted(maps.Keys(in)) {
		out[strconv.Itoa(at)] = decimals{in[at], 2}
	}
	return out
}
