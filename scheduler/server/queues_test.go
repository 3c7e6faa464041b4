package server

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// queueOf and userOf are annotations by which scenarios say whose a pod is.
const queueOf, userOf = "test/queue", "test/user"

// asLabeled reads pods of scenarios as quotas count them.
func asLabeled() queues.Reader {
	pieces := func(p *v1.Pod) []quota.Piece {
		n := request.Of(p)["nvidia.com/gpu"]
		return []quota.Piece{{Devices: n, Parts: n * quota.Whole}}
	}
	return queues.Reader{
		Queue: func(p *v1.Pod) string { return p.Annotations[queueOf] }, User: func(p *v1.Pod) string { return p.Annotations[userOf] },
		Held: func(p *v1.Pod, _ string) []quota.Piece { return pieces(p) },
		Asked: func(p *v1.Pod, _ sharing.Ways) (quota.Pod, []quota.Kind) {
			return quota.Pod{ID: string(p.UID), Pieces: pieces(p)}, nil
		},
		Kind: func(*v1.Node) quota.Kind { return quota.Kind{} },
	}
}

// reader is asLabeled, and where quotas name racks it counts pods by these, as the nodes are now.
func (c *cluster) reader() queues.Reader {
	r, named := asLabeled(), map[string]bool{}
	for _, s := range c.queues {
		for _, q := range s.Quotas {
			named[q.Resource.Label()] = true
		}
		for _, p := range s.Prefers {
			named[p.Label()] = true
		}
	}
	delete(named, "")
	if len(named) == 0 {
		return r
	}
	r.Labels = slices.Sorted(maps.Keys(named))
	offers := &queues.Offers{}
	offers.Count([]*v1alpha1.Queue{{Spec: v1alpha1.QueueSpec{PreferredGPUs: r.Labels}}})
	for _, n := range list[*v1.Node](c, "nodes") {
		offers.Set(n)
	}
	r.Asked = func(p *v1.Pod, allowed sharing.Ways) (quota.Pod, []quota.Kind) {
		return queues.Asked(p, offers, allowed)
	}
	r.Held = func(p *v1.Pod, node string) []quota.Piece {
		p = p.DeepCopy()
		p.Spec.NodeName = node
		return offers.Held(p)
	}
	r.Kind = offers.KindOf
	return r
}

// queue makes or changes a queue: "red 7 parent=org borrow=2 lend=3 user=2 pod=4 after=600". "r0=4" is
// what it has in rack r0, "prefers=r1,r0" which racks it prefers.
func (l *lab) queue(text string) {
	words := strings.Fields(text)
	s := quota.Spec{Name: words[0]}
	q := quota.Quota{Resource: quota.GPUs, Borrowing: quota.Unlimited, Lending: quota.Unlimited}
	for _, w := range words[1:] {
		key, value, is := strings.Cut(w, "=")
		number, _ := strconv.ParseInt(value, 10, 64) // not all values are numbers
		limit := []quota.Limit{{Resource: quota.GPUs, Most: number * quota.Whole}}
		switch {
		case !is:
			nominal, err := strconv.ParseInt(key, 10, 64)
			if err != nil {
				l.t.Fatalf("queue %q: %v", text, err)
			}
			q.Nominal = nominal * quota.Whole
			s.Quotas = []quota.Quota{q}
		case key == "parent":
			s.Parent = value
		case key == "prefers":
			for rack := range strings.SplitSeq(value, ",") {
				s.Prefers = append(s.Prefers, quota.Resource(api.LabelRack+"="+rack))
			}
		case key[0] == 'r':
			s.Quotas = append(s.Quotas, quota.Quota{Resource: quota.Resource(api.LabelRack + "=" + key), Nominal: number * quota.Whole, Borrowing: quota.Unlimited, Lending: quota.Unlimited})
		case key == "borrow":
			s.Quotas[0].Borrowing = number * quota.Whole
		case key == "lend":
			s.Quotas[0].Lending = number * quota.Whole
		case key == "user":
			s.PerUser = limit
		case key == "pod":
			s.PerPod = limit
		case key == "after":
			s.MinRunTime = time.Duration(number) * time.Second
		case key == "stop":
			s.Stop = number > 0
		default:
			l.t.Fatalf("queue %q: what is %q?", text, w)
		}
	}
	l.setQueues(append(l.without(s.Name), s))
}

