package quota_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/test/soak"
)

const (
	h100, a100, t4    = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB", "Tesla-T4"
	training, serving = "workload=training", "workload=serving"
)

// parts is a quota of whole GPUs of a resource, without limits on lending and borrowing.
func parts(r quota.Resource, nominal int64) quota.Quota {
	return quota.Quota{Resource: r, Nominal: nominal * whole, Borrowing: quota.Unlimited, Lending: quota.Unlimited}
}

// text writes choices as "Tesla-T4/workload=a Tesla-V100, then Tesla-T4".
func text(choices []quota.Choice) string {
	var out []string
	for _, c := range choices {
		var kinds []string
		for _, k := range c.Kinds {
			kinds = append(kinds, strings.TrimSuffix(k.Product+"/"+k.Labels, "/"))
		}
		out = append(out, strings.Join(kinds, " "))
	}
	return strings.Join(out, ", then ")
}

func TestChoices(t *testing.T) {
	kinds := func(names ...string) (out []quota.Kind) {
		for _, n := range names {
			product, labels, _ := strings.Cut(n, "/")
			out = append(out, quota.Kind{Product: product, Labels: labels})
		}
		return out
	}
	all := kinds(a100+"/"+serving, a100+"/"+training, h100+"/"+training, t4)
	red := func(prefers []quota.Resource, quotas ...quota.Quota) []quota.Spec {
		return []quota.Spec{{Name: "red", Quotas: quotas, Prefers: prefers}}
	}
	order := []quota.Resource{h100, a100}
	for _, tt := range []struct {
		name  string
		specs []quota.Spec
		held  map[string]int64 // GPUs, by kind
		kinds []quota.Kind
		asks  int64
		cause quota.Cause
		want  string // "" is any
	}{
		{"nothing tells kinds apart", red(nil, gpus(4)), nil, all, 4, quota.None, ""},
		{"GPUs of a pool count for its nodes alone", red(nil, parts(training, 2)), map[string]int64{a100 + "/" + serving: 5, h100 + "/" + training: 2}, all, 1, quota.None, a100 + "/" + serving + " " + t4},
		{"a pool that is used up refuses a pod that must be in it", red(nil, parts(training, 2)), map[string]int64{h100 + "/" + training: 2}, kinds(h100 + "/" + training), 1, quota.Used, ""},
		{"a pod that may be in any of two pools gets the one with quota", red(nil, parts(training, 2), parts(serving, 2)), map[string]int64{a100 + "/" + training: 1}, all[:3], 2, quota.None, a100 + "/" + serving},
		{"a pool of one label is not that of another that begins alike", red(nil, parts("workload=train", 0)), nil, kinds(a100 + "/" + training), 1, quota.None, ""},
		{"a node is in the pools of all of its labels", red(nil, parts(training, 2), parts("zone=b", 0)), nil, kinds(a100+"/workload=training,zone=a", a100+"/workload=training,zone=b"), 1, quota.None, a100 + "/workload=training,zone=a"},
		{"the preferred product comes first, though nothing counts it", red(order, gpus(8)), nil, all, 1, quota.None, h100 + "/" + training + ", then " + a100 + "/" + serving + " " + a100 + "/" + training + ", then " + t4},
		{"without quota for the preferred product the next is first", red(order, parts(h100, 2), parts(a100, 2)), map[string]int64{h100: 2}, all, 1, quota.None, a100 + "/" + serving + " " + a100 + "/" + training + ", then " + t4},
		{"what is not in the order of preference comes last", red(order, parts(h100, 2), parts(a100, 2)), map[string]int64{h100: 2, a100: 1}, all, 2, quota.None, t4},
		{"pools are preferred as products are", red([]quota.Resource{serving, training}, gpus(8)), nil, all, 1, quota.None, a100 + "/" + serving + ", then " + a100 + "/" + training + " " + h100 + "/" + training + ", then " + t4},
		{"without any quota it waits for that of which most is left", red(order, parts(h100, 2), parts(a100, 4)), nil, all[:3], 5, quota.Never, ""},
		{"a pod that asks for one kind has no choice", red(order, gpus(8)), nil, kinds(t4), 1, quota.None, ""},
		{
			"the order of preference is that of the queue above",
			[]quota.Spec{{Name: "org", Prefers: order}, {Name: "red", Parent: "org", Quotas: []quota.Quota{gpus(4)}}},
			nil, kinds(a100, h100), 1, quota.None, h100 + ", then " + a100,
		},
		{
			"and its own, if it has one",
			[]quota.Spec{{Name: "org", Prefers: order}, {Name: "red", Parent: "org", Prefers: []quota.Resource{a100}}},
			nil, kinds(a100, h100), 1, quota.None, a100 + ", then " + h100,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := quota.NewBook(quota.NewTree(tt.specs))
			for name, n := range tt.held {
				k := kinds(name)[0]
				b.Hold(&quota.Holder{ID: name, Workload: name, Queue: "red", Pieces: []quota.Piece{{Product: k.Product, Labels: k.Labels, Devices: n, Parts: n * whole}}})
			}
			w := ask("new", "red", "", tt.asks)
			w.Kinds = tt.kinds
			if v := b.Try(w); v.Cause != tt.cause || text(v.Choices) != tt.want {
				t.Errorf("%+v\ngot  %s\nwant %s", v, text(v.Choices), tt.want)
			}
		})
	}
}

