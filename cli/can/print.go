package can

import (
	"fmt"
	"strconv"
	"strings"

	"berth.dev/berth/cli/term"
)

// print prints the answers as was asked for, and for a person a last line that counts them.
func (c *command) print(answers []*answer) error {
	if c.output.Object() {
		return term.Write(c.Options.Out, &c.output, term.NewList("CanList", answers))
	}
	screen := c.output.Screen(c.Options.Out)
	for _, a := range answers {
		lines := a.lines()
		for i := range lines[1:] {
			lines[i+1] = "  " + lines[i+1]
		}
		if _, err := term.PrintBlock(c.Options.Out, screen.Wrapped(lines...)); err != nil {
			return err
		}
	}
	_, err := term.PrintLine(c.Options.Out, summary(answers))
	return err
}

// lines are an answer for a person.
func (a *answer) lines() []string {
	first := fmt.Sprintf("%s:%d: %s ", a.File, a.Line, a.title())
	var out []string
	switch a.State {
	case starts:
		verb := "starts"
		if len(a.With) > 0 {
			verb = "start"
		}
		if first += verb + " now" + a.count(); a.Preempts {
			first += ", by preemption"
		}
		out = append(out, a.where()...)
	case waits:
		verb := "does"
		if len(a.With) > 0 {
			verb = "do"
		}
		first += verb + " not start now" + a.count()
		if a.Never {
			first += ", and waiting does not help"
		}
		out = append(out, a.where()...)
	case refused:
		first += "is refused"
	case exists:
		first += "is there already; `berth why` explains its pods, and kubectl diff shows what would change"
	case later:
		first += "makes no pods: " + a.Cause
	case nothing:
		first += "has no pods to start"
	case unknown:
		first += "is accepted; whether it starts now is not known"
	}
	if a.Code != "" && (a.State == waits || a.State == refused) {
		first += " [" + a.Code + "]"
	}
	out = append([]string{first}, out...)
	if (a.State == waits || a.State == refused) && a.Cause != "" {
		out = append(out, a.Cause)
		for _, other := range a.Others {
			out = append(out, "also: "+other)
		}
		if a.When != "" {
			out = append(out, "when: "+a.When)
		}
		for _, help := range a.Helps {
			out = append(out, "-> "+help)
		}
	}
	for _, note := range a.Notes {
		out = append(out, "note: "+note)
	}
	return out
}

// count says how many pods start, where it is not one of one.
func (a *answer) count() string {
	switch {
	case a.Starts == 0 || a.Pods == 1:
		return ""
	case a.Starts == a.Pods:
		return ": " + term.Count(a.Pods, "pod")
	}
	return fmt.Sprintf(": %d of %d pods do", a.Starts, a.Pods)
}

// where says which nodes and GPUs the pods that start get, and what they cost.
func (a *answer) where() (out []string) {
	if len(a.Places) == 0 {
		return nil
	}
	texts := make([]string, len(a.Places))
	for i, p := range a.Places {
		texts[i] = p.Node + gpus(p.GPUs)
		if a.Pods > 1 && p.Pods > 1 {
			texts[i] += fmt.Sprintf(", %d pods", p.Pods)
		}
	}
	const most = 5
	if more := len(texts) - most; more > 0 {
		texts = append(texts[:most:most], fmt.Sprintf("%d more nodes", more))
	}
	out = append(out, "most likely on "+strings.Join(texts, "; "))
	if a.PricePerHour != nil {
		out = append(out, fmt.Sprintf("costs %.2f %s an hour", *a.PricePerHour, a.Currency))
	}
	return out
}

// gpus writes indexes: " (GPUs 0-3, 6)"; "" is none.
func gpus(list []int) string {
	if len(list) == 0 {
		return ""
	}
	var parts []string
	for i := 0; i < len(list); {
		k := i
		for k+1 < len(list) && list[k+1] == list[k]+1 {
			k++
		}
		part := strconv.Itoa(list[i])
		if k > i {
			part += "-" + strconv.Itoa(list[k])
		}
		parts, i = append(parts, part), k+1
	}
	if len(list) == 1 {
		return " (GPU " + parts[0] + ")"
	}
	return " (GPUs " + strings.Join(parts, ", ") + ")"
}

// summary counts the answers.
func summary(answers []*answer) string {
	counts := map[string]int{}
	for _, a := range answers {
		counts[a.State]++
	}
	start, do := "start", "do"
	if counts[starts] == 1 {
		start = "starts"
	}
	not := counts[waits] + counts[refused]
	if not == 1 {
		do = "does"
	}
	parts := []string{fmt.Sprintf("%s: %d %s now", term.Count(len(answers), "object"), counts[starts], start), fmt.Sprintf("%d %s not", not, do)}
	for _, s := range []struct{ state, text string }{{exists, "there already"}, {later, "later"}, {nothing, "without pods"}, {unknown, "not known"}} {
		if n := counts[s.state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s.text))
		}
	}
	return strings.Join(parts, ", ")
}
