package allocation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/agent/allocation"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/test/soak"
)

// storm is a node on which all happens in any order: pods with and without
// commitments, right and wrong ones, ends that are noticed and not, GPUs that
// fail, new configurations, and an agent that is killed between any two changes
// of its folder.
//
// Its twin is a list: the pods whose containers have started, with what each of
// them saw.
type storm struct {
	*world
	rng     *rand.Rand
	pending []*v1.Pod
	started []started
	ghosts  []started // have ended, and the agent has not been told
	next    int
}

type started struct {
	pod     *v1.Pod
	devices []sharing.Device // as Holders tells
	gpus    string           // what the container sees
}

func newStorm(t *testing.T, rng *rand.Rand) *storm {
	w := newWorld(t, product(t, a100, 4))
	w.settings.Plugin.DeviceListStrategy = []string{"cdi-cri"}
	w.rng = rng
	return &storm{world: w.start(), rng: rng}
}

// pod draws a pod: without a commitment, or with one that may be impossible.
func (s *storm) pod() *v1.Pod {
	s.next++
	name := fmt.Sprintf("p%03d", s.next)
	replicas := max(1, s.settings.Replicas[whole])
	uuid := func() string { return s.uuid(s.rng.IntN(4)) }
	switch s.rng.IntN(4) {
	case 0:
		return pod(name, asks("c", whole, 1+s.rng.IntN(2)))
	case 1:
		gib := int64(1 + s.rng.IntN(20))
		return commits(pod(name, asks("c", memory, int(gib))), map[string][]string{
			"c": {fmt.Sprintf("%s %d %d", uuid(), max(1, gib*1000/40), gib<<30)},
		})
	default:
		return commits(pod(name, asks("c", whole, 1)), map[string][]string{
			"c": {fmt.Sprintf("%s %d %d", uuid(), 1000/replicas, int64(40)<<30)},
		})
	}
}

// try starts the container of a pod, perhaps with the agent killed meanwhile.
func (s *storm) try(i int) {
	s.t.Helper()
	p := s.pending[i]
	if s.rng.IntN(4) == 0 {
		killed := s.node.KillAt(1 + s.rng.IntN(3))
		_, err := s.run(p, "c")
		if killed() {
			s.start() // as after kill -9
			s.checkAfterKill(p)
			return
		}
		s.node.KillAt(1 << 30)
		s.note(i, err)
		return
	}
	_, err := s.run(p, "c")
	s.note(i, err)
}

// checkAfterKill wants a pod whose start was cut short to hold what it was to
// have, or nothing.
func (s *storm) checkAfterKill(p *v1.Pod) {
	s.t.Helper()
	for _, h := range s.node.Holders() {
		if h.Pod != p.Name {
			continue
		}
		gpus, err := s.run(p, "c")
		if err != nil {
			s.t.Fatalf("pod %s was started when the agent was killed, and cannot be started again: %v", p.Name, err)
		}
		s.pending = slices.DeleteFunc(s.pending, func(o *v1.Pod) bool { return o == p })
		s.started = append(s.started, started{p, h.Devices, gpus})
	}
}

// note moves a pod whose container has started to the twin's list.
func (s *storm) note(i int, err error) {
	s.t.Helper()
	p := s.pending[i]
	if err != nil {
		s.explain(p, err)
		return
	}
	gpus, _, err := s.sees(p, "c")
	if err != nil {
		s.t.Fatal(err)
	}
	s.pending = slices.Delete(s.pending, i, i+1)
	for _, h := range s.node.Holders() {
		if h.Pod == p.Name {
			s.started = append(s.started, started{p, h.Devices, gpus})
			return
		}
	}
	s.t.Fatalf("pod %s has started and holds nothing", p.Name)
}

// explain wants a refusal to be about something that is so.
func (s *storm) explain(p *v1.Pod, err error) {
	s.t.Helper()
	text := err.Error()
	ill := slices.ContainsFunc(s.snapshot.GPUs, func(g nvml.GPU) bool { return !s.well(g.UUID) })
	switch {
	case strings.Contains(text, "unhealthy"):
		if !ill {
			s.t.Fatalf("pod %s: %v; but all GPUs are well", p.Name, err)
		}
	case strings.Contains(text, "held by"), strings.Contains(text, " left of "), strings.Contains(text, "are allocated or committed"):
		if len(s.started) == 0 && len(s.pending) == 0 && len(s.ghosts) == 0 {
			s.t.Fatalf("pod %s: %v; but nobody holds anything", p.Name, err)
		}
	case strings.Contains(text, "this node offers"), strings.Contains(text, "does not offer it"):
	default:
		s.t.Fatalf("pod %s: %v", p.Name, err)
	}
}

