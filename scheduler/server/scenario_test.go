package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// scenario is a situation of a peer's test, in its own notation, and how it ends
// under Berth's scheduler.
//
// nodes are GPUs, rack and zone of n0, n1, ...: "4:r0:z0 4:r1:z0", rack and zone as
// needed. steps are separated by "|", after each of which everything comes to rest;
// what ";" separates happens at once. A step is one of
//
//	add 4:r1        a node more
//	taint n0        with NoSchedule
//	end a           the pod a ends, or all pods of gang a
//	ungate a        its scheduling gate is removed
//	budget app 0    a disruption budget of the pods of an app
//	reject a        the API server rejects the bindings of pod a
//	mix a ... & b ...  pods of several gangs, created in turn
//	? WANT          what holds at this point
//	NAME KEY=VALUE...  a pod, or with n= or min= a gang of pods NAME-0, NAME-1, ...
//
// with the keys of pod. want is words that all hold in the end:
//
//	a        all pods of a are bound
//	a=2 a>=2 so many of them
//	a@n1     all of them are, on one node
//	a~rack   the bound ones are in one rack (host, zone)
//	a!host   they are on hosts of their own
//	a&b a^b  pods a and b share a GPU, or have different ones
//	all=5    pods bound
//	gone=a,b gone:2 gone*  who was evicted, how many, or that it does not matter
//
// Without one of the last no pod was evicted. No gang ever rests below its minimum,
// and no GPU is given beyond its size.
type scenario struct{ name, from, nodes, steps, want string }

// play plays a scenario and holds it to what it wants.
func (s *scenario) play(t *testing.T) {
	l := &lab{cluster: newCluster(t, 1)}
	for text := range strings.FieldsSeq(s.nodes) {
		l.addNode(text)
	}
	l.start()
	defer func() { l.stop() }()
	for step := range strings.SplitSeq(s.steps, "|") {
		for act := range strings.SplitSeq(step, ";") {
			l.act(strings.TrimSpace(act))
		}
		rests(t, 20*time.Second)
	}
	rests(t, 40*time.Second)
	l.expect(s.want)
	l.sound()
	if t.Failed() {
		for _, p := range list[*v1.Pod](l.cluster, "pods") {
			t.Logf("%s on %q: %s", p.Name, p.Spec.NodeName, said(p))
		}
	}
}

// addNode adds the next node.
func (l *lab) addNode(text string) {
	part := append(strings.Split(text, ":"), "", "")
	gpus, err := strconv.Atoi(part[0])
	if err != nil {
		l.t.Fatalf("node %q: %v", text, err)
	}
	n := t4s(l.t, fmt.Sprint("n", len(list[*v1.Node](l.cluster, "nodes"))), gpus)
	if part[1] != "" {
		n.Labels[api.LabelRack] = part[1]
	}
	if part[2] != "" {
		n.Labels[v1.LabelTopologyZone] = part[2]
	}
	l.put("nodes", n)
}

// act does one thing.
func (l *lab) act(text string) {
	verb, rest, _ := strings.Cut(text, " ")
	switch verb {
	case "add":
		l.addNode(rest)
	case "taint":
		for _, n := range list[*v1.Node](l.cluster, "nodes") {
			if n.Name == rest {
				n.Spec.Taints = []v1.Taint{{Key: "dedicated", Effect: v1.TaintEffectNoSchedule}}
				l.put("nodes", n)
			}
		}
	case "end":
		for _, p := range l.of(rest) {
			l.end(p.Name, p.UID)
		}
	case "ungate":
		for _, p := range l.of(rest) {
			p.Spec.SchedulingGates = nil
			l.put("pods", p)
		}
	case "budget":
		app, allowed, _ := strings.Cut(rest, " ")
		n, _ := strconv.Atoi(allowed)
		l.budget(app, int32(n)) //nolint:gosec // a small number of a case
	case "reject":
		l.policy(rest)
	case "queue":
		l.queue(rest)
	case "unqueue":
		l.unqueue(rest)
	case "?":
		l.expect(rest)
	case "mix":
		var all [][]*v1.Pod
		most := 0
		for part := range strings.SplitSeq(rest, "&") {
			all = append(all, l.pods(strings.TrimSpace(part)))
			most = max(most, len(all[len(all)-1]))
		}
		for i := range most {
			for _, pods := range all {
				if i < len(pods) {
					l.put("pods", pods[i])
				}
			}
		}
	default:
		for _, p := range l.pods(text) {
			l.put("pods", p)
		}
	}
}

