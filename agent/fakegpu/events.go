package fakegpu

import (
	"slices"
	"time"

	"berth.dev/berth/agent/nvml"
)

// eventSet waits for Xids of registered GPUs. Its fields are the library's to
// lock.
type eventSet struct {
	l      *Library
	uuids  map[string]bool
	queue  []nvml.EventData
	lost   bool // a registered GPU was lost since the last Wait
	began  bool // Wait was called; before, GPUs are still being registered
	signal chan struct{}
}

// NewEventSet is nvmlEventSetCreate. Unlike with NVML, Xids that came while there
// was no set wait for this one, so a file that has one at once does not
// depend on who is first.
func (l *Library) NewEventSet() (nvml.EventSet, error) {
	if err := l.enter("nvmlEventSetCreate", nil); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	s := &eventSet{l: l, uuids: map[string]bool{}, signal: make(chan struct{}, 1), queue: l.early}
	l.early = nil
	l.sets[s] = true
	return s, nil
}

func (s *eventSet) Register(d nvml.Device, _ uint64) error {
	dev, ok := d.(*device)
	if !ok || dev.mig != "" {
		return nvml.InvalidArgument
	}
	_, err := whole(dev, "nvmlDeviceRegisterEvents", func(c *card) (int, error) {
		s.uuids[c.g.UUID] = true
		return 0, nil
	})
	return err
}

// Wait also returns early, with Timeout, when anything changed.
func (s *eventSet) Wait(timeout time.Duration) (nvml.EventData, error) {
	if err := s.l.trap("nvmlEventSetWait_v2", nil); err != nil {
		return nvml.EventData{}, err
	}
	if e, err, ok := s.take(); ok {
		return e, err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-s.signal:
		if e, err, ok := s.take(); ok {
			return e, err
		}
	case <-timer.C:
	case <-s.l.closed:
	}
	return nvml.EventData{}, nvml.Timeout
}

// take returns what is there, if anything.
func (s *eventSet) take() (e nvml.EventData, err error, ok bool) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.began = true
	if err := s.l.ready(); err != nil {
		return e, err, true
	}
	if len(s.queue) > 0 {
		e, s.queue = s.queue[0], s.queue[1:]
		return e, nil, true
	}
	if s.lost {
		s.lost = false
		return e, nvml.GPUIsLost, true
	}
	return e, nil, false
}

// Close is nvmlEventSetFree. What was not taken out of the last set waits for the
// next one, see NewEventSet.
func (s *eventSet) Close() error {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	if delete(s.l.sets, s); len(s.l.sets) == 0 {
		s.l.early, s.queue = append(s.l.early, s.queue...), nil
	}
	return nil
}

// wake ends a Wait.
func (s *eventSet) wake() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// raise tells every set of an Xid. One of a GPU that is there and that no set has
// yet, since it has just come, waits for the next set, see NewEventSet.
func (l *Library) raise(x Xid) {
	c := l.cards[x.GPU]
	e := nvml.EventData{UUID: c.g.UUID, Type: nvml.EventXid, Data: uint64(x.Code), GI: -1, CI: -1}
	if x.MIG != nil && *x.MIG < len(c.g.MIG) {
		e.GI, e.CI = c.g.MIG[*x.MIG].GI, c.g.MIG[*x.MIG].CI
	}
	took := l.told(c.g.UUID, func(s *eventSet) { s.queue = append(s.queue, e) })
	if len(l.sets) == 0 || !took && !l.away(x.GPU) {
		l.early = append(l.early, e)
	}
}

// away reports whether the GPU at a place of the file was lost or taken out.
func (l *Library) away(place int) bool {
	return slices.ContainsFunc(slices.Concat(l.file.Lost, l.file.Removed), func(c Change) bool { return c.GPU == place && l.holds(c.After) })
}

// lose tells every set that a GPU was lost.
func (l *Library) lose(uuid string) { l.told(uuid, func(s *eventSet) { s.lost = true }) }

// told tells the sets that have a GPU, and says whether there are any.
func (l *Library) told(uuid string, f func(*eventSet)) (some bool) {
	for s := range l.sets {
		if s.uuids[uuid] || !s.began {
			f(s)
			s.wake()
			some = true
		}
	}
	return some
}