// TestSentencesOfPools has the words for what a pool lacks.
func TestSentencesOfPools(t *testing.T) {
	b := quota.NewBook(quota.NewTree([]quota.Spec{{Name: "red", Quotas: []quota.Quota{parts(training, 2)}}}))
	b.Hold(&quota.Holder{ID: "p", Workload: "p", Queue: "red", Pieces: []quota.Piece{{Labels: training, Devices: 2, Parts: 2 * whole}}})
	w := ask("new", "red", "", 1)
	w.Kinds = []quota.Kind{{Labels: training}}
	v := b.Try(w)
	const want = "the pod asks for 1 GPU of nodes with workload=training, and all 2 GPUs of nodes with workload=training of queue red are in use"
	if got := v.Sentence("the pod", ""); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestJoins has one more pod of a gang get what the gang has.
func TestJoins(t *testing.T) {
	b := quota.NewBook(quota.NewTree([]quota.Spec{{Name: "red", Quotas: []quota.Quota{parts(h100, 2), parts(a100, 2)}, Prefers: []quota.Resource{h100, a100}}}))
	b.Hold(&quota.Holder{ID: "g-0", Workload: "g", Queue: "red", Pieces: []quota.Piece{{Product: a100, Devices: 1, Parts: whole}}})
	w := ask("g-1", "red", "", 1)
	w.Kinds, w.Joins = []quota.Kind{{Product: a100}, {Product: h100}}, "g"
	if v := b.Try(w); v.Cause != quota.None || text(v.Choices) != a100 {
		t.Errorf("beside an A100 of its gang: %+v", v)
	}
	if ways := b.Alternatives(w); len(ways) != 1 || ways[0][0].Product != a100 {
		t.Errorf("beside an A100 of its gang it looks for room in %v", ways)
	}
	w.Pods[0].Pieces[0].Parts = 2 * whole
	if v := b.Try(w); v.Cause != quota.Used || v.Resource != a100 {
		t.Errorf("where the quota of A100 is used: %+v", v)
	}
	if w.Joins = "h"; text(b.Try(w).Choices) != h100 {
		t.Errorf("of a gang that has none: %+v", b.Try(w))
	}
}

// TestWaitersAreWeighedByTheirKind has one be called that asks for less than a whole GPU-equivalent.
func TestWaitersAreWeighedByTheirKind(t *testing.T) {
	b := quota.NewBook(quota.NewTree([]quota.Spec{{Name: "red", Quotas: []quota.Quota{{Resource: quota.Equivalents, Nominal: whole / 5, Borrowing: quota.Unlimited, Lending: quota.Unlimited}}}}))
	holds(b, ask("a", "red", "", 1), t4)
	w := ask("b", "red", "", 1)
	w.Kinds = []quota.Kind{{Product: a100}, {Product: t4}}
	if v := b.Try(w); v.Cause == quota.None {
		t.Fatalf("beside a T4 of 0.153 of 0.2 another fits: %+v", v)
	}
	b.Wait(w)
	b.Gone("a")
	if call := b.Next(epoch); len(call) != 1 {
		t.Errorf("the T4 is free, and %v are called", call)
	}
}

// TestAlternatives has kinds that count the same in one way.
func TestAlternatives(t *testing.T) {
	for _, tt := range []struct {
		spec quota.Spec
		want string
	}{
		{quota.Spec{Name: "red", Quotas: []quota.Quota{parts(training, 1)}}, a100 + "/" + serving + " " + t4 + ", then " + a100 + "/" + training + " " + h100 + "/" + training},
		{quota.Spec{Name: "red", Quotas: []quota.Quota{parts(h100, 1)}, Prefers: []quota.Resource{a100}}, a100 + "/" + serving + " " + a100 + "/" + training + ", then " + h100 + "/" + training + ", then " + t4},
		{quota.Spec{Name: "red", Quotas: []quota.Quota{parts(quota.Equivalents, 1)}}, a100 + "/" + serving + " " + a100 + "/" + training + ", then " + h100 + "/" + training + ", then " + t4},
		{quota.Spec{Name: "red", Quotas: []quota.Quota{gpus(1)}}, ""}, // all count the same
		{quota.Spec{Name: "blue"}, ""},                                // red does not exist
	} {
		w := ask("new", "red", "", 1)
		w.Kinds = []quota.Kind{{a100, serving}, {a100, training}, {h100, training}, {t4, ""}}
		var got []quota.Choice
		for _, way := range quota.NewBook(quota.NewTree([]quota.Spec{tt.spec})).Alternatives(w) {
			got = append(got, quota.Choice{Kinds: way})
		}
		if text(got) != tt.want {
			t.Errorf("%+v\ngot  %s\nwant %s", tt.spec, text(got), tt.want)
		}
	}
}

// TestRandomChoices places gangs of random queues with pools, products and orders of preference, and
// compares each answer with one that is counted from scratch for each kind.
func TestRandomChoices(t *testing.T) {
	products, labels := []string{h100, a100, t4}, []string{"", training, serving, serving + ",zone=a"}
	resources := []quota.Resource{quota.GPUs, quota.Equivalents, h100, a100, training, serving, "zone=a"}
	refused, several, waited := 0, 0, 0
	for seed := range uint64(soak.Pick(100, 3000)) {
		r := rand.New(rand.NewPCG(seed, 53))
		pick := func(n int64) (out []quota.Quota) {
			for _, res := range resources {
				if r.IntN(3) == 0 {
					out = append(out, parts(res, r.Int64N(n)))
				}
			}
			return out
		}
		specs := []quota.Spec{{Name: "org", Quotas: pick(16)}, {Name: "red", Parent: "org", Quotas: pick(6)}, {Name: "blue", Parent: "org", Quotas: pick(6)}}
		plain := slices.Clone(specs)
		for i := range specs {
			for _, k := range r.Perm(len(resources))[:r.IntN(3)] {
				if resources[k] != quota.GPUs && resources[k] != quota.Equivalents {
					specs[i].Prefers = append(specs[i].Prefers, resources[k])
				}
			}
		}
		b, twin := quota.NewBook(quota.NewTree(specs)), quota.NewBook(quota.NewTree(plain))
		// start has what a workload needs hold GPUs of a kind that it may go on with: nodes may have no room
		// for those before.
		start := func(w *quota.Workload, v *quota.Verdict) {
			kind := w.Kinds[0]
			if n := len(v.Choices); n > 0 {
				kind = v.Choices[r.IntN(n)].Kinds[0]
			}
			for _, p := range w.Pods[:w.Need] {
				held := []quota.Piece{{Product: kind.Product, Labels: kind.Labels, Devices: 1, Parts: whole}}
				for _, book := range []*quota.Book{b, twin} {
					book.Hold(&quota.Holder{ID: p.ID, Workload: w.ID, Queue: w.Queue, Pieces: held, Least: w.Need})
				}
			}
		}
		for step := range 60 {
			w := gangOf(fmt.Sprintf("w%d", step), []string{"red", "blue", "org"}[r.IntN(3)], 1+r.IntN(3), 0)
			w.Need = 1 + r.IntN(len(w.Pods))
			seen := map[quota.Kind]bool{}
			for range 1 + r.IntN(4) {
				if k := (quota.Kind{Product: products[r.IntN(3)], Labels: labels[r.IntN(4)]}); !seen[k] {
					seen[k] = true
					w.Kinds = append(w.Kinds, k)
				}
			}
			v := b.Try(w)
			prefers := specs[slices.IndexFunc(specs, func(s quota.Spec) bool { return s.Name == w.Queue })].Prefers
			if len(prefers) == 0 {
				prefers = specs[0].Prefers
			}
			want, all := slowChoices(twin, w, prefers)
			if got := text(v.Choices); (v.Cause == quota.None) != (want != "") || got != want && (got != "" || !all) {
				t.Fatalf("seed %d, step %d: %+v\nchoices %s\none by one %s", seed, step, w, got, want)
			}
			if again := b.Try(w); text(again.Choices) != text(v.Choices) || !equal(again, v) {
				t.Fatalf("seed %d, step %d: another answer to the same: %+v, then %+v", seed, step, v, again)
			}
			if v.Cause != quota.None {
				refused++
				if w.Ticket.UID = w.ID; v.Cause == quota.Used || v.Cause == quota.BorrowingLimit {
					b.Wait(w)
				}
			} else {
				several += max(0, len(v.Choices)-1)
				start(w, &v)
			}
			if holders := b.Holders(); len(holders) > 0 && r.IntN(3) == 0 {
				gone := holders[r.IntN(len(holders))].ID
				b.Gone(gone)
				twin.Gone(gone)
			}
			wanted, got := b.SlowNext(), []string(nil)
			for _, called := range b.Next(time.Time{}) {
				got = append(got, called.ID)
				v := b.Try(&called)
				if v.Cause != quota.None {
					t.Fatalf("seed %d, step %d: %s is called and may not go on: %+v", seed, step, called.ID, v)
				}
				b.Release(called.ID)
				start(&called, &v)
			}
			if waited += len(got); !slices.Equal(got, wanted) {
				t.Fatalf("seed %d, step %d: Next calls %v, and looking at all %v", seed, step, got, wanted)
			}
			if at := b.OverLimit(); at != "" {
				t.Fatalf("seed %d, step %d: queue %s holds more than it may after %s", seed, step, at, text(v.Choices))
			}
		}
	}
	if refused < 100 || several < 100 || waited < 100 {
		t.Errorf("%d refused, %d choices beyond the first, %d called: the test shows little", refused, several, waited)
	}
}

// slowChoices asks a Book without orders of preference about each kind alone. all is that there
// is one choice, of all kinds.
func slowChoices(b *quota.Book, w *quota.Workload, prefers []quota.Resource) (want string, all bool) {
	steps := make([]quota.Choice, len(prefers)+1)
	for _, k := range w.Kinds {
		one := *w
		one.Kinds = []quota.Kind{k}
		if b.Try(&one).Cause != quota.None {
			continue
		}
		at := 0
		for at < len(prefers) && k.Product != string(prefers[at]) && !slices.Contains(strings.Split(k.Labels, ","), string(prefers[at])) {
			at++
		}
		steps[at].Kinds = append(steps[at].Kinds, k)
	}
	steps = slices.DeleteFunc(steps, func(c quota.Choice) bool { return len(c.Kinds) == 0 })
	return text(steps), len(steps) == 1 && len(steps[0].Kinds) == len(w.Kinds)
}

// TestOneOfTwoKindsComesFree: what a workload lacks of one kind says nothing of the other.
func TestOneOfTwoKindsComesFree(t *testing.T) {
	for _, free := range []string{a100, t4} {
		book := quota.NewBook(quota.NewTree([]quota.Spec{{Name: "red", Quotas: []quota.Quota{parts(a100, 1), parts(t4, 1)}}}))
		for _, product := range []string{a100, t4} {
			holds(book, ask("holds "+product, "red", "ann", 1), product)
		}
		w := ask("waits", "red", "ann", 1)
		w.Kinds = []quota.Kind{{Product: a100}, {Product: t4}}
		no := book.Try(w)
		if no.Cause == quota.None {
			t.Fatal("the workload is not refused while all is held")
		}
		book.Gone("holds " + free)
		if book.StillLacks(w, &no) || book.Try(w).Cause != quota.None {
			t.Errorf("%s has come free, and the workload lacks %s: %v, %+v", free, no.Resource, book.StillLacks(w, &no), book.Try(w))
		}
	}
}