// pods makes what a step names: one pod, or the pods of a gang.
func (l *lab) pods(text string) []*v1.Pod {
	words := strings.Fields(text)
	name, n, least, gang := words[0], 1, "", ""
	gpus, priority := int64(1), int32(100)
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		number, _ := strconv.Atoi(value)
		switch key {
		case "n":
			n, gang = number, name
			if least == "" {
				least = value
			}
		case "min":
			least = value
			if gang == "" {
				gang = name
			}
		case "gang":
			gang = value
		case "gpus":
			gpus = int64(number)
		case "prio":
			priority = int32(number) //nolint:gosec // a small number of a case
		}
	}
	var out []*v1.Pod
	for i := range n {
		full := name
		if n > 1 {
			full = fmt.Sprint(name, "-", i)
		}
		p := gpuPod(full, priority, gpus)
		p.Annotations, p.Labels = map[string]string{}, map[string]string{"case": name}
		if gang != "" {
			p.Annotations[api.AnnotationGang], p.Annotations[api.AnnotationGangMinCount] = gang, least
		}
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			if !give(p, key, value) {
				l.t.Fatalf("pod %q: what is %q?", text, w)
			}
		}
		out = append(out, p)
	}
	return out
}

// give sets on a pod what one of its keys asks for.
func give(p *v1.Pod, key, value string) bool {
	limits := p.Spec.Containers[0].Resources.Limits
	switch key {
	case "n", "min", "gang", "prio":
	case "gpus":
		if value == "0" {
			delete(limits, api.ResourceGPU)
		}
	case "part", "mem": // of one GPU: a part, MiB of its memory
		delete(limits, api.ResourceGPU)
		p.Annotations[map[string]string{"part": api.AnnotationKAIFraction, "mem": api.AnnotationKAIMemory}[key]] = value
	case "ram": // GiB of the node's memory
		limits[v1.ResourceMemory] = resource.MustParse(value + "Gi")
	case "q":
		p.Annotations[queueOf] = value
	case "user":
		p.Annotations[userOf] = value
	case "never":
		never := v1.PreemptNever
		p.Spec.PreemptionPolicy = &never
	case "gated":
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/later"}}
	case "port":
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80, Protocol: v1.ProtocolTCP}}
	case "app":
		p.Labels["app"] = value
	case "like": // counted with the pods of another name
		p.Labels["case"] = value
	case "on", "rack", "zone":
		p.Spec.NodeSelector = map[string]string{levels[key]: value}
	case "within":
		p.Annotations[api.AnnotationTopology] = value
	case "tolerates":
		p.Spec.Tolerations = []v1.Toleration{{Key: "dedicated", Operator: v1.TolerationOpExists}}
	case "spread": // evenly over hosts, racks, zones
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: levels[value], WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"case": p.Labels["case"]}},
		}}
	case "with", "apart": // app:host
		app, level, _ := strings.Cut(value, ":")
		terms := []v1.PodAffinityTerm{{TopologyKey: levels[level], LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &v1.Affinity{}
		}
		if key == "with" {
			p.Spec.Affinity.PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
		} else {
			p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
		}
	default:
		return false
	}
	return true
}

// levels are labels of nodes by what scenarios call them.
var levels = map[string]string{
	"on": v1.LabelHostname, "host": v1.LabelHostname, "rack": api.LabelRack, "zone": v1.LabelTopologyZone,
}

// of is a pod, or the pods of a gang.
func (l *lab) of(name string) []*v1.Pod {
	var out []*v1.Pod
	for _, p := range list[*v1.Pod](l.cluster, "pods") {
		if p.Name == name || p.Labels["case"] == name {
			out = append(out, p)
		}
	}
	return out
}

// share is an entry of the annotation berth.dev/devices.
type share struct {
	UUID     string `json:"uuid"`
	MilliGPU int64  `json:"milliGPU"`
	Bytes    int64  `json:"memoryBytes"`
}

