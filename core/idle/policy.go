package idle

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What a policy is where nothing says otherwise.
const (
	DefaultAfter   = 24 * time.Hour   // Kubeflow's CULL_IDLE_TIME
	DefaultWarning = 10 * time.Minute // Kubeflow gives none
	DefaultPeriod  = time.Minute      // Kubeflow's IDLENESS_CHECK_PERIOD
	DefaultGiveWay = time.Hour        // Kubeflow has none; of notebooks whose queue has them give way
)

// leastPeriod is how often a notebook is looked at, at most.
const leastPeriod = 500 * time.Millisecond

// By is what counts as use of a notebook.
type By string

// The two ways to tell use.
const (
	// ByActivity counts all there is: kernels, terminals and the programs in them,
	// calls of Jupyter's API, open pages of VS Code, and use of the GPU. A notebook
	// whose server does not tell is never stopped.
	ByActivity By = "activity"
	// ByGPU counts use of the GPU, and kernels and terminals that are reported. Calls of
	// the API count for nothing, so that an open tab does not, and what does not
	// report its use, such as most of RStudio, is judged by its GPU alone.
	ByGPU By = "gpu"
)

// Policy is when a notebook is stopped for being idle.
type Policy struct {
	Never   bool          // it is not stopped for idleness, and not looked at for that
	After   time.Duration // without activity, until it is stopped; above 0
	Warning time.Duration // how long before that it is warned; 0 is at the look before
	Period  time.Duration // from one look to the next; above 0
	By      By

	MaxSession time.Duration // how long a session may last, used or not; 0 is without limit
	// GiveWay is after how long without activity it is stopped, after a short warning, while
	// others wait for what it holds; 0 is never.
	GiveWay time.Duration
}

// Off is the policy where none is set: never. Those of its durations that
// nothing sets hold for notebooks that are to be stopped after all.
func Off() Policy {
	return Policy{Never: true, After: DefaultAfter, Warning: DefaultWarning, Period: DefaultPeriod, By: ByActivity}
}

// FromKubeflow reads the environment of Kubeflow's notebook-controller: "" is not
// set. enable is ENABLE_CULLING, which turns it on with "true" and else leaves it
// off; after and period are CULL_IDLE_TIME and IDLENESS_CHECK_PERIOD, in whole
// minutes. The error names the variable.
func FromKubeflow(enable, after, period string) (Policy, error) {
	p := Off()
	p.Never = enable != "true"
	for _, v := range []struct {
		name, value string
		into        *time.Duration
	}{{"CULL_IDLE_TIME", after, &p.After}, {"IDLENESS_CHECK_PERIOD", period, &p.Period}} {
		if v.value == "" {
			continue
		}
		n, err := strconv.Atoi(v.value)
		if err != nil || n <= 0 || n > 366*24*60 {
			return Off(), fmt.Errorf("environment variable %s is %q, and must be a whole number of minutes above 0", v.name, v.value)
		}
		*v.into = time.Duration(n) * time.Minute
	}
	return p, nil
}

// Words are what the annotations of one object say, as they are written; "" is
// nothing.
type Words struct {
	After, Warning, By, MaxSession, GiveWay string
}

// With is the policy under the words of an object: a namespace's over the
// process's, a notebook's over its namespace's. What the words leave open stays
// as it was. A time without activity makes a policy that was never one that stops. One
// that says never does not give way either, unless it says after how long it does.
//
// The shorter of two limits of a session applies, so a user cannot lengthen what
// their namespace sets.
//
// Words that cannot be read make the policy never, until they are put right, and
// problems says so, one sentence each, in the order of Words. A problem may also be
// advice about words that are followed.
func (p Policy) With(w Words) (policy Policy, problems []string) {
	bad := false
	if w.After != "" {
		if strings.EqualFold(w.After, "never") {
			p.Never, p.GiveWay = true, 0
		} else if d, err := Duration(w.After); err != nil || d == 0 {
			bad = true
			problems = append(problems, fmt.Sprintf("%q is not a time without activity: write one such as 90m, 8h or 2d, or never", w.After))
		} else {
			p.Never, p.After = false, d
			if d < time.Minute {
				problems = append(problems, fmt.Sprintf("%s without activity: less than a minute is of use in tests only", w.After))
			}
		}
	}
	if w.Warning != "" {
		d, err := Duration(w.Warning)
		if err != nil {
			bad = true
			problems = append(problems, fmt.Sprintf("%q is no time for a warning: write one such as 10m", w.Warning))
		}
		p.Warning = d
	}
	switch by := By(strings.ToLower(w.By)); by {
	case "":
	case ByActivity, ByGPU:
		p.By = by
	default:
		bad = true
		problems = append(problems, fmt.Sprintf("%q does not say what counts as use: write %s or %s", w.By, ByActivity, ByGPU))
	}
	if w.Warning != "" && !bad && !p.Never && p.Warning > p.After/2 {
		problems = append(problems, fmt.Sprintf("a warning %s ahead is more than half of %s: it is given %s ahead", p.Warning, p.After, p.After/2))
	}
	if w.GiveWay != "" {
		d, err := Duration(w.GiveWay)
		switch {
		case strings.EqualFold(w.GiveWay, "never"):
			p.GiveWay = 0
		case err != nil || d == 0:
			bad = true
			problems = append(problems, fmt.Sprintf("%q is not a time after which a notebook gives way: write one such as 30m or 2h, or never", w.GiveWay))
		default:
			p.GiveWay = d
		}
	}
	if bad {
		p.Never, p.GiveWay = true, 0
	}
	if w.MaxSession != "" {
		d, err := Duration(w.MaxSession)
		switch {
		case err != nil || d == 0:
			problems = append(problems, fmt.Sprintf("%q is not a valid duration of a session: write one such as 8h or 2d", w.MaxSession))
		case p.MaxSession > 0 && d > p.MaxSession:
			problems = append(problems, fmt.Sprintf("a session may last %s, and not %s", spoken(p.MaxSession), spoken(d)))
		default:
			p.MaxSession = d
		}
	}
	return p, problems
}

// Fitted is the policy as it is followed: the warning is at most half of the time
// without activity, and looks are so near to one another that both are kept. A policy that is
// never and gives way has a time without activity that no notebook reaches.
func (p Policy) Fitted() Policy {
	if p.GiveWay > 0 {
		p.Period = min(p.Period, p.GiveWay/4)
		if p.Never {
			p.After = never
		}
	}
	p.Warning = max(0, min(p.Warning, p.After/2))
	p.Period = min(p.Period, p.After/4)
	if p.Warning > 0 {
		p.Period = min(p.Period, p.Warning/2)
	}
	if p.MaxSession > 0 {
		p.Period = min(p.Period, p.MaxSession/8)
	}
	p.Period = max(p.Period, leastPeriod)
	return p
}

// never is a time that no notebook is idle for.
const never = 100 * 365 * 24 * time.Hour

// mostStep is how far a record may be behind at most where looks are more often: who
// reads it should not take a notebook in use for one that is not.
const mostStep = 15 * time.Minute

// step is by how much activity must have advanced to be written down.
func (p Policy) step() time.Duration { return max(p.Period, min(p.Warning/2, mostStep)) }

// Duration reads "90m", "1h30m" and, as people write days, "2d"; not below 0.
func Duration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = fmt.Errorf("%s is below 0", text)
	}
	return d, err
}
