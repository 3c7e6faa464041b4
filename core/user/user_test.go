package user_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"berth.dev/berth/core/user"
	"berth.dev/berth/test/soak"
)

const (
	hub       = "system:serviceaccount:jhub:hub"
	jobs      = "system:serviceaccount:kube-system:job-controller"
	deployer  = "system:serviceaccount:kube-system:deployment-controller"
	elsewhere = "system:serviceaccount:ci:robot"
)

var policy = user.Policy{Speakers: []string{hub}, Controllers: []string{jobs, deployer}, Carriers: []string{deployer}}

func TestStamp(t *testing.T) {
	long := strings.Repeat("長い名前", 25) // 300 bytes
	ada, bob := user.Stamp{User: "ada"}, user.Stamp{User: "bob"}
	for _, tt := range []struct {
		name    string
		write   user.Write
		want    user.Stamp
		refused bool // after the stamp
		sent    bool // refused where nothing stamps
	}{
		{"who creates is the user", user.Write{By: "ada"}, ada, false, false},
		{"a name of 300 bytes in another alphabet", user.Write{By: long}, user.Stamp{User: long}, false, false},
		{"the name of another does not stay", user.Write{By: "bob", After: ada}, bob, false, true},
		{"the own name may be there", user.Write{By: "ada", After: ada}, ada, false, false},
		{"an owner reference that a user writes says nothing", user.Write{By: "bob", Controller: "j1"}, bob, false, false},
		{"nor does the stamp of another's pod", user.Write{By: "bob", Controller: "j1", After: user.Stamp{User: jobs, Controller: "j1"}}, bob, false, true},
		{"nor do the words of programs", user.Write{By: "bob", Said: "ada"}, bob, false, false},
		{"a service account is itself", user.Write{By: elsewhere, After: ada}, user.Stamp{User: elsewhere}, false, true},
		{"a speaker names another", user.Write{By: hub, After: ada}, ada, false, false},
		{"a speaker says it in its own way", user.Write{By: hub, Said: "ada"}, ada, false, false},
		{"a speaker who says nothing is itself", user.Write{By: hub}, user.Stamp{User: hub}, false, false},
		{"a speaker speaks of no controller", user.Write{By: hub, Controller: "j1", After: user.Stamp{User: "ada", Controller: "j1"}}, ada, false, true},
		{"a controller creates for its object", user.Write{By: jobs, Controller: "j1"}, user.Stamp{User: jobs, Controller: "j1"}, false, false},
		{"whatever the template says", user.Write{By: jobs, Controller: "j1", After: user.Stamp{User: "ada", Controller: "j2"}}, user.Stamp{User: jobs, Controller: "j1"}, false, true},
		{"a template does not make its controller the user", user.Write{By: jobs, Controller: "j1", After: user.Stamp{User: jobs}}, user.Stamp{User: jobs, Controller: "j1"}, false, true},
		{"a controller that creates for nothing is itself", user.Write{By: jobs}, user.Stamp{User: jobs}, false, false},
		{"a ReplicaSet has the user of its Deployment", user.Write{By: deployer, ReplicaSet: true, Controller: "d1", After: ada}, ada, false, false},
		{"also if that has none", user.Write{By: deployer, ReplicaSet: true, Controller: "d1"}, user.Stamp{}, false, false},
		{"if that was created for an object, its user is read there", user.Write{By: deployer, ReplicaSet: true, Controller: "d1", After: user.Stamp{User: jobs, Controller: "s1"}}, user.Stamp{User: jobs, Controller: "d1"}, false, true},
		{"not where it has no Deployment", user.Write{By: deployer, ReplicaSet: true, After: user.Stamp{User: jobs, Controller: "s1"}}, user.Stamp{User: jobs}, false, true},
		{"another kind does not", user.Write{By: deployer, Controller: "d1", After: ada}, user.Stamp{User: deployer, Controller: "d1"}, false, true},

		{"a change by a person is refused", user.Write{By: "bob", Update: true, Before: ada, After: bob}, bob, true, true},
		{"also by the user", user.Write{By: "ada", Update: true, Before: ada, After: bob}, bob, true, true},
		{"and of what has none", user.Write{By: "bob", Update: true, After: bob}, bob, true, true},
		{"what a person removes comes back", user.Write{By: "bob", Update: true, Before: ada}, ada, false, true},
		{"what a program changes comes back", user.Write{By: elsewhere, Update: true, Before: ada, After: bob}, ada, false, true},
		{"and what it adds goes", user.Write{By: elsewhere, Update: true, After: bob}, user.Stamp{}, false, true},
		{"a controller of before is kept", user.Write{By: "ada", Update: true, Before: user.Stamp{User: jobs, Controller: "j1"}, After: user.Stamp{User: jobs}}, user.Stamp{User: jobs, Controller: "j1"}, false, true},
		{"and not changed", user.Write{By: "ada", Update: true, Before: user.Stamp{User: jobs, Controller: "j1"}, After: user.Stamp{User: jobs, Controller: "j2"}}, user.Stamp{User: jobs, Controller: "j2"}, true, true},
		{"a speaker may change it", user.Write{By: hub, Update: true, Before: ada, After: bob}, bob, false, false},
		{"and the controller goes", user.Write{By: hub, Update: true, Before: user.Stamp{User: jobs, Controller: "j1"}, After: user.Stamp{User: "bob", Controller: "j1"}}, bob, false, true},
		{"a speaker who removes it does not", user.Write{By: hub, Update: true, Before: ada}, ada, false, false},
		{"a ReplicaSet follows its Deployment", user.Write{By: deployer, ReplicaSet: true, Update: true, Before: ada, After: bob}, bob, false, false},
		{
			"and names it still when the Deployment's is copied again",
			user.Write{By: deployer, ReplicaSet: true, Update: true, Controller: "d1", Before: user.Stamp{User: jobs, Controller: "d1"}, After: user.Stamp{User: jobs, Controller: "s1"}},
			user.Stamp{User: jobs, Controller: "d1"},
			false, true,
		},
		{
			"one of a person may not name a Deployment", user.Write{By: "bob", ReplicaSet: true, Controller: "d1", After: user.Stamp{User: jobs, Controller: "d1"}}, bob, false, true,
		},
		{"what stays as it is passes", user.Write{By: "bob", Update: true, Before: ada, After: ada}, ada, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := policy.Refuses(&tt.write); got != tt.sent {
				t.Errorf("Refuses what was sent: %v, want %v", got, tt.sent)
			}
			got := policy.Stamp(&tt.write)
			if tt.write.After = got; got != tt.want || policy.Refuses(&tt.write) != tt.refused {
				t.Errorf("Stamp = %+v, then refused: %v; want %+v, %v", got, policy.Refuses(&tt.write), tt.want, tt.refused)
			}
		})
	}
}

