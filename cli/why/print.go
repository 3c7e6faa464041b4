package why

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"berth.dev/berth/cli/term"
)

func idleFor(d time.Duration) string { return duration.HumanDuration(max(0, d)) }

// print writes a report for a person.
func (r *report) print(w io.Writer, now time.Time) error {
	var b strings.Builder
	screen := term.ScreenOf(w)
	if !screen.Cut {
		screen = term.Screen{}
	}
	since := ""
	if !r.since.IsZero() {
		since = " for " + duration.HumanDuration(max(0, now.Sub(r.since)))
	}
	head := fmt.Sprintf("%s/%s: %s%s", r.Namespace, r.Name, r.State, since)
	if r.Place != "" {
		head += ", " + r.Place
	}
	if r.Beside > 0 {
		head += fmt.Sprintf(" (of its owner there are %d more)", r.Beside)
	}
	term.PrintBlock(&b, screen.Wrapped(head))
	section := func(name string, lines ...string) { term.PrintBlock(&b, "\n"+screen.Section(name, lines...)) }
	if r.Cause != "" {
		section("WHY", r.Cause)
	}
	if r.Warning != "" {
		section("WARNING", r.Warning)
	}
	if r.Refused != "" {
		section("REFUSED", fmt.Sprintf("one more pod of its owner could not be made %s ago: %s", duration.HumanDuration(max(0, now.Sub(r.refused))), r.Refused))
	}
	if r.Scattered != "" {
		section("", r.Scattered)
	}
	if r.Code != "" {
		section("CODE", string(r.Code))
	}
	if len(r.Others) > 0 {
		section("ALSO", r.Others...)
	}
	if r.Overtaken != "" {
		section("ORDER", r.Overtaken)
	}
	if r.Queue != "" {
		section("QUEUE", r.Queue)
	}
	if r.Evicted != "" {
		section("EVICTED", r.Evicted)
	}
	if r.When != nil {
		section("WHEN", r.When.Text)
	}
	if len(r.Obstacles) > 0 {
		b.WriteString("\n")
		r.printObstacles(&b, screen)
	}
	if len(r.Steps) > 0 {
		b.WriteString("\n")
		r.printSteps(&b, screen, now)
	}
	if len(r.Events) > 0 {
		b.WriteString("\n")
		r.printEvents(&b, screen, now)
	}
	if len(r.Holders) > 0 {
		b.WriteString("\n")
		r.printHolders(&b, screen, now)
	}
	if len(r.Helps) > 0 {
		section("HELPS", r.Helps...)
	}
	if r.Hidden != "" {
		section("HOLDERS", r.Hidden)
	}
	_, err := term.PrintBlock(w, term.Block(b.String()))
	return err
}

// printSteps writes the timeline. The step that was reached last and is not the
// end of the way goes on until now.
func (r *report) printSteps(b *strings.Builder, s term.Screen, now time.Time) {
	last := -1
	for i, reached := range r.Steps {
		if !reached.at.IsZero() {
			last = i
		}
	}
	t := &term.Table{Head: []string{"STEP", "AT", "TOOK"}, Gap: 2}
	for i, reached := range r.Steps {
		at, took := "-", "-"
		if !reached.at.IsZero() {
			at = reached.at.UTC().Format("15:04:05")
		}
		if i < last { // until the next step that was reached
			next := i + 1 + slices.IndexFunc(r.Steps[i+1:], func(n step) bool { return !n.at.IsZero() })
			if !reached.at.IsZero() {
				took = duration.HumanDuration(max(0, r.Steps[next].at.Sub(reached.at)))
			}
		}
		if i == last && i < len(r.Steps)-1 {
			took = duration.HumanDuration(max(0, now.Sub(reached.at))) + " so far"
		}
		t.Add(reached.Step, at, took)
	}
	_ = t.Write(b, s, false) // a strings.Builder takes all
}

func (r *report) printEvents(b *strings.Builder, s term.Screen, now time.Time) {
	t := &term.Table{Head: []string{"EVENT", "AGO", "MESSAGE"}, Gap: 2, Wrap: true}
	for _, e := range r.Events {
		ago := duration.HumanDuration(max(0, now.Sub(e.at)))
		if e.Count > 1 {
			ago += " (x" + strconv.Itoa(int(e.Count)) + ")"
		}
		t.Add(e.Reason, ago, e.Message)
	}
	_ = t.Write(b, s, false) // a strings.Builder takes all
}

// whyNodes is how many nodes of one obstacle are named before the rest is counted.
const whyNodes = 3

func (r *report) printObstacles(b *strings.Builder, s term.Screen) {
	t := &term.Table{Head: []string{"NODES", "WHY NOT THERE"}, Gap: 2, Wrap: true}
	for _, o := range r.Obstacles {
		nodes := strings.Join(o.Nodes[:min(len(o.Nodes), whyNodes)], ", ")
		if more := len(o.Nodes) - whyNodes; more > 0 {
			nodes += fmt.Sprintf(" and %d more", more)
		}
		t.Add(nodes, o.Why)
		if o.Do != "" {
			t.Add("", "-> "+o.Do)
		}
	}
	_ = t.Write(b, s, false) // a strings.Builder takes all
}

func (r *report) printHolders(b *strings.Builder, s term.Screen, now time.Time) {
	t := &term.Table{Head: []string{"NODE", "HELD BY", "GPUS", "USER", "FOR", "IDLE"}, Gap: 2, Spare: []string{"IDLE", "USER"}}
	for _, h := range r.Holders[:min(len(r.Holders), whyHolders)] {
		idle := "-"
		if h.IdleSeconds != nil {
			idle = idleFor(time.Duration(*h.IdleSeconds * float64(time.Second)))
		}
		who := h.Namespace + "/" + h.Name
		if h.Name == "" {
			who = "another namespace"
		}
		t.Add(h.Node, who, strconv.FormatFloat(h.GPUs, 'f', -1, 64), cmp.Or(h.User, "-"),
			duration.HumanDuration(max(0, now.Sub(h.since))), idle)
	}
	_ = t.Write(b, s, false) // a strings.Builder takes all
	if more := len(r.Holders) - whyHolders; more > 0 {
		term.Printf(b, "and %d more\n", more)
	}
}
