package devices_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/api"
)

// bind is the API server's part of POST pods/binding, and the network's.
func (s *storm) bind(b *v1.Binding) error {
	if s.quiet {
		return s.store(b)
	}
	switch s.chance.IntN(12) {
	case 0:
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, b.Name, errors.New("a webhook says no"))
	case 1:
		_ = s.store(b)
		return errors.New("connection reset by peer, after it arrived")
	case 2:
		return errors.New("connection reset by peer, before it arrived")
	case 3:
		s.late = append(s.late, b)
		return errors.New("timed out, and still on its way")
	}
	return s.store(b)
}

// arrive lets a late binding come.
func (s *storm) arrive() {
	if len(s.late) > 0 {
		_ = s.store(s.late[0]) // nobody reads the answer
		s.late = s.late[1:]
	}
}

// store does what the API server does with a Binding.
func (s *storm) store(b *v1.Binding) error {
	p := s.pods[b.Name]
	switch {
	case p == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, b.Name)
	case p.UID != b.UID:
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, b.Name, fmt.Errorf("its UID is %s", p.UID))
	case p.Spec.NodeName != "" || p.DeletionTimestamp != nil:
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, b.Name, errors.New("it is bound or being deleted"))
	}
	s.bound++
	p = p.DeepCopy()
	p.Spec.NodeName, p.Annotations = b.Target.Name, maps.Clone(b.Annotations)
	s.write(b.Name, p)
	return nil
}

// write writes a pod and judges what it holds then.
func (s *storm) write(name string, now *v1.Pod) {
	old := s.pods[name]
	s.count(old, -1)
	s.count(now, +1)
	if s.pods[name] = now; now == nil {
		delete(s.pods, name)
	}
	s.podLog = append(s.podLog, podEvent{old, now})
}

func (s *storm) writeNode(name string, now *v1.Node) {
	s.nodLog = append(s.nodLog, nodeEvent{name, now})
	if s.nodes[name] = now; now == nil {
		delete(s.nodes, name)
	}
}

// given is one device in the annotation of a pod.
type given struct {
	UUID        string
	MilliGPU    int64
	MemoryBytes int64
}

// holds reads which devices a pod has in the API. One that has ended has none.
func (s *storm) holds(p *v1.Pod) []given {
	if p == nil || p.Spec.NodeName == "" || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
		return nil
	}
	raw, ok := p.Annotations[api.AnnotationDevices]
	if !ok {
		return nil // bound by somebody else
	}
	var list map[string][]given
	if err := json.Unmarshal([]byte(raw), &list); err != nil || len(list["main"]) != 1 {
		s.t.Fatalf("step %d: pod %s is bound with devices %q", s.at, p.Name, raw)
	}
	return list["main"]
}

// count adds the devices of a pod to what is committed, or takes them off, and
// fails the test where a GPU has more committed than it is.
func (s *storm) count(p *v1.Pod, sign int64) {
	for _, d := range s.holds(p) {
		u := s.committed[d.UUID]
		if u == nil {
			s.t.Fatalf("step %d: pod %s has GPU %s, which there is not", s.at, p.Name, d.UUID)
		}
		u.bytes += sign * d.MemoryBytes
		u.milli += sign * d.MilliGPU
		if u.bytes > u.size || u.milli > 1000 {
			s.t.Fatalf("step %d: GPU %s has %d milli-GPUs and %d bytes of %d committed, by pod %s last", s.at, d.UUID, u.milli, u.bytes, u.size, p.Name)
		}
	}
}

// recount adds up everything anew.
func (s *storm) recount() {
	bytes := map[string]int64{}
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		for _, d := range s.holds(s.pods[name]) {
			bytes[d.UUID] += d.MemoryBytes
		}
	}
	for uuid, u := range s.committed {
		if bytes[uuid] != u.bytes || u.bytes > u.size {
			s.t.Errorf("GPU %s: %d bytes of %d are committed, and %d were counted", uuid, bytes[uuid], u.size, u.bytes)
		}
	}
}
