package server

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/scheduler/evict"
	"berth.dev/berth/test/soak"
)

// mostEvictions is how often one pod of a controller, with those that come in its place, may be
// evicted in a run: at the most once for each of the pods above it that come. A loop
// evicts again and again for the same pods.
const mostEvictions = 8

// TestOversubscribedChurnHasNoEvictionLoop lets pods and gangs of four priorities come for 240
// seconds to a cluster that has half of the GPUs that they ask for. Some never preempt, some are
// under disruption budgets, and their grace periods are from none to a minute. Controllers create
// evicted pods again at once. Every eviction is for a pod of higher priority that may preempt; no
// pod is evicted again and again; and when nothing comes any longer, evictions end.
func TestOversubscribedChurnHasNoEvictionLoop(t *testing.T) {
	bubbles(t)
	const during = 240 * time.Second
	seeds := soak.Pick(6, 100)
	total, most := 0, 0
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lab{cluster: newCluster(t, seed), draw: rand.New(rand.NewPCG(seed, 6))}
				l.graces = true
				for i := range 4 {
					l.put("nodes", t4s(t, fmt.Sprint("n", i), 4))
				}
				l.reserve = 10 * time.Second
				l.start()
				defer func() { l.stop() }()
				c := &oversubscribed{lab: l, made: map[string]int{}, never: map[string]bool{}, evictions: map[string]int{}}
				for began := time.Now(); time.Since(began) < during; {
					c.step()
					l.moment(1500 * time.Millisecond)
					c.recreate()
				}
				for range 90 { // nothing new comes, but for what is evicted
					rests(t, 2*time.Second)
					c.recreate()
				}
				before := c.sum()
				for range 60 {
					rests(t, 2*time.Second)
					c.recreate()
				}
				if after := c.sum(); after != before {
					t.Errorf("%d evictions in two minutes in which nothing came", after-before)
				}
				for _, name := range slices.Sorted(maps.Keys(c.evictions)) {
					if n := c.evictions[name]; n > mostEvictions {
						t.Errorf("%s was evicted %d times", name, n)
					} else {
						most = max(most, n)
					}
				}
				total += c.sum()
			})
		})
	}
	if t.Logf("%d evictions, at most %d of one pod", total, most); total < seeds*10 {
		t.Error("too few to show anything")
	}
}

// oversubscribed is a cluster to which more comes than it has room for.
type oversubscribed struct {
	*lab
	n         int
	made      map[string]int // by what a pod is for, how often it was created
	never     map[string]bool
	evictions map[string]int
	seen      int // of cluster.evicted
}

func (c *oversubscribed) sum() int {
	n := 0
	for _, m := range c.evictions {
		n += m
	}
	return n
}

// step has something come or end.
func (c *oversubscribed) step() {
	c.n++
	pods := list[*v1.Pod](c.cluster, "pods")
	if dice := c.draw.IntN(10); dice < 4 && len(pods) > 30 || dice == 0 && len(pods) > 0 {
		p := pods[c.draw.IntN(len(pods))]
		c.end(p.Name, p.UID)
		return
	}
	if c.draw.IntN(8) == 0 {
		c.budget(string("ab"[c.draw.IntN(2)]), int32(c.draw.IntN(3)))
		return
	}
	size, gang := 1, ""
	if c.draw.IntN(2) == 0 {
		size, gang = 2+c.draw.IntN(4), fmt.Sprint("g", c.n)
	}
	priority, gpus := int32(10*c.draw.IntN(4)), int64(1+c.draw.IntN(2))
	least, never, app := 1+c.draw.IntN(size), c.draw.IntN(5) == 0, string("abcd"[c.draw.IntN(4)])
	grace := []int64{0, 1, 30, 60}[c.draw.IntN(4)]
	for i := range size {
		p := gpuPod("", priority, gpus)
		p.Labels = map[string]string{"app": app, "for": fmt.Sprintf("w%d-%d", c.n, i)}
		p.Annotations = map[string]string{}
		if gang != "" {
			p.Annotations[api.AnnotationGang], p.Annotations[api.AnnotationGangMinCount] = gang, fmt.Sprint(least)
		}
		if p.Spec.TerminationGracePeriodSeconds = &grace; never {
			p.Spec.PreemptionPolicy = new(v1.PreemptNever)
		}
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", UID: "r", Controller: new(true)}}
		c.create(p)
	}
}

// create creates a pod for what its label says, under a new name.
func (c *oversubscribed) create(p *v1.Pod) {
	of := p.Labels["for"]
	c.made[of]++
	p.Name = fmt.Sprintf("%s-%d", of, c.made[of])
	p.UID, p.CreationTimestamp = types.UID("uid-"+p.Name), metav1.Time{Time: time.Now()}
	p.ResourceVersion, p.DeletionTimestamp, p.Spec.NodeName, p.Status = "", nil, "", v1.PodStatus{}
	c.never[p.Name] = p.Spec.PreemptionPolicy != nil
	delete(p.Annotations, api.AnnotationDevices)
	c.put("pods", p)
}

// recreate counts who was evicted, and creates another pod for each.
func (c *oversubscribed) recreate() {
	c.mu.Lock()
	gone := slices.Clone(c.evicted[c.seen:])
	c.seen = len(c.evicted)
	var pods []*v1.Pod
	for _, name := range gone {
		if p, ok := c.last[name]; ok {
			pods = append(pods, p.DeepCopy())
		}
	}
	c.mu.Unlock()
	for i, p := range pods {
		c.judge(gone[i], p)
		c.evictions[p.Labels["for"]]++
		c.create(p)
	}
}

// judge holds that an evicted pod went for one of higher priority that may preempt, or with its gang.
func (c *oversubscribed) judge(name string, p *v1.Pod) {
	for _, is := range p.Status.Conditions {
		_, whom, _ := strings.Cut(is.Message, "a higher priority pod, d/")
		var by string
		var priority int32
		switch _, err := fmt.Sscanf(whom, "%s of priority %d", &by, &priority); {
		case is.Type != v1.DisruptionTarget:
			continue
		case is.Reason == evict.Released:
			return
		case err != nil || priority <= *p.Spec.Priority || c.never[by]:
			c.t.Errorf("%s of priority %d was evicted: %s (never preempts: %v)", name, *p.Spec.Priority, is.Message, c.never[by])
		}
		return
	}
	c.t.Errorf("%s was evicted, and its conditions do not say why", name)
}