func (s *storm) well(uuid string) bool { well, told := s.healthy[uuid]; return well || !told }

// step does one thing.
func (s *storm) step() {
	s.t.Helper()
	switch s.rng.IntN(12) {
	case 0, 1, 2:
		p := s.pod()
		s.pods.put(p, s.rng.IntN(4) > 0)
		if s.admitOnly(p) == nil {
			s.pending = append(s.pending, p)
		} else {
			s.pods.remove(string(p.UID), true) // the kubelet has failed it
		}
	case 3, 4, 5:
		if len(s.pending) > 0 {
			s.try(s.rng.IntN(len(s.pending)))
		}
	case 6, 7:
		s.finish()
	case 8:
		s.start()
	case 9:
		s.healthy[s.uuid(s.rng.IntN(4))] = s.rng.IntN(3) > 0
		s.set()
	case 10:
		slicing(s.world, []int{1, 1, 2, 4}[s.rng.IntN(4)])
		s.set()
	case 11:
		s.restart()
	}
	if s.rng.IntN(6) == 0 { // what the agent has missed, it is told
		for _, st := range s.ghosts {
			s.pods.remove(string(st.pod.UID), true)
		}
		s.ghosts = nil
		if err := s.node.Tidy(context.Background()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// finish ends a pod, which the agent is told of or not.
func (s *storm) finish() {
	s.t.Helper()
	all := slices.Clone(s.pending)
	for _, st := range s.started {
		all = append(all, st.pod)
	}
	if len(all) == 0 {
		return
	}
	p := all[s.rng.IntN(len(all))]
	before := s.started
	s.pending = slices.DeleteFunc(s.pending, func(o *v1.Pod) bool { return o == p })
	s.started = slices.DeleteFunc(slices.Clone(s.started), func(o started) bool { return o.pod == p })
	s.forget(string(p.UID))
	if s.rng.IntN(3) == 0 {
		s.pods.remove(string(p.UID), false)
		for _, st := range before {
			if st.pod == p {
				s.ghosts = append(s.ghosts, st)
			}
		}
		return
	}
	s.pods.remove(string(p.UID), true)
	if s.rng.IntN(3) == 0 {
		killed := s.node.KillAt(1)
		_ = s.node.Tidy(context.Background())
		if killed() {
			s.start()
		}
		s.node.KillAt(1 << 30)
	}
	if err := s.node.Tidy(context.Background()); err != nil {
		s.t.Fatal(err)
	}
}

// restart starts a container again: it sees what it saw, or its GPU is ill.
func (s *storm) restart() {
	s.t.Helper()
	if len(s.started) == 0 {
		return
	}
	st := s.started[s.rng.IntN(len(s.started))]
	gpus, err := s.run(st.pod, "c")
	ill := slices.ContainsFunc(st.devices, func(d sharing.Device) bool { return !s.well(d.UUID) })
	if ill != (err != nil) || err == nil && gpus != st.gpus {
		s.t.Fatalf("container of pod %s starts again and sees %q, %v; it saw %q, and its GPU is ill: %v", st.pod.Name, gpus, err, st.gpus, ill)
	}
}

// check holds what is true at every moment.
func (s *storm) check() error {
	want := map[string]string{}
	for _, st := range s.started {
		want[st.pod.Name] = ids(st.devices)
	}
	got := map[string]string{}
	milli := map[string]int64{}
	ghosts := 0
	for _, h := range s.node.Holders() {
		if i := slices.IndexFunc(s.ghosts, func(st started) bool { return st.pod.Name == h.Pod }); i >= 0 {
			ghosts++
			if got := ids(h.Devices); got != ids(s.ghosts[i].devices) {
				return fmt.Errorf("ended pod %s holds %s", h.Pod, got)
			}
			for _, d := range h.Devices {
				milli[d.UUID] += d.MilliGPU
			}
			continue
		}
		got[h.Pod] = ids(h.Devices)
		for _, d := range h.Devices {
			milli[d.UUID] += d.MilliGPU
		}
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("holders are %v, the twin has %v", got, want)
	}
	for uuid, sum := range milli {
		if sum > 1000 {
			return fmt.Errorf("GPU %s gives %d milli-GPUs", uuid, sum)
		}
	}
	if err := s.checkIDs(); err != nil {
		return err
	}
	if list := s.specs(); len(list) != len(s.started)+ghosts {
		return fmt.Errorf("%d containers have started, and there are %v", len(s.started), list)
	}
	return nil
}

// checkIDs wants the kubelet to count as free what is free.
func (s *storm) checkIDs() error {
	holder := map[string]string{}
	for _, h := range s.node.Ledger() {
		if other, twice := holder[h.Device.ID]; twice {
			return fmt.Errorf("device %s is held by %s and %s", h.Device.ID, h.Owner, other)
		}
		holder[h.Device.ID] = h.Owner
	}
	free := map[string]bool{}
	for _, d := range s.node.Offers()[whole] {
		free[d.ID] = d.Healthy
	}
	for _, t := range s.node.Placeholders(whole) {
		switch {
		case len(s.ghosts) > 0:
			// The kubelet knows of ends that we do not.
		case t.Held && s.owner(t.Name) == "":
			return fmt.Errorf("ID %s is held, and no pod that has started has it", t.Name)
		case !t.Held && s.owner(t.Name) != "":
			return fmt.Errorf("ID %s is free, and pod %s has it", t.Name, s.owner(t.Name))
		case !t.Held && free[t.Name] && holder[t.Device.ID] != "":
			return fmt.Errorf("ID %s is free and stands for what %s holds", t.Name, holder[t.Device.ID])
		case t.Held && !t.Gone && holder[t.Device.ID] != s.owner(t.Name):
			return fmt.Errorf("id %s of pod %s stands for what %q holds", t.Name, s.owner(t.Name), holder[t.Device.ID])
		}
	}
	return nil
}

// owner is the pod that has started with an ID of whole GPUs.
func (s *storm) owner(id string) string {
	for h, a := range s.held {
		if h.resource != whole || !slices.Contains(a.ids, id) {
			continue
		}
		if slices.ContainsFunc(s.started, func(st started) bool { return string(st.pod.UID) == h.pod }) {
			return h.pod
		}
	}
	return ""
}

func ids(devices []sharing.Device) string {
	var out []string
	for _, d := range devices {
		out = append(out, d.ID)
	}
	return strings.Join(out, " ")
}

func runStorm(t *testing.T, rng *rand.Rand, steps int) {
	s := newStorm(t, rng)
	for step := range steps {
		s.step()
		if err := s.check(); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
	}
}

func TestNoDeviceIsGivenBeyondItsSizeInAnyOrder(t *testing.T) {
	for seed := range soak.Pick[uint64](6, 16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runStorm(t, rand.New(rand.NewPCG(seed, 7)), 120) })
	}
}

func FuzzStorm(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) { runStorm(t, rand.New(rand.NewPCG(a, b)), 80) })
}

