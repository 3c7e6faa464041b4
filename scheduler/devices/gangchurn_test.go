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
	"berth.dev/berth/test/soak"
)

// TestChurnOfGangsLeavesNoneBehind lets gangs and pods of three priorities come and end, while the
// API server rejects bindings, a filter refuses nodes, nodes close, and the scheduler starts again.
// Then nothing else comes, and what runs ends after a while: every gang and pod has its turn.
func TestChurnOfGangsLeavesNoneBehind(t *testing.T) {
	ran := 0
	for seed := range soak.Pick[uint64](20, 60) {
		synctest.Test(t, func(t *testing.T) {
			c := &gangChurn{making: newMaking(t, 4, 4, 2), rng: rand.New(rand.NewPCG(seed, 4))}
			c.inLines, c.still, c.reserveAfter = true, true, "10s"
			c.restart()
			c.unbind = func(*v1.Pod) error {
				if c.rejects && c.rng.IntN(3) == 0 {
					return answers["a webhook forbids it"](&v1.Pod{})
				}
				return nil
			}
			c.refuse = func(pod *v1.Pod, node string) bool {
				return c.refusing && (len(pod.Name)+int(node[1]))%3 == 0
			}
			c.refuses = func(pod *v1.Pod, n *info) bool { return c.refuse(pod, n.node.Name) }
			for n := range 40 {
				c.step(n)
			}
			c.rejects, c.refusing = false, false
			for began := time.Now(); len(c.pods) > 0; {
				c.ends(30 * time.Second)
				if time.Since(began) > 2*time.Hour {
					t.Errorf("seed %d: left behind:\n%s", seed, c.why())
					break
				}
			}
			ran += c.made
		})
	}
	if t.Logf("%d pods", ran); ran < 1000 {
		t.Error("too few to show anything")
	}
}

// gangChurn is a scheduler to which gangs come.
type gangChurn struct {
	*making
	rng               *rand.Rand
	made              int
	rejects, refusing bool
}

// step has something happen.
func (c *gangChurn) step(n int) {
	switch dice := c.rng.IntN(12); {
	case dice < 5:
		size := 1 + c.rng.IntN(5)
		pods := gangOf(fmt.Sprint("g", n), size, 1+c.rng.IntN(size), fmt.Sprint("gpu=", 1+c.rng.IntN(2)))
		if within := c.rng.IntN(3); within == 0 && size*int(asks(pods[0])) <= 4 {
			for _, p := range pods {
				p.Annotations[api.AnnotationTopology] = "node"
			}
		}
		c.come(pods)
	case dice < 7:
		c.come([]*v1.Pod{ranked(fmt.Sprint("p", n), 0, fmt.Sprint("gpu=", 1+c.rng.IntN(4)))})
	case dice < 9:
		if on := c.on(); len(on) > 0 {
			name, _, _ := strings.Cut(on[c.rng.IntN(len(on))], "@")
			c.remove(name)
		}
	case dice == 9:
		c.rejects = !c.rejects
	case dice == 10:
		c.refusing = !c.refusing
	default:
		c.restart()
	}
	c.rests(time.Duration(c.rng.IntN(8000)) * time.Millisecond)
	c.bury()
}

// come creates pods of one priority, of a controller.
func (c *gangChurn) come(pods []*v1.Pod) {
	priority := []int32{0, 0, 10}[c.rng.IntN(3)]
	for _, p := range pods {
		p.Spec.Priority, p.CreationTimestamp = &priority, metav1.NewTime(time.Now())
		c.made++
	}
	c.add(pods...)
}

// bury ends the pods that were evicted.
func (c *gangChurn) bury() {
	for _, name := range c.evicted {
		if c.pods[types.UID(name)] != nil {
			c.remove(name)
		}
	}
	c.run()
}

// ends lets time pass, and then a pod end, or all pods of a gang that run.
func (c *gangChurn) ends(after time.Duration) {
	c.rests(after)
	c.bury()
	on := c.on()
	if len(on) == 0 {
		c.tooFew()
		return
	}
	name, _, _ := strings.Cut(on[c.rng.IntN(len(on))], "@")
	if gang := c.pods[types.UID(name)].Annotations[api.AnnotationGang]; gang != "" {
		for _, at := range c.bound(gang) {
			name, _, _ := strings.Cut(at, "@")
			c.remove(name)
		}
	} else {
		c.remove(name)
	}
	c.tooFew()
}

// tooFew ends the pods of gangs that are fewer than their gang needs: no others come.
func (c *gangChurn) tooFew() {
	all, least := map[string]int{}, map[string]int{}
	for _, p := range c.pods {
		gang := p.Annotations[api.AnnotationGang]
		all[gang]++
		least[gang], _ = strconv.Atoi(p.Annotations[api.AnnotationGangMinCount])
	}
	for _, uid := range slices.Sorted(maps.Keys(c.pods)) {
		if gang := c.pods[uid].Annotations[api.AnnotationGang]; all[gang] < least[gang] {
			c.remove(string(uid))
		}
	}
}

// why is every pod that is left, and why it waits.
func (c *gangChurn) why() string {
	var out []string
	for _, p := range c.pods {
		out = append(out, fmt.Sprintf("%s gpus %d of %s at least %s on %q: %s; %s",
			p.Name, asks(p), p.Annotations[api.AnnotationGang], p.Annotations[api.AnnotationGangMinCount], p.Spec.NodeName, c.out[p.UID], c.answers[p.Name]))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
