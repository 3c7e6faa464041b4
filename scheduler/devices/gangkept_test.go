package devices_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/test/soak"
)

// answers are what an API server says to a binding that it does not do.
var answers = map[string]func(pod *v1.Pod) error{
	"a webhook forbids it": func(p *v1.Pod) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, p.Name, errRefused)
	},
	"a conflict": func(p *v1.Pod) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, p.Name, errRefused)
	},
	"too many requests":    func(*v1.Pod) error { return apierrors.NewTooManyRequests("later", 1) },
	"an error of its own":  func(*v1.Pod) error { return apierrors.NewInternalError(errRefused) },
	"a timeout":            func(*v1.Pod) error { return apierrors.NewTimeoutError("slow", 1) },
	"a broken connection":  func(*v1.Pod) error { return errRefused },
	"the pod is not there": func(p *v1.Pod) error { return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, p.Name) },
}

// TestAMemberThatIsRefusedKeepsItsPlace refuses the binding of each member in
// turn, with every answer there is, while others want its GPU.
func TestAMemberThatIsRefusedKeepsItsPlace(t *testing.T) {
	for answer, says := range answers {
		for refused := range 4 {
			for _, times := range []int{1, 2, 6} {
				t.Run(fmt.Sprintf("%s, %d times, member %d", answer, times, refused), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r := newRig(t, 4)
						left := times
						r.unbind = func(pod *v1.Pod) error {
							if pod.Name == fmt.Sprint("g-", refused) && left > 0 {
								left--
								return says(pod)
							}
							return nil
						}
						r.add(gangOf("g", 4, 4, "gpu=1")...)
						r.run()
						if got := r.bound("g"); len(got) != 3 || left != times-1 {
							t.Fatalf("bound: %v, with %d refusals left; one is refused", got, left)
						}
						for i := range 3 {
							r.add(gangOf(fmt.Sprint("rival-", i), 1, 1, "gpu=1")...)
							r.run()
						}
						r.rests(20 * time.Second)
						if got := r.bound("g"); len(got) != 4 {
							t.Errorf("bound: %v, tried %d times, %v", got, r.tried[types.UID(fmt.Sprint("g-", refused))], r.out)
						}
					})
				})
			}
		}
	}
}

func TestAMemberThatIsRefusedSaysThatItsGangRunsWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4)
		r.unbind = func(pod *v1.Pod) error {
			if pod.Name == "g-1" {
				return answers["a webhook forbids it"](pod)
			}
			return nil
		}
		r.add(gangOf("g", 4, 4, "gpu=1")...)
		r.run()
		want := `gang g runs without this pod, whose place on node n0 is kept for it: pods "g-1" is forbidden: refused`
		if got := r.out["g-1"]; got != want {
			t.Errorf("g-1 says %q\nwant %q", got, want)
		}
	})
}

func TestAMemberThatOneNodeIsForbiddenForGoesToAnother(t *testing.T) {
	for refused := range 3 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 3, 2)
			name := fmt.Sprint("g-", refused)
			r.answer = func(b *v1.Binding) error {
				if b.Name == name && b.Target.Name == "n0" {
					return answers["a webhook forbids it"](r.pods[b.UID])
				}
				return nil
			}
			r.add(gangOf("g", 3, 3, "gpu=1")...)
			r.run()
			r.rests(5 * time.Second)
			if got := r.bound("g"); len(got) != 3 || !slices.Contains(got, name+"@n1") {
				t.Errorf("bound: %v, want three and %s on n1", got, name)
			}
			r.add(gangOf("next", 1, 1, "gpu=1")...)
			r.run()
			if got := r.bound("next"); !slices.Equal(got, []string{"next-0@n0"}) {
				t.Errorf("the GPU that it could not have went to %v", got)
			}
		})
	}
}