// held is the devices of a bound pod.
func (l *lab) held(p *v1.Pod) []share {
	by := map[string][]share{}
	if raw := p.Annotations[api.AnnotationDevices]; raw != "" {
		if err := json.Unmarshal([]byte(raw), &by); err != nil {
			l.t.Fatalf("devices of %s: %v", p.Name, err)
		}
	}
	return by["main"]
}

// sound holds that no gang runs in part, and that no GPU is given beyond its size.
func (l *lab) sound() {
	milli, size := map[string]int64{}, map[string]int64{}
	bound, least := map[string]int{}, map[string]int{}
	for _, p := range list[*v1.Pod](l.cluster, "pods") {
		if p.Spec.NodeName == "" {
			continue
		}
		for _, d := range l.held(p) {
			milli[d.UUID] += d.MilliGPU
			size[d.UUID] += d.Bytes
		}
		gang := p.Annotations[api.AnnotationGang]
		bound[gang]++
		least[gang], _ = strconv.Atoi(p.Annotations[api.AnnotationGangMinCount])
	}
	for gang, n := range bound {
		if n < least[gang] {
			l.t.Errorf("gang %s runs with %d of %d pods", gang, n, least[gang])
		}
	}
	for uuid := range milli {
		if milli[uuid] > 1000 || size[uuid] > 15360<<20 {
			l.t.Errorf("%s is given %d milli-GPUs and %d MiB", uuid, milli[uuid], size[uuid]>>20)
		}
	}
}

// expect holds what a scenario wants.
func (l *lab) expect(want string) {
	l.mu.Lock()
	gone := slices.Sorted(slices.Values(l.evicted))
	l.mu.Unlock()
	evicted := "gone="
	for word := range strings.FieldsSeq(want) {
		if strings.HasPrefix(word, "gone") {
			evicted = word
			continue
		}
		if why := l.lacks(word); why != "" {
			l.t.Errorf("want %s: %s", word, why)
		}
	}
	got := "gone=" + strings.Join(gone, ",")
	if count, ok := strings.CutPrefix(evicted, "gone:"); ok && count == fmt.Sprint(len(gone)) || evicted == "gone*" || evicted == got {
		return
	}
	l.t.Errorf("want %s: %s", evicted, got)
}

// lacks says what does not hold of a word of what a scenario wants; "" is that it holds.
func (l *lab) lacks(word string) string {
	at := strings.IndexAny(word, "=>@~!&^")
	if at < 0 {
		word, at = word+"=all", len(word)
	}
	name, op, value := word[:at], word[at], strings.TrimPrefix(word[at+1:], "=")
	pods := l.of(name)
	if name == "all" {
		pods = list[*v1.Pod](l.cluster, "pods")
	}
	n, on := 0, map[string]int{}
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			n++
			on[l.place(p, cmp.Or(value, "host"))]++
		}
	}
	number, _ := strconv.Atoi(value)
	ok := false
	switch op {
	case '=':
		ok = value == "all" && n == len(pods) && n > 0 || value != "all" && n == number
	case '>':
		ok = n >= number
	case '@':
		ok = n == len(pods) && n > 0 && on[value] == n
	case '~':
		ok = n > 0 && len(on) == 1
	case '!':
		ok = n > 0 && len(on) == n
	case '&', '^':
		a, b := l.one(name), l.one(value)
		return map[bool]string{true: "", false: fmt.Sprintf("the devices are %q and %q", a, b)}[a != "" && b != "" && (a == b) == (op == '&')]
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("%d of %d are bound, on %v", n, len(pods), on)
}

// place is where a pod is: the name of its node, or the label of a level.
func (l *lab) place(p *v1.Pod, level string) string {
	if key, ok := levels[level]; ok {
		for _, n := range list[*v1.Node](l.cluster, "nodes") {
			if n.Name == p.Spec.NodeName {
				return n.Labels[key]
			}
		}
	}
	return p.Spec.NodeName
}

// one is the GPU of a pod that has one.
func (l *lab) one(name string) string {
	for _, p := range l.of(name) {
		if d := l.held(p); len(d) == 1 {
			return d[0].UUID
		}
	}
	return ""
}
