package queue

import "time"

// The bounds of how long a template gets no more GPUs that are kept for others.
const (
	firstDebt   = time.Hour
	longestDebt = 24 * time.Hour
	mostDebts   = 1 << 10
)

// Credit decides which pods may use GPUs until others need them for which they are kept: those of templates whose pods have
// given them back in time. Each pod that has not costs its template an hour without such GPUs, and each further one twice as
// long, up to a day; the GPUs stay with the pod. A Credit is a value without a clock; equal calls give equal answers.
type Credit struct {
	guests map[string]guest // pods that use what is kept for others, by UID
	debts  map[string]debt  // by template
}

// guest is a pod that is to have ended by a time.
type guest struct {
	template string
	by       time.Time
}

// debt is what overruns cost a template.
type debt struct {
	times int
	until time.Time
}

// Enter takes a pod that uses what is kept for another, which needs it by a time.
func (c *Credit) Enter(id, template string, by time.Time) {
	if c.guests == nil {
		c.guests = map[string]guest{}
	}
	c.guests[id] = guest{template, by}
}

// Left takes a pod that has ended. If it ended in time, one overrun of its template is forgotten.
func (c *Credit) Left(id string, now time.Time) {
	g, ok := c.guests[id]
	if !ok {
		return
	}
	delete(c.guests, id)
	if now.After(g.by) {
		c.overran(g.template, now)
		return
	}
	d, ok := c.debts[g.template]
	if d.times--; ok && d.times <= 0 {
		delete(c.debts, g.template)
	} else if ok {
		c.debts[g.template] = d
	}
}

// overran notes a pod of a template that has ended too late.
func (c *Credit) overran(template string, now time.Time) {
	if c.debts == nil {
		c.debts = map[string]debt{}
	}
	d := c.debts[template]
	d.until = now.Add(min(longestDebt, firstDebt<<min(d.times, 5)))
	d.times++
	c.debts[template] = d
	if len(c.debts) <= mostDebts {
		return
	}
	oldest := template
	for name, o := range c.debts {
		if o.until.Before(c.debts[oldest].until) || o.until.Equal(c.debts[oldest].until) && name < oldest {
			oldest = name
		}
	}
	delete(c.debts, oldest)
}

// Allows reports whether pods of a template may use what is kept for others: none of theirs does so for too long now, and
// the time is over that earlier ones cost.
func (c *Credit) Allows(template string, now time.Time) bool {
	for _, g := range c.guests {
		if g.template == template && now.After(g.by) {
			return false
		}
	}
	d, ok := c.debts[template]
	return !ok || !now.Before(d.until)
}