// origin is who is truly behind an object: a person or program, or the one behind
// the object that a controller created it for.
type origin struct{ name, of string }

// world is objects by UID.
type world struct {
	stamps  map[string]user.Stamp
	origins map[string]origin
}

func (w *world) behind(uid string) string {
	o := w.origins[uid]
	for o.of != "" {
		o = w.origins[o.of]
	}
	return o.name
}

func (w *world) read(uid string) string {
	return user.Of(w.stamps[uid], func(of string) (user.Stamp, bool) { s, ok := w.stamps[of]; return s, ok })
}

// TestNoUserActsAsAnother has people, programs, speakers, controllers, and that of Deployments write at random, with and
// without the policy that stamps, and reads every object: its user is the true one, or Unknown
// where nothing stamps.
func TestNoUserActsAsAnother(t *testing.T) {
	for seed := range soak.Pick[uint64](40, 2000) {
		r := rand.New(rand.NewPCG(seed, 7))
		w := world{map[string]user.Stamp{}, map[string]origin{}}
		stamps, known := seed%2 == 0, 0
		var uids []string
		for step := range 2000 {
			id := fmt.Sprint(step)
			write := randomWrite(r, uids)
			if len(uids) > 0 && r.IntN(2) == 0 {
				id, write.Update, write.Controller = uids[r.IntN(len(uids))], true, ""
				write.Before = w.stamps[id]
			}
			o := w.origins[id]
			switch named := write.After.User; {
			case write.By == hub && named != "" && (!write.Update || named != write.Before.User):
				o = origin{name: named}
			case write.Update:
			case write.By == jobs && write.Controller != "":
				o = origin{of: write.Controller}
			default:
				o = origin{name: write.By}
			}
			if stamps && len(uids) > 0 && r.IntN(4) == 0 { // a ReplicaSet, with a copy of what its Deployment says
				of := uids[r.IntN(len(uids))]
				id, write = fmt.Sprint(step), user.Write{By: deployer, ReplicaSet: true, Controller: of, After: w.stamps[of]}
				if o = (origin{of: of}); write.After.Controller == "" {
					o = origin{name: w.behind(of)} // of the time when it was copied
				}
			}
			if stamps {
				write.After = policy.Stamp(&write)
			}
			if policy.Refuses(&write) {
				continue
			}
			if !write.Update {
				uids = append(uids, id)
			}
			w.stamps[id], w.origins[id] = write.After, o
			for _, id := range append([]string{id}, uids[max(0, len(uids)-5):]...) {
				got := w.read(id)
				if got != user.Unknown {
					known++
				} else if stamps && depth(w.stamps, id) < 8 {
					t.Fatalf("seed %d, step %d: %s of stamp %+v is unknown after %+v", seed, step, id, w.stamps[id], write)
				}
				if got != user.Unknown && got != w.behind(id) {
					t.Fatalf("seed %d, step %d: %s of stamp %+v reads as %s, and belongs to %s after %+v", seed, step, id, w.stamps[id], got, w.behind(id), write)
				}
			}
		}
		if known < 1000 {
			t.Errorf("seed %d: only %d users are known", seed, known)
		}
	}
}

