package devices_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/scheduler/devices"
	"berth.dev/berth/test/soak"
)

// classes are the priority classes of the test, by name.
var classes = map[string]int32{"low": 1, "middle": 10, "high": 100}

// judge finds inversions in API objects alone: nodes, pods and priority classes. It
// knows nothing of the scheduler.
type judge struct {
	nodes []*v1.Node
	pods  []*v1.Pod
}

// asks is how many GPUs a pod asks for.
func asks(p *v1.Pod) int64 {
	q := p.Spec.Containers[0].Resources.Limits[api.ResourceGPU]
	return q.Value()
}

// room is how many GPUs of each node a pod of a priority may have that is of a gang:
// those that are free, and those of pods of lower priority.
func (j *judge) room(priority int32, gang string) map[string]int64 {
	room := map[string]int64{}
	for _, n := range j.nodes {
		q := n.Status.Allocatable[api.ResourceGPU]
		room[n.Name] = q.Value()
	}
	for _, p := range j.pods {
		if p.Spec.NodeName != "" && (classes[p.Spec.PriorityClassName] >= priority || gang != "" && p.Annotations[api.AnnotationGang] == gang) {
			room[p.Spec.NodeName] -= asks(p)
		}
	}
	return room
}

// inversion describes a pod or a gang that waits although there would be room for it
// without pods of lower priority; "" is that there is none. Those that excused reports are left
// out.
func (j *judge) inversion(excused func(*v1.Pod) bool) string {
	bound, waits := map[string]int{}, map[string][]*v1.Pod{}
	for _, p := range j.pods {
		key := p.Annotations[api.AnnotationGang]
		if p.Spec.NodeName != "" {
			bound[key]++
		} else {
			waits[key] = append(waits[key], p)
		}
	}
	for _, gang := range slices.Sorted(maps.Keys(waits)) {
		pods, need := waits[gang], 1
		if gang != "" {
			least, _ := strconv.Atoi(pods[0].Annotations[api.AnnotationGangMinCount])
			need = max(1, least-bound[gang])
		}
		for _, p := range pods {
			places := 0
			for _, free := range j.room(classes[p.Spec.PriorityClassName], gang) {
				places += int(free / asks(p))
			}
			if places >= need && len(pods) >= need && !excused(p) {
				return fmt.Sprintf("pod %s (%s, %d GPUs, %d of gang %q run, %d more wait of whom %d must go) has room for %d",
					p.Name, p.Spec.PriorityClassName, asks(p), bound[gang], gang, len(pods), need, places)
			}
		}
	}
	return ""
}

// TestNoInversions lets pods and elastic gangs of three priority classes come and end
// at random. Whenever the scheduler has come to rest, no pod waits that would fit
// without pods of lower priority, and pods were only evicted for a higher class. There are
// no reservations, which keep GPUs free on purpose.
func TestNoInversions(t *testing.T) {
	noInversions(t, soak.Pick[uint64](20, 1000), "0s", func(*churning, *v1.Pod) bool { return false })
}

// TestNoInversionsExceptForReservations is the same with reservations, and a scheduler that starts
// again now and then: only pods may wait beside room that come after one that has a reservation.
func TestNoInversionsExceptForReservations(t *testing.T) {
	soak.Plainly(t)
	noInversions(t, soak.Pick[uint64](20, 300), "10s", (*churning).excused)
}

// excused reports whether another pod has a reservation that waits and comes before it.
func (c *churning) excused(p *v1.Pod) bool {
	least, _ := strconv.Atoi(p.Annotations[api.AnnotationGangMinCount])
	extra := least > 0 && len(c.bound(p.Annotations[api.AnnotationGang])) >= least // such come last of their priority
	for _, id := range devices.Claims(c.room) {
		for _, o := range c.pods {
			mine := o.UID == p.UID || p.Annotations[api.AnnotationGang] != "" && o.Annotations[api.AnnotationGang] == p.Annotations[api.AnnotationGang]
			is := string(o.UID) == id || strings.HasSuffix(id, "/"+o.Annotations[api.AnnotationGang]) && o.Annotations[api.AnnotationGang] != ""
			before := classes[o.Spec.PriorityClassName] > classes[p.Spec.PriorityClassName] ||
				o.Spec.PriorityClassName == p.Spec.PriorityClassName && (extra || !o.CreationTimestamp.After(p.CreationTimestamp.Time))
			if is && !mine && before && o.Spec.NodeName == "" {
				c.waited++
				return true
			}
		}
	}
	return false
}