// TestAMemberWhoseNodeGoesIsPlacedAnewAtOnce takes the node away in the moment of
// the binding, or closes it to the pod.
func TestAMemberWhoseNodeGoesIsPlacedAnewAtOnce(t *testing.T) {
	for _, gone := range []bool{true, false} {
		for refused := range 3 {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 3, 2)
				name, closed := fmt.Sprint("g-", refused), false
				r.refuse = func(pod *v1.Pod, node string) bool { return closed && node == "n0" }
				r.unbind = func(pod *v1.Pod) error {
					if pod.Name == name && !closed {
						if closed = true; gone {
							r.nodes = r.nodes[1:]
						}
						return answers["the pod is not there"](pod)
					}
					return nil
				}
				r.add(gangOf("g", 3, 3, "gpu=1")...)
				r.run()
				r.rests(time.Second)
				if got := r.bound("g"); !slices.Contains(got, name+"@n1") {
					t.Errorf("bound: %v, want %s on n1; %v", got, name, r.out)
				}
			})
		}
	}
}

// TestThePlaceOfAMemberThatItsGangNeedsIsKeptForGood: and the member follows at once
// when the API server accepts it.
func TestThePlaceOfAMemberThatItsGangNeedsIsKeptForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, forbids := newRig(t, 4), true
		r.unbind = func(pod *v1.Pod) error {
			if pod.Name == "g-2" && forbids {
				return answers["a webhook forbids it"](pod)
			}
			return nil
		}
		r.add(gangOf("g", 4, 4, "gpu=1")...)
		r.run()
		r.add(gangOf("other", 1, 1, "gpu=1")...)
		for range 30 {
			r.rests(10 * time.Second)
		}
		if got := r.bound("other"); len(got) > 0 {
			t.Errorf("%v has the place", got)
		}
		forbids = false
		r.rests(2 * time.Second)
		if got := r.bound("g"); len(got) != 4 {
			t.Errorf("bound: %v 2 s after nothing forbids it; %v", got, r.out)
		}
	})
}

// TestAMemberThatIsRefusedForEverLetsOthersHaveItsPlace: one that its gang does not
// need, after a minute, and it costs little from then on. When the API server changes
// its mind, it goes on.
func TestAMemberThatIsRefusedForEverLetsOthersHaveItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4)
		r.inLines = true
		forbids := true
		r.unbind = func(pod *v1.Pod) error {
			if pod.Name == "g-2" && forbids {
				return answers["a webhook forbids it"](pod)
			}
			return nil
		}
		r.add(gangOf("g", 4, 3, "gpu=1")...)
		r.run()
		r.add(gangOf("other", 1, 1, "gpu=1")...)
		r.run()
		r.rests(50 * time.Second)
		if got := r.bound("other"); len(got) > 0 {
			t.Errorf("%v within the minute", got)
		}
		for range 12 {
			r.rests(10 * time.Second)
		}
		if got := r.bound("other"); len(got) != 1 {
			t.Errorf("bound: %v after three minutes", got)
		}
		if n := r.tried["g-2"]; n > 200 {
			t.Errorf("tried %d times", n)
		}
		r.remove("other-0")
		forbids = false
		for range 6 {
			r.rests(10 * time.Second)
		}
		if got := r.bound("g"); len(got) != 4 {
			t.Errorf("bound: %v when nothing forbids it any more; %v", got, r.out)
		}
	})
}

func TestThePlaceOfAMemberThatIsDeletedIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4)
		r.unbind = func(pod *v1.Pod) error {
			if pod.Name == "g-2" {
				return answers["a conflict"](pod)
			}
			return nil
		}
		r.add(gangOf("g", 4, 4, "gpu=1")...)
		r.run()
		r.remove("g-2")
		r.add(gangOf("g", 5, 4, "gpu=1")[4])
		r.run()
		if got := r.bound("g"); len(got) != 4 {
			t.Errorf("bound: %v with another in place of the one that was refused and deleted; %v", got, r.out)
		}
	})
}

