package store

import "golang.org/x/sys/unix"

// slabSize is in bytes: the unit in which memory is requested from the system, and returned.
const slabSize = 256 << 10

// ref says where a full chunk is.
type ref struct {
	start   uint32 // tick of its first sample
	off     uint32 // in the slab
	slab    uint16
	length  uint16 // bytes
	span    uint16 // ticks from the first sample to the last
	samples uint8
}

func (r *ref) end() uint32 { return r.start + uint32(r.span) }

// slab is memory outside the heap: what is in it costs the garbage collector nothing, and does not double what the process takes.
type slab struct {
	id   uint16
	mem  []byte
	used int
	last uint32 // the newest tick in it
	gone bool   // given up; it is there for readers that may have it
	seen uint64 // the newest reader when it was given up
}

// slabs are filled one after the other: the first is the oldest.
type slabs struct {
	most      int64
	list      []*slab // oldest first
	dying     []*slab
	byID      map[uint16]*slab
	next      uint16
	shortened int64
}

func newSlabs(most int64) slabs { return slabs{most: most, byID: map[uint16]*slab{}} }

// put copies a chunk whose last sample has a tick.
func (l *slabs) put(chunk []byte, last uint32) ref {
	var at *slab
	if n := len(l.list); n > 0 {
		at = l.list[n-1]
	}
	if at == nil || at.used+len(chunk) > len(at.mem) {
		at = l.grow()
	}
	off := at.used
	at.used += copy(at.mem[off:], chunk)
	at.last = max(at.last, last)
	return ref{off: uint32(off), slab: at.id, length: uint16(len(chunk))}
}

func (l *slabs) grow() *slab {
	for l.byID[l.next] != nil {
		l.next++
	}
	mem, err := unix.Mmap(-1, 0, slabSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil { // without memory for it, the heap may still have some
		mem = make([]byte, slabSize)
	}
	s := &slab{id: l.next, mem: mem}
	l.byID[s.id] = s
	l.list = append(l.list, s)
	l.next++
	return s
}

// of is the bytes of a chunk.
func (l *slabs) of(r *ref) []byte {
	s := l.byID[r.slab]
	if s == nil {
		return nil
	}
	return s.mem[r.off : r.off+uint32(r.length) : r.off+uint32(r.length)]
}

func (l *slabs) has(id uint16) bool {
	s := l.byID[id]
	return s != nil && !s.gone
}

func (l *slabs) bytes() int64 { return int64(len(l.list)+len(l.dying)) * slabSize }

func (l *slabs) over() bool { return int64(len(l.list))*slabSize > l.most && len(l.list) > 1 }

// shorten drops the oldest slab before its time.
func (l *slabs) shorten() {
	l.shortened++
	l.drop()
}

func (l *slabs) drop() {
	l.list[0].gone = true
	l.dying = append(l.dying, l.list[0])
	l.list = l.list[1:]
}

// expire drops slabs that have nothing from a tick on.
func (l *slabs) expire(before uint32) (some bool) {
	for len(l.list) > 1 && l.list[0].last < before {
		l.drop()
		some = true
	}
	return some
}

// free returns to the system what no reader up to the oldest that is open has seen. newest is the number of the newest reader.
func (l *slabs) free(oldest, newest uint64) {
	keep := l.dying[:0]
	for _, s := range l.dying {
		if s.seen == 0 {
			s.seen = newest + 1
		}
		if s.seen > oldest {
			keep = append(keep, s)
			continue
		}
		delete(l.byID, s.id)
		_ = unix.Munmap(s.mem) // of a slab of the heap it is refused, and the collector has it
	}
	l.dying = keep
}
