package quota_test

import (
	"math"
	"testing"
	"time"

	"berth.dev/berth/core/quota"
)

// nothing is a record without use.
func nothing(string) []quota.PastUse { return nil }

// of returns the use of a user of a queue; 0 is none.
func of(u *quota.Usage, queue, user string) float64 {
	for _, r := range u.Of(queue, 100) {
		if r.User == user {
			return r.Value
		}
	}
	return 0
}

// near reports whether two amounts of use differ by less than a millionth.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(b)) }

func usageBook() *quota.Book {
	return quota.NewBook(quota.NewTree([]quota.Spec{
		{Name: "org", HalfLife: time.Hour, Quotas: []quota.Quota{gpus(8)}},
		{Name: "red", Parent: "org", HalfLife: time.Hour},
		{Name: "off", Parent: "org"},
	}))
}

// TestUsageIsTheSumOfItsSeconds compares the integral with a sum over seconds.
func TestUsageIsTheSumOfItsSeconds(t *testing.T) {
	b, u, now := usageBook(), &quota.Usage{}, epoch
	u.Move(now, b, nothing)
	slow := 0.0
	second := math.Exp2(-1.0 / 3600)
	held := 0
	for minute := range 120 {
		switch minute {
		case 10:
			holds(b, ask("a", "red", "ann", 2), "")
			held = 2
		case 50:
			holds(b, ask("b", "red", "ann", 1), "")
			held = 3
		case 90:
			b.Gone("a")
			held = 1
		}
		u.Move(now, b, nothing)
		for range 60 {
			slow = slow*second + float64(held)*(1-second)*3600/math.Ln2
		}
		now = now.Add(time.Minute)
	}
	u.Move(now, b, nothing)
	for _, at := range [][2]string{{"red", "ann"}, {"red", ""}, {"org", "ann"}, {"org", ""}} {
		if got := of(u, at[0], at[1]); !near(got, slow) {
			t.Errorf("the use of user %q in %s is %v, want %v", at[1], at[0], got, slow)
		}
	}
	if got := u.Of("off", 100); got != nil {
		t.Errorf("a queue in which past use does not count has used %v", got)
	}
}

func TestARestartGoesOnFromWhatWasRecorded(t *testing.T) {
	run := func(restart bool) float64 {
		b, u := usageBook(), &quota.Usage{}
		holds(b, ask("a", "red", "ann", 2), "") // starts at epoch
		u.Move(epoch, b, nothing)
		u.Move(epoch.Add(30*time.Minute), b, nothing)
		if restart {
			was := map[string][]quota.PastUse{"org": u.Of("org", 100), "red": u.Of("red", 100)}
			u = &quota.Usage{}
			u.Move(epoch.Add(40*time.Minute), b, func(queue string) []quota.PastUse { return was[queue] })
		}
		u.Move(epoch.Add(time.Hour), b, nothing)
		return of(u, "red", "ann")
	}
	if with, without := run(true), run(false); !near(with, without) {
		t.Errorf("with a restart the use is %v, without %v", with, without)
	}
}

func TestOnlyTheUsersWhoHaveUsedMostAreListed(t *testing.T) {
	b, u := usageBook(), &quota.Usage{}
	for k, user := range []string{"ann", "bob", "cy"} {
		holds(b, ask(user, "red", user, int64(3-k)), "")
	}
	holds(b, ask("x", "red", "", 1), "")
	u.Move(epoch, b, nothing)
	u.Move(epoch.Add(time.Hour), b, nothing)
	list := u.Of("red", 2)
	if len(list) != 3 || list[0].User != "" || list[1].User != "ann" || list[2].User != "bob" {
		t.Errorf("the use is %v, want that of the queue, ann and bob", list)
	}
	if of(u, "red", quota.Unknown) == 0 {
		t.Error("the use of pods without a known user is missing")
	}
}

func TestUseIsRecordedAgainWhenItDiffers(t *testing.T) {
	at := func(value float64, user string) quota.PastUse {
		return quota.PastUse{User: user, Decay: quota.Decay{Value: value, At: epoch}}
	}
	later := quota.PastUse{User: "", Decay: quota.Decay{Value: 5000, At: epoch.Add(time.Hour)}}
	for name, c := range map[string]struct {
		was, now []quota.PastUse
		want     bool
	}{
		"the first time":                 {nil, []quota.PastUse{at(100, "")}, true},
		"less than a minute of one GPU":  {nil, []quota.PastUse{at(59, "")}, false},
		"by less than a hundredth":       {[]quota.PastUse{at(10000, "")}, []quota.PastUse{at(10090, "")}, false},
		"by more than a hundredth":       {[]quota.PastUse{at(10000, "")}, []quota.PastUse{at(10200, "")}, true},
		"the old value has decayed so":   {[]quota.PastUse{at(10000, "")}, []quota.PastUse{later}, false},
		"a user is not there any longer": {[]quota.PastUse{at(10000, ""), at(5000, "ann")}, []quota.PastUse{at(10000, "")}, true},
	} {
		if got := quota.Differs(c.was, c.now, time.Hour); got != c.want {
			t.Errorf("%s: Differs = %v, want %v", name, got, c.want)
		}
	}
}