// TestAGangIsWholeAgainAfterWhateverTheAPIServerSays answers the first bindings of
// pods as chance has it, while single pods take every GPU that they can get and
// never give one back.
func TestAGangIsWholeAgainAfterWhateverTheAPIServerSays(t *testing.T) {
	var kinds []string
	for kind := range answers {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	refusals, gangs := 0, 0
	for seed := range soak.Pick[int64](40, 80) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewSource(seed))
			r := newRig(t, 4, 4, 1+rng.Intn(8))
			left := map[string]int{}
			r.unbind = func(pod *v1.Pod) error {
				if _, met := left[pod.Name]; !met {
					left[pod.Name] = max(0, rng.Intn(8)-3)
				}
				if left[pod.Name] == 0 {
					return nil
				}
				left[pod.Name]--
				refusals++
				return answers[kinds[rng.Intn(len(kinds))]](pod)
			}
			r.lose = func(*v1.Pod) error {
				if rng.Intn(8) == 0 {
					return errRefused
				}
				return nil
			}
			for round := range 4 {
				n := 2 + rng.Intn(4)
				r.add(gangOf(fmt.Sprint("g", round), n, 1+rng.Intn(n), "gpu=1")...)
				r.run()
				r.add(gangOf(fmt.Sprint("single-", round), 1, 1, "gpu=1")...)
				r.run()
				if rng.Intn(2) == 0 {
					r.rests(time.Duration(rng.Intn(3000)) * time.Millisecond)
				}
			}
			r.rests(30 * time.Second)
			for round := range 4 {
				least, name := 0, fmt.Sprint("g", round)
				for _, p := range r.pods {
					if strings.HasPrefix(p.Name, name+"-") {
						var err error
						if least, err = strconv.Atoi(p.Annotations[api.AnnotationGangMinCount]); err != nil {
							t.Fatal(err)
						}
					}
				}
				switch got := r.bound(name); {
				case len(got) >= least:
					gangs++
				case len(got) > 0:
					t.Errorf("seed %d: gang %s needs %d and has %v; %v", seed, name, least, got, r.out)
				}
			}
		})
	}
	if refusals < 200 || gangs < 100 {
		t.Errorf("%d refusals, %d gangs: too few to show anything", refusals, gangs)
	}
}

// TestABindingOfUnknownFateIsWaitedFor: neither the binding nor the pod is
// answered for, and the binding is done a second later, or never.
func TestABindingOfUnknownFateIsWaitedFor(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 4)
			var late *v1.Binding
			down := true
			r.answer = func(b *v1.Binding) error {
				if b.Name == "g-1" && down {
					if late == nil {
						late = b
					}
					return errRefused
				}
				return nil
			}
			r.add(gangOf("g", 4, 4, "gpu=1")...)
			r.blind = true
			r.run()
			r.add(gangOf("rival", 1, 1, "gpu=1")...)
			r.run()
			r.rests(time.Second)
			if r.blind, down = false, false; arrives && len(r.bound("g")) == 3 {
				if err := r.bind(late); err != nil {
					t.Fatal(err)
				}
				r.answer = func(b *v1.Binding) error {
					if b.Name == "g-1" {
						return answers["a conflict"](r.pods[b.UID])
					}
					return nil
				}
			}
			r.rests(10 * time.Second)
			if got := r.bound("g"); len(got) != 4 || len(r.bound("rival")) > 0 {
				t.Errorf("arrives %v: bound: %v, and %v; %v", arrives, got, r.bound("rival"), r.out)
			}
		})
	}
}

// TestAPlaceThatIsKeptGivesWayToHigherPriority: nobody is evicted for it, and the
// member is bound where there is room again.
func TestAPlaceThatIsKeptGivesWayToHigherPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMaking(t, 4)
		forbids := true
		m.unbind = func(pod *v1.Pod) error {
			if pod.Name == "g-2" && forbids {
				return answers["a webhook forbids it"](pod)
			}
			return nil
		}
		m.add(gangOf("g", 4, 4, "gpu=1")...)
		m.run()
		m.add(ranked("urgent", 1000, "gpu=1"))
		m.run()
		m.rests(2 * time.Second)
		if got := m.on(); !slices.Contains(got, "urgent@n0") || len(m.evicted) > 0 {
			t.Fatalf("bound: %v, evicted: %v; want urgent in the place that is kept", got, m.evicted)
		}
		forbids = false
		m.rests(40 * time.Second)
		m.remove("urgent")
		m.rests(40 * time.Second)
		if got := m.bound("g"); len(got) != 4 {
			t.Errorf("bound: %v when the urgent pod has gone; %v", got, m.out)
		}
	})
}