// noInversions is TestNoInversions, with reservations after a time.
func noInversions(t *testing.T, seeds uint64, after string, excused func(*churning, *v1.Pod) bool) {
	const perSeed = 100
	steps, evicted, surplus, waited := 0, 0, 0, 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 15))
			c := &churning{making: newMaking(t, 1+rng.IntN(4), 1+rng.IntN(4), 1+rng.IntN(4)), rng: rng, class: map[string]string{}}
			c.inLines, c.still, c.reserveAfter = true, true, after
			c.restart()
			for n := range perSeed {
				before := len(c.evicted)
				c.step(n)
				steps++
				surplus += c.surplus()
				for _, name := range c.evicted[before:] {
					if class := c.class[name]; classes[class] >= c.top {
						t.Fatalf("seed %d, step %d: %s of class %s was evicted, and no pod of a higher class waited", seed, n, name, class)
					}
				}
				if text := c.judged().inversion(func(p *v1.Pod) bool { return excused(c, p) }); text != "" {
					t.Fatalf("seed %d, step %d: %s\non %v\nevicted %v, reservations %v\n%s", seed, n, text, c.on(), c.evicted[before:], devices.Claims(c.room), c.why())
				}
			}
			evicted += len(c.evicted)
			waited += c.waited
		})
	}
	if t.Logf("%d steps, %d evicted, %d members beyond their minimums seen, %d waits for reservations", steps, evicted, surplus, waited); evicted < steps/10 || surplus < steps/10 {
		t.Error("too few to show anything")
	}
}

// churning is a scheduler to which pods and gangs come at random.
type churning struct {
	*making
	rng    *rand.Rand
	class  map[string]string // of every pod that has come, by name
	waited int               // for reservations, at rest
	top    int32             // the highest priority of those that waited after the last step
}

// judged reads the API.
func (c *churning) judged() *judge {
	j := &judge{}
	for _, n := range c.nodes {
		j.nodes = append(j.nodes, n.node)
	}
	for _, uid := range slices.Sorted(maps.Keys(c.pods)) {
		j.pods = append(j.pods, c.pods[uid])
	}
	return j
}

// settle lets all come to rest: who is evicted ends, and may make others go.
func (c *churning) settle() {
	for {
		c.rests(2 * time.Second)
		if !slices.ContainsFunc(c.evicted, func(name string) bool { return c.pods[types.UID(name)] != nil }) {
			return
		}
		c.ends()
	}
}

// step has a pod or a gang come, or a pod end.
func (c *churning) step(n int) {
	class := slices.Sorted(maps.Keys(classes))[c.rng.IntN(len(classes))]
	var pods []*v1.Pod
	if c.reserveAfter != "0s" && c.rng.IntN(40) == 0 {
		c.restart() // it forgets the reservations
	}
	switch on := c.on(); {
	case len(on) > 0 && c.rng.IntN(2) == 0:
		name, _, _ := strings.Cut(on[c.rng.IntN(len(on))], "@")
		c.remove(name)
	case c.rng.IntN(2) == 0:
		pods = append(pods, ranked(fmt.Sprint("p", n), 0, fmt.Sprint("gpu=", 1+c.rng.IntN(2))))
	default:
		size := 1 + c.rng.IntN(6)
		pods = gangOf(fmt.Sprint("g", n), size, 1+c.rng.IntN(size), fmt.Sprint("gpu=", 1+c.rng.IntN(2)))
	}
	for _, p := range pods {
		p.Spec.PriorityClassName, p.Spec.Priority = class, new(classes[class])
		p.CreationTimestamp = metav1.NewTime(time.Now())
		c.class[p.Name] = class
	}
	c.add(pods...)
	c.top = 0
	for _, p := range c.pods {
		if p.Spec.NodeName == "" {
			c.top = max(c.top, classes[p.Spec.PriorityClassName])
		}
	}
	c.settle()
}

// surplus counts the members that run beyond their gang's minimum.
func (c *churning) surplus() int {
	n, gangs := 0, map[string]int{}
	for _, p := range c.pods {
		if gang := p.Annotations[api.AnnotationGang]; gang != "" {
			gangs[gang], _ = strconv.Atoi(p.Annotations[api.AnnotationGangMinCount])
		}
	}
	for gang, least := range gangs {
		n += max(0, len(c.bound(gang))-least)
	}
	return n
}

// why prints every pod, and why it waits.
func (c *churning) why() string {
	var b strings.Builder
	for _, n := range c.nodes {
		q := n.node.Status.Allocatable[api.ResourceGPU]
		fmt.Fprintf(&b, "%s has %v\n", n.node.Name, &q)
	}
	for _, uid := range slices.Sorted(maps.Keys(c.pods)) {
		p := c.pods[uid]
		fmt.Fprintf(&b, "%s %s gpus %d least %s on %q: %s; %s\n", uid, p.Spec.PriorityClassName, asks(p), p.Annotations[api.AnnotationGangMinCount], p.Spec.NodeName, c.out[uid], c.answers[p.Name])
	}
	return b.String()
}