// unqueue deletes a queue.
func (l *lab) unqueue(name string) { l.setQueues(l.without(name)) }

// without is the queues but for one.
func (l *lab) without(name string) (kept []quota.Spec) {
	l.cluster.mu.Lock()
	defer l.cluster.mu.Unlock()
	for _, o := range l.queues {
		if o.Name != name {
			kept = append(kept, o)
		}
	}
	return kept
}

func (l *lab) setQueues(list []quota.Spec) {
	l.cluster.mu.Lock()
	l.queues = list
	shared := l.quota
	l.cluster.mu.Unlock()
	shared.SetQueues(list, l.reader())
}

// TestQueues plays what queues promise.
func TestQueues(t *testing.T) {
	bubbles(t)
	for _, s := range queueScenarios() {
		t.Run(s.name, func(t *testing.T) { synctest.Test(t, s.play) })
	}
}

// TestPodsThatWaitForQuotaAreOutside has pods and a gang wait for quota: kube-scheduler's queue, which
// looks at each of its pods for each event, has none of them, and each starts in its turn, also one
// that is changed while it waits, and none that is deleted.
func TestPodsThatWaitForQuotaAreOutside(t *testing.T) {
	bubbles(t)
	synctest.Test(t, func(t *testing.T) {
		l := &lab{cluster: newCluster(t, 5), draw: rand.New(rand.NewPCG(5, 1))}
		l.put("nodes", t4s(t, "n0", 8))
		l.start()
		defer func() { l.stop() }()
		l.queue("red 4")
		named := func(name, gang string) *v1.Pod {
			p := gpuPod(name, 100, 2)
			if p.Annotations = map[string]string{queueOf: "red"}; gang != "" {
				p.Annotations[api.AnnotationGang], p.Annotations[api.AnnotationGangMinCount] = gang, "2"
			}
			return p
		}
		waiting := func(want ...string) {
			t.Helper()
			rests(t, time.Minute)
			var have []string
			for _, p := range list[*v1.Pod](l.cluster, "pods") {
				if p.Spec.NodeName == "" {
					have = append(have, p.Name)
				}
			}
			if !slices.Equal(have, want) {
				t.Errorf("%v wait, want %v", have, want)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if pods, _ := l.inside.PendingPods(); len(pods) > 0 {
				t.Errorf("%d pods are in kube-scheduler's queue, such as %s", len(pods), pods[0].Name)
			}
		}
		for _, p := range []*v1.Pod{named("a", ""), named("b", ""), named("c", ""), named("d", ""), named("e", ""), named("g0", "g"), named("g1", "g")} {
			l.put("pods", p)
			rests(t, time.Second)
		}
		waiting("c", "d", "e", "g0", "g1")
		l.pod("d", func(p *v1.Pod) *v1.Pod {
			p.Labels = map[string]string{"changed": "yes"}
			return p
		})
		if err := l.delete("e", "uid-e"); err != nil {
			t.Fatal(err)
		}
		waiting("c", "d", "g0", "g1")
		l.end("a", "uid-a")
		waiting("d", "g0", "g1")
		l.end("b", "uid-b")
		waiting("g0", "g1")
		l.end("c", "uid-c")
		waiting("g0", "g1")
		l.end("d", "uid-d")
		waiting()
	})
}

func queueScenarios() []scenario {
	const (
		two    = "queue org 8 ; queue red 4 parent=org ; queue blue 4 parent=org | "
		own    = "berth"
		stolen = "kueue#13797"
		loops  = "kueue#14543"
		halves = "trainer#1264"
		others = "kueue#14630"  // pods join the workload of another
		blind  = "kueue#4329"   // admitted, and no node has room
		bound  = "KAI#2074"     // one whose binding is rejected is tried first, again and again
		frees  = "volcano#5520" // what is free already is not used in a reclaim
		locks  = "volcano#3869" // two gangs that wait for each other
	)
	return []scenario{
		{"a pod within nominal quota starts", own, "8", two + "a gpus=4 q=red", "a"},
		{"a queue borrows what is unused", own, "8", two + "a gpus=4 q=red | b gpus=4 q=red", "a b"},
		{"more than the tree has does not start", own, "8 8", two + "a gpus=8 q=red | b q=red", "a b=0"},
		{"a pod that waits for quota starts when a pod of its queue ends", own, "8 8", two + "a gpus=8 q=red | b q=red | ? b=0 | end a", "b"},
		{"a pod within nominal quota takes back what is lent", own, "8", two + "a gpus=4 q=red | b gpus=4 q=red | c gpus=4 q=blue", "a c b=0 gone=b"},
		{"pods that come together take back as much as each needs", own, "4 4 4 2", "queue org 14 ; queue red 7 parent=org ; queue blue 7 parent=org | mix a n=14 min=1 q=red | mix b0 q=blue & b1 q=blue & b2 q=blue & b3 q=blue & b4 q=blue & b5 q=blue & b6 q=blue", "b0 b1 b2 b3 b4 b5 b6 a=7 gone:7"},
		{"a pod takes back no more than it needs", own, "8", two + "a n=8 min=1 q=red | b gpus=2 q=blue", "a=6 b gone:2"},
		{"a queue does so where GPUs are free but quota is not", own, "8 8", two + "a n=8 min=1 q=red | b gpus=2 q=blue", "a=6 b gone:2"},
		{"what a queue has within its nominal quota stays", own, "4", two + "a gpus=4 q=red prio=1 | b gpus=4 q=blue prio=1000", "a b=0"},
		{"a pod that would borrow evicts no pod of another queue", own, "8", two + "a gpus=8 q=red | b gpus=5 q=blue prio=1000", "a b=0"},
		{"in its own queue a higher priority evicts", own, "8", "queue red 4 | a gpus=4 q=red prio=1 | b gpus=2 q=red prio=100", "b a=0 gone=a"},
		{"a gang takes back its quota whole", own, "4 4", two + "a n=8 min=1 q=red | b n=4 q=blue", "a=4 b gone:4"},
		{"a gang that needs all its pods goes whole", own, "8", two + "a n=8 q=red | b q=blue", "b a=0 gone:8"},
		{"an elastic gang gets as many pods as there is quota for", own, "8", "queue red 3 | a n=8 min=2 q=red", "a=3"},
		{"half a gang is not admitted", halves, "8", "queue red 6 | mix a n=4 q=red & b n=4 q=red", "all=4"},
		{"what was freed for a pod is not taken by another", stolen, "8", two + "a gpus=4 q=red | b gpus=4 q=red | c gpus=4 q=blue ; d gpus=4 q=red ; e gpus=4 q=red", "a c d=0 e=0 gone=b"},
		{"two borrowers do not evict each other in turn", loops, "8", "queue org 8 ; queue red 2 parent=org ; queue blue 2 parent=org | a gpus=6 q=red | b gpus=6 q=blue | c gpus=2 q=blue", "a c b=0"},
		{"a user has no more than their limit", own, "8", "queue red 8 user=2 | a q=red user=ann ; b q=red user=ann ; c q=red user=ann ; d q=red user=bob", "all=3 d"},
		{"a pod asks for no more than its limit", own, "8", "queue red 8 pod=2 | a gpus=3 q=red ; b gpus=2 q=red", "b a=0"},
		{"a stopped queue admits nothing until it goes on", own, "8", "queue red 8 stop=1 | a q=red | ? a=0 | queue red 8", "a"},
		{"a queue that is made smaller keeps what runs", own, "8", "queue red 8 | a gpus=8 q=red | queue red 4 | b q=red", "a b=0"},
		{"a queue that is deleted keeps what runs, and admits nothing until it is there again", own, "8", "queue red 4 ; queue blue 4 | a gpus=4 q=red | b q=red | unqueue red | ? a b=0 | queue red 8", "a b"},
		{"when the last queue is deleted, no pod waits for quota", own, "8", "queue red 4 | a gpus=4 q=red | b q=red | ? b=0 | unqueue red", "a b"},
		{"a pod that waited for room before there were queues takes its quota back", own, "8", "a gpus=8 q=red | b gpus=4 q=blue | ? b=0 | queue org 8 ; queue blue 4 parent=org ; queue red 4 parent=org", "b a=0 gone=a"},
		{"and one that waited before its own queue came", own, "8", "queue org 8 ; queue red 4 parent=org | a gpus=8 q=red | b gpus=4 q=blue | ? b=0 | queue blue 4 parent=org", "b a=0 gone=a"},
		{"a pod that waited for quota takes it back when its queue gets some", own, "8", "queue org 8 ; queue red 8 parent=org ; queue blue 0 parent=org | a gpus=8 q=red | b gpus=4 q=blue | ? b=0 | queue red 4 parent=org ; queue blue 4 parent=org", "b a=0 gone=a"},
		{"a gang that waited for room before there were queues takes its quota back", own, "4 4", "a n=8 min=1 q=red | b n=4 q=blue | ? b=0 | queue org 8 ; queue red 4 parent=org ; queue blue 4 parent=org", "a=4 b gone:4"},
		{"a pod of no queue is not counted", own, "8", "queue red 1 | a gpus=4 ; b q=red ; c q=red", "a all=2"},
		{"a borrower stays for as long as it is protected", own, "8", "queue org 8 ; queue red 4 parent=org after=3600 ; queue blue 4 parent=org | a gpus=8 q=red | b gpus=4 q=blue", "a b=0"},
		{"and goes then", own, "8", "queue org 8 ; queue red 4 parent=org after=15 ; queue blue 4 parent=org | a gpus=8 q=red | b gpus=4 q=blue", "b a=0 gone=a"},
		{"or when its time is over, though nothing else happens", own, "8", "queue org 8 ; queue red 4 parent=org after=40 ; queue blue 4 parent=org | a gpus=8 q=red | b gpus=4 q=blue | ? b=0 a", "b a=0 gone=a"},
		{"a pool that is used up refuses", own, "4:r0 4:r1", "queue red r0=2 r1=1 | a gpus=2 q=red | b q=red | c q=red", "a@n0 b@n1 c=0"},
		{"and what is freed in it is used in it", own, "4:r0 4:r1", "queue red r0=2 r1=1 | a gpus=2 q=red | b q=red | c gpus=2 q=red | ? c=0 | end a", "b@n1 c@n0"},
		{"a queue has pools of its tree", own, "4:r0 4:r1", "queue org r0=4 r1=4 ; queue red parent=org r0=2 | a gpus=4 q=red | b gpus=4 q=red | c q=red", "a b a!host c=0"},
		{"a pod that names a pool waits for quota there", own, "4:r0 4:r1", "queue red r0=1 r1=4 | a q=red rack=r0 | b q=red rack=r0 | c q=red", "a@n0 b=0 c@n1"},
		{"the preferred pool comes first, and the next when it is full", own, "4:r0 4:r1", "queue red 8 prefers=r1 | a gpus=3 q=red | b gpus=3 q=red", "a@n1 b@n0"},
		{"and when its quota is used", own, "4:r0 4:r1", "queue red r0=1 r1=4 prefers=r0,r1 | a q=red | b q=red", "a@n0 b@n1"},
		{"a preference evicts no pod", own, "4:r0 4:r1", "queue org r0=4 r1=4 ; queue red parent=org r0=4 prefers=r0 ; queue blue parent=org r1=4 | a gpus=4 q=blue rack=r0 | b gpus=4 q=red", "a@n0 b@n1"},
		{"what is lent in a pool is taken back in it", own, "4:r0 4:r1", "queue org r0=4 r1=4 ; queue red parent=org r0=4 ; queue blue parent=org r1=4 | a gpus=4 q=blue rack=r0 | b gpus=4 q=blue | c gpus=4 q=red", "b@n1 c@n0 a=0 gone=a"},
		{"a priority evicts in the pool that it has quota in", own, "4:r0 4:r1", "queue red r0=4 r1=0 | a gpus=4 q=red prio=1 | x gpus=4 prio=1 | b gpus=4 q=red prio=100", "b@n0 x@n1 a=0 gone=a"},
		{"a gang is in one pool as a whole", own, "4:r0 4:r1", "queue red 8 prefers=r0,r1 | x gpus=2 q=red | a n=4 q=red", "x@n0 a@n1"},
		{"or in none", own, "4:r0 4:r1", "queue red 8 prefers=r0,r1 | x gpus=2 q=red rack=r0 ; y gpus=2 q=red rack=r1 | a n=4 q=red | ? x y a=0 | end y", "x@n0 a@n1"},
		{"a gang that finds no quota in the first pool goes to the next", own, "4:r0 4:r1", "queue red r0=3 r1=4 prefers=r0,r1 | a n=4 q=red", "a@n1"},
		{"an elastic gang gets as many pods as its pool has quota for", own, "4:r0 8:r1", "queue red r0=1 r1=5 prefers=r0,r1 | a n=8 min=2 q=red", "a=5"},
		{"a gang takes back its quota in its pool", own, "4:r0 4:r1", "queue org r0=4 r1=4 ; queue red parent=org r0=4 ; queue blue parent=org r1=4 | x gpus=4 q=blue | y gpus=4 q=blue | a n=4 q=red", "a@n0 gone:1"},
		{"pods for which all nodes are asked follow the preference too", own, "4:r0 4:r1", "queue red 8 prefers=r1 | a gpus=1 q=red port=1 | b gpus=1 q=red port=1 | c gpus=1 q=red port=1", "a@n1 b@n0 c=0"},
		{"and start in no pool without quota", own, "4:r0 4:r1", "queue red r0=0 r1=4 | a gpus=1 q=red port=1 | b gpus=1 q=red port=1", "a@n1 b=0"},
		{"a lending limit leaves quota at home", own, "8", "queue org 8 ; queue red 4 parent=org ; queue blue 4 parent=org lend=1 | a n=8 min=1 q=red | b gpus=3 q=blue", "a=5 b"},
		{"a member of another's gang counts for its own user", others, "8", "queue red 8 user=2 | a gang=g min=2 q=red user=ann ; b gang=g min=2 q=red user=bob ; c gang=g min=2 q=red user=bob ; d gang=g min=2 q=red user=bob ; e gang=g min=2 q=red user=bob", "a all=3"},
		{"a gang whose least a user may not have does not start", others, "8", "queue red 8 user=2 | mix a gang=g min=4 q=red user=ann & b gang=g min=4 q=red user=bob & c gang=g min=4 q=red user=bob & d gang=g min=4 q=red user=bob", "all=0"},
		{"a gang with pods of two queues does not start", others, "8", "queue red 8 ; queue blue 1 | a gang=g min=3 q=red ; b gang=g min=3 q=blue ; c gang=g min=3 q=blue", "all=0"},
		{"and starts when it has others of one queue", others, "8", "queue red 8 ; queue blue 1 | a gang=g min=3 q=red ; b gang=g min=3 q=red ; c gang=g min=3 q=blue | ? all=0 | end c ; d gang=g min=3 q=red", "a b d"},
		{"a pod whose binding is rejected keeps no quota from the next", bound, "8", "queue red 4 | reject a ; a gpus=4 q=red | b gpus=4 q=red", "b a=0"},
		{"what fits no node holds no quota", blind, "4 4", "queue red 8 | a gpus=8 q=red | b gpus=4 q=red ; c gpus=4 q=red", "b c a=0"},
		{"a gang that fits no node holds no quota", blind, "4 2", "queue red 8 | a n=4 gpus=2 q=red | b gpus=4 q=red ; c gpus=2 q=red", "b c a=0"},
		{"a gang takes what is free, and evicts no more than it needs beside it", frees, "4 4", two + "a n=6 min=1 q=red | b n=4 q=blue", "a=4 b gone:2"},
		{"a gang takes back its quota by the end of one gang, and the older one stays", own, "8 4 2", "queue org 14 ; queue red 7 parent=org ; queue blue 7 parent=org | a n=7 q=red | b n=7 q=red | c n=7 q=blue", "a c b=0 gone:7"},
		{"two gangs that take back at the same time both get their own", locks, "4 4 4", "queue org 12 ; queue red 4 parent=org ; queue blue 4 parent=org ; queue green 4 parent=org | a n=12 min=1 q=green | mix b n=4 q=red & c n=4 q=blue", "a=4 b c gone:8"},
		{"two gangs that each fit alone do not keep quota from each other", locks, "8", "queue org 8 ; queue red 4 parent=org ; queue blue 4 parent=org | mix a n=6 q=red & b n=6 q=blue | ? all=6 | end a-0 ; end a-1 ; end a-2 ; end a-3 ; end a-4 ; end a-5", "b"},
	}
}
