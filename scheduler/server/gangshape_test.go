package server

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// shape is a gang whose members need what only filters know.
type shape struct {
	name  string
	nodes int // of 4 GPUs each, in two zones and as many racks as nodes / 2
	n     int
	gpus  int64
	give  func(p *v1.Pod, i int)
	most  int // members on one value of the label key at most
	key   string
}

// trained is the label of all members.
var trained = map[string]string{"job": "train"}

func onPort(port int32) func(p *v1.Pod, i int) {
	return func(p *v1.Pod, _ int) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: port, HostPort: port, Protocol: v1.ProtocolTCP}}
	}
}

func spread(key string) func(p *v1.Pod, i int) {
	return func(p *v1.Pod, _ int) {
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: trained},
		}}
	}
}

func apartBy(key string) func(p *v1.Pod, i int) {
	return func(p *v1.Pod, _ int) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: trained},
		}}}}
	}
}

// shapes are the shapes of gangs that users have, on idle nodes.
func shapes() []shape {
	host, zone, rack := v1.LabelHostname, v1.LabelTopologyZone, api.LabelRack
	nccl := func(p *v1.Pod, i int) {
		p.Spec.HostNetwork = true
		onPort(23456)(p, i) // as the API server completes containerPort 23456
	}
	return []shape{
		{"plain", 4, 8, 1, func(*v1.Pod, int) {}, 4, host},
		{"two members with one host port", 4, 2, 1, onPort(8080), 1, host},
		{"four members with one host port", 4, 4, 1, onPort(8080), 1, host},
		{"three members of two GPUs on the network of the host", 4, 3, 2, nccl, 1, host},
		{"four members spread by host", 4, 4, 1, spread(host), 1, host},
		{"eight members spread by host", 4, 8, 1, spread(host), 2, host},
		{"sixteen members spread by host fill every node", 4, 16, 1, spread(host), 4, host},
		{"eight members spread by zone", 4, 8, 1, spread(zone), 4, zone},
		{"two members in two racks", 4, 2, 1, apartBy(rack), 1, rack},
		{"three members on hosts of their own", 4, 3, 4, apartBy(host), 1, host},
		{"numbered members spread by host", 4, 8, 1, func(p *v1.Pod, i int) {
			spread(host)(p, i)
			p.Labels["batch.kubernetes.io/job-completion-index"] = strconv.Itoa(i)
			p.Spec.Hostname = p.Name
		}, 2, host},
		{"workers that follow a launcher into its zone", 4, 8, 1, func(p *v1.Pod, i int) {
			if i == 7 {
				p.Labels["role"] = "launcher"
				return
			}
			p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: zone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "launcher"}},
			}}}}
		}, 8, zone},
		{"a launcher that wants no worker beside it", 4, 5, 1, func(p *v1.Pod, i int) {
			if i == 2 {
				p.Labels = map[string]string{"role": "launcher"}
				apartBy(host)(p, i)
			}
		}, 4, host},
		{"64 members spread by host", 16, 64, 1, spread(host), 4, host},
		{"16 members with one host port", 16, 16, 1, onPort(8080), 1, host},
	}
}

// members makes the pods of a shape, as one gang.
func (s *shape) members(name string) []*v1.Pod {
	var out []*v1.Pod
	for i := range s.n {
		p := gpuPod(fmt.Sprintf("%s-%02d", name, i), 100, s.gpus)
		p.Labels = maps.Clone(trained)
		p.Annotations = map[string]string{api.AnnotationGang: name, api.AnnotationGangMinCount: strconv.Itoa(s.n)}
		s.give(p, i)
		out = append(out, p)
	}
	return out
}

// racks puts nodes of 4 GPUs into a cluster: two to a rack, half of them to a zone.
func racks(l *lab, n int) {
	for i := range n {
		node := t4s(l.t, fmt.Sprintf("n%02d", i), 4)
		node.Labels[v1.LabelTopologyZone], node.Labels[api.LabelRack] = fmt.Sprint("z", 2*i/n), fmt.Sprint("r", i/2)
		l.put("nodes", node)
	}
}

// TestGangsOfEveryShapeAreBoundAtOnce makes gangs whose members need what only
// kube-scheduler's filters know, on idle nodes. All members are bound after about as
// long as those of a plain gang: no plan is refused and made again.
func TestGangsOfEveryShapeAreBoundAtOnce(t *testing.T) {
	bubbles(t)
	for _, s := range shapes() {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lab{cluster: newCluster(t, 1)}
				racks(l, s.nodes)
				l.start()
				defer func() { l.stop() }()
				began := time.Now()
				for _, p := range s.members("g") {
					l.put("pods", p)
				}
				for l.bound() < s.n && time.Since(began) < 2*time.Minute {
					rests(t, 10*time.Millisecond)
				}
				took := time.Since(began)
				t.Logf("%d of %d bound after %v of virtual time", l.bound(), s.n, took)
				if took > 3*time.Second { // watches and requests of the cluster take up to 30 ms each, one after the other
					t.Errorf("%d of %d bound after %v; the first waits: %s", l.bound(), s.n, took, said(list[*v1.Pod](l.cluster, "pods")[0]))
				}
				for value, n := range l.on(s.key) {
					if n > s.most {
						t.Errorf("%d members on %s %s, of at most %d", n, s.key, value, s.most)
					}
				}
			})
		})
	}
}

// bound counts the bound pods.
func (l *lab) bound() int {
	n := 0
	for _, p := range list[*v1.Pod](l.cluster, "pods") {
		if p.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// on counts the bound pods by the label of their node.
func (l *lab) on(key string) map[string]int {
	nodes, out := map[string]*v1.Node{}, map[string]int{}
	for _, n := range list[*v1.Node](l.cluster, "nodes") {
		nodes[n.Name] = n
	}
	for _, p := range list[*v1.Pod](l.cluster, "pods") {
		if n := nodes[p.Spec.NodeName]; n != nil {
			out[n.Labels[key]]++
		}
	}
	return out
}

// TestAGangThatFiltersRefuseSaysWhy has five members with one host port and four
// idle nodes. The leader names the filter, and the gang is bound when a fifth node
// comes.
func TestAGangThatFiltersRefuseSaysWhy(t *testing.T) {
	bubbles(t)
	synctest.Test(t, func(t *testing.T) {
		l := &lab{cluster: newCluster(t, 1)}
		racks(l, 4)
		l.start()
		defer func() { l.stop() }()
		s := shape{n: 5, gpus: 1, give: onPort(8080)}
		for _, p := range s.members("g") {
			l.put("pods", p)
		}
		rests(t, 10*time.Second)
		const want = "gang g: 4 of 5 pods fit together, for the next: 4 node(s) didn't have free ports for the requested pod ports"
		text := ""
		for _, p := range list[*v1.Pod](l.cluster, "pods") {
			text += said(p) + "\n"
		}
		if !strings.Contains(text, want) || strings.Contains(text, "Insufficient") {
			t.Errorf("the members say\n%swant %q", text, want)
		}
		l.put("nodes", t4s(t, "n09", 4))
		rests(t, 2*time.Second)
		if l.bound() != 5 {
			t.Errorf("%d of 5 are bound after a fifth node came", l.bound())
		}
	})
}