// randomWrite creates an object, perhaps for one of uids, with a stamp that may be forged.
func randomWrite(r *rand.Rand, uids []string) user.Write {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	w := user.Write{By: pick(hub, jobs, "ada", "bob", "eve", "-x:y", elsewhere, "system:node:n1")}
	w.After.User = pick("", jobs, deployer, "ada", "bob", w.By)
	if len(uids) == 0 {
		return w
	}
	if r.IntN(3) == 0 {
		w.After.Controller = pick(uids...)
	}
	if r.IntN(2) == 0 {
		w.Controller = pick(uids...)
	}
	if r.IntN(4) == 0 {
		w.After = user.Stamp{User: w.By, Controller: w.Controller} // as the policy writes it
	}
	return w
}

// depth is how many objects there are above one.
func depth(stamps map[string]user.Stamp, uid string) int {
	n := 0
	for ; stamps[uid].Controller != ""; uid = stamps[uid].Controller {
		n++
	}
	return n
}

func TestOfEndsInCircles(t *testing.T) {
	circle := func(string) (user.Stamp, bool) { return user.Stamp{User: jobs, Controller: "a"}, true }
	if got := user.Of(user.Stamp{User: jobs, Controller: "a"}, circle); got != user.Unknown {
		t.Errorf("a circle is of %q", got)
	}
	if got := user.Of(user.Stamp{}, nil); got != user.Unknown {
		t.Errorf("an object without a stamp is of %q", got)
	}
}

func TestServiceAccountsOfANamespaceCountTogether(t *testing.T) {
	for name, want := range map[string]string{
		"ada": "ada", "system:serviceaccount:ml:train": "system:serviceaccounts:ml", "system:serviceaccount:ml:other": "system:serviceaccounts:ml",
		"system:serviceaccount:ml": "system:serviceaccount:ml", "system:serviceaccount::x": "system:serviceaccount::x", "system:admin": "system:admin",
		"-": "-", "ml:train": "ml:train",
	} {
		if got := user.CountedAs(name); got != want {
			t.Errorf("CountedAs(%q) = %q, want %q", name, got, want)
		}
	}
}
