package idle_test

import (
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/idle"
)

func TestFromKubeflow(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct {
		name                  string
		enable, after, period string
		want                  idle.Policy
		err                   string
	}{
		{name: "nothing is set: never, with Kubeflow's day and minute", want: idle.Policy{Never: true, After: day, Period: time.Minute}},
		{name: "turned on", enable: "true", want: idle.Policy{After: day, Period: time.Minute}},
		{name: "only the word true turns it on", enable: "True", want: idle.Policy{Never: true, After: day, Period: time.Minute}},
		{name: "both are minutes", enable: "true", after: "90", period: "2", want: idle.Policy{After: 90 * time.Minute, Period: 2 * time.Minute}},
		{name: "a time with a unit is refused by name", enable: "true", after: "90m", err: "CULL_IDLE_TIME"},
		{name: "no minutes are refused by name", enable: "true", period: "0", err: "IDLENESS_CHECK_PERIOD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := idle.FromKubeflow(c.enable, c.after, c.period)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || !got.Never {
					t.Errorf("FromKubeflow = %+v, %v; want never, and an error that names %s", got, err, c.err)
				}
				return
			}
			c.want.Warning, c.want.By = idle.DefaultWarning, idle.ByActivity
			if err != nil || got != c.want {
				t.Errorf("FromKubeflow = %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestWith(t *testing.T) {
	set := idle.Off()
	set.Never = false
	for _, c := range []struct {
		name     string
		words    []idle.Words
		never    bool
		after    time.Duration
		warning  time.Duration
		by       idle.By
		session  time.Duration
		problems []string // parts
	}{
		{name: "no words leave it as it was", after: 24 * time.Hour, warning: 10 * time.Minute},
		{name: "the namespace has its own time", words: []idle.Words{{After: "8h"}}, after: 8 * time.Hour, warning: 10 * time.Minute},
		{name: "the notebook goes before its namespace", words: []idle.Words{{After: "8h", Warning: "30m"}, {After: "2d"}}, after: 48 * time.Hour, warning: 30 * time.Minute},
		{name: "a notebook may say never", words: []idle.Words{{After: "8h"}, {After: "never"}}, never: true},
		{name: "a notebook may ask to be stopped where its namespace is not", words: []idle.Words{{After: "never"}, {After: "90m"}}, after: 90 * time.Minute, warning: 10 * time.Minute},
		{name: "what cannot be read stops nothing", words: []idle.Words{{After: "8h"}, {After: "ninety"}}, never: true, problems: []string{`"ninety" is not a time`}},
		{name: "a warning that cannot be read stops nothing", words: []idle.Words{{Warning: "-1m"}}, never: true, problems: []string{`"-1m" is no time for a warning`}},
		{name: "no time at all would stop at once", words: []idle.Words{{After: "0"}}, never: true, problems: []string{`"0"`}},
		{name: "an unknown use stops nothing", words: []idle.Words{{By: "cpu"}}, never: true, problems: []string{`"cpu"`}},
		{name: "by the GPU", words: []idle.Words{{By: "GPU"}}, after: 24 * time.Hour, warning: 10 * time.Minute, by: idle.ByGPU},
		{name: "seconds are followed, with a word", words: []idle.Words{{After: "3s"}}, after: 3 * time.Second, warning: 1500 * time.Millisecond, problems: []string{"tests only"}},
		{
			name: "a warning longer than half of the time is cut", words: []idle.Words{{After: "1h", Warning: "2h"}},
			after: time.Hour, warning: 30 * time.Minute, problems: []string{"more than half"},
		},
		{name: "a session that cannot be read has no limit", words: []idle.Words{{MaxSession: "long"}}, after: 24 * time.Hour, warning: 10 * time.Minute, problems: []string{`"long" is not a valid duration of a session`}},
		{
			name: "a notebook cannot lengthen its namespace's sessions", words: []idle.Words{{MaxSession: "8h"}, {MaxSession: "2d"}},
			after: 24 * time.Hour, warning: 10 * time.Minute, session: 8 * time.Hour, problems: []string{"a session may last 8h, and not 48h"},
		},
		{
			name: "a notebook may have shorter sessions than its namespace", words: []idle.Words{{MaxSession: "8h"}, {MaxSession: "1h30m"}},
			after: 24 * time.Hour, warning: 10 * time.Minute, session: 90 * time.Minute,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := set
			var problems []string
			for _, w := range c.words {
				var more []string
				p, more = p.With(w)
				problems = append(problems, more...)
			}
			f := p.Fitted()
			if c.by == "" {
				c.by = idle.ByActivity
			}
			if p.Never != c.never || !c.never && (f.After != c.after || f.Warning != c.warning || f.By != c.by) {
				t.Errorf("With = %+v, fitted %+v; want never %v, after %s, warning %s, by %s", p, f, c.never, c.after, c.warning, c.by)
			}
			if p.MaxSession != c.session {
				t.Errorf("a session may last %s, want %s", p.MaxSession, c.session)
			}
			if len(problems) != len(c.problems) {
				t.Fatalf("problems are %q, want %d", problems, len(c.problems))
			}
			for i, part := range c.problems {
				if !strings.Contains(problems[i], part) {
					t.Errorf("problem %q does not say %s", problems[i], part)
				}
			}
		})
	}
}

func TestFittedLooksOftenEnough(t *testing.T) {
	for _, after := range []time.Duration{3 * time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		p := idle.Off()
		p.Never, p.After = false, after
		f := p.Fitted()
		if f.Period > f.After/4 || f.Period > f.Warning/2 || f.Period > p.Period {
			t.Errorf("after %s a look each %s, with a warning of %s", after, f.Period, f.Warning)
		}
	}
}