// A second start of the agent, killed again, ends where one start ends.
func TestAgentsThatAreKilledOneAfterAnother(t *testing.T) {
	w := newWorld(t, product(t, a100, 4)).start()
	p := pod("p", asks("a", whole, 1), asks("b", whole, 1))
	p.Spec.InitContainers = []v1.Container{asks("init", whole, 1)}
	p = commits(p, map[string][]string{"init": {w.uuid(3)}, "a": {w.uuid(3)}, "b": {w.uuid(1)}})
	w.must(w.admit(p))
	for step := 1; ; step++ {
		killed := w.node.KillAt(step)
		_, err := w.run(p, "init")
		if !killed() {
			w.must(err)
			w.node.KillAt(1 << 30)
			break
		}
		if !errors.Is(err, allocation.ErrKilled) {
			t.Fatalf("killed at change %d: %v", step, err)
		}
		w.start()
		if got := w.holders(); got != "" && got != "p/a 3*, p/b 1*, p/init 3*" {
			t.Fatalf("killed at change %d, the pod holds %s", step, got)
		}
	}
	w.runs(p, "init", "3")
	w.runs(p, "a", "3")
	w.runs(p, "b", "1")
	w.start()
	if got := w.holders(); got != "p/a 3*, p/b 1*, p/init 3*" {
		t.Errorf("in the end the pod holds %s", got)
	}
}
