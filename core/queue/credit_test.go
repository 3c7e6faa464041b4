package queue_test

import (
	"fmt"
	"testing"
	"time"

	"berth.dev/berth/core/queue"
)

// late and inTime have a pod of a template leave GPUs at now that were needed a minute before, or are needed a minute later.
func late(c *queue.Credit, template string, now time.Time) {
	c.Enter("pod", template, now.Add(-time.Minute))
	c.Left("pod", now)
}

func inTime(c *queue.Credit, template string, now time.Time) {
	c.Enter("pod", template, now.Add(time.Minute))
	c.Left("pod", now)
}

func TestOverrunsCostATemplateItsCredit(t *testing.T) {
	var c queue.Credit
	if c.Left("unknown", when(0)); !c.Allows("a", when(0)) {
		t.Error("a template without overruns has no credit")
	}
	late(&c, "a", when(0))
	for _, tt := range []struct {
		after time.Duration
		of    string
		want  bool
	}{{0, "a", false}, {59 * time.Minute, "a", false}, {time.Hour, "a", true}, {0, "b", true}} {
		if got := c.Allows(tt.of, when(0).Add(tt.after)); got != tt.want {
			t.Errorf("%s has credit after %v: %v, want %v", tt.of, tt.after, got, tt.want)
		}
	}
	at := when(0).Add(2 * time.Hour)
	late(&c, "a", at)
	if c.Allows("a", at.Add(time.Hour)) || !c.Allows("a", at.Add(2*time.Hour)) {
		t.Error("the second overrun does not cost twice as long")
	}
	for range 20 {
		late(&c, "a", at)
	}
	if c.Allows("a", at.Add(23*time.Hour)) || !c.Allows("a", at.Add(24*time.Hour)) {
		t.Error("many overruns do not cost a day")
	}
}

func TestAPodThatIsLateNowCostsTheCreditAtOnce(t *testing.T) {
	var c queue.Credit
	c.Enter("pod", "a", when(10))
	if !c.Allows("a", when(10)) || c.Allows("a", when(11)) || !c.Allows("b", when(11)) {
		t.Error("the credit does not end when the time of the pod is over, or does so for others")
	}
	c.Left("pod", when(11))
	if c.Allows("a", when(12)) {
		t.Error("the credit is back with the end of the pod")
	}
}

func TestPodsThatEndInTimeEarnCreditBack(t *testing.T) {
	var c queue.Credit
	late(&c, "a", when(0))
	late(&c, "a", when(0))
	if inTime(&c, "a", when(0)); c.Allows("a", when(0)) {
		t.Error("one pod in time forgives two overruns")
	}
	if inTime(&c, "a", when(0)); !c.Allows("a", when(0)) {
		t.Error("two pods in time do not forgive two overruns")
	}
}

func TestCreditIsBounded(t *testing.T) {
	var c queue.Credit
	for i := range 3000 {
		late(&c, fmt.Sprint(i), when(float64(i)))
	}
	if c.Allows("2999", when(3000)) || !c.Allows("0", when(3000)) {
		t.Error("the last overruns are forgotten before the first")
	}
}
