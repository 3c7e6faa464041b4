package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// A snapshot is the words magic and the step in milliseconds, each series as its labels and chunks, the last of which is its head, an
// empty series, and the CRC-32 of all of it. Numbers are varints, texts have their length before them.
const magic = "berth readings 1\n"

// The bounds of a snapshot, beyond which a file is not one.
const (
	mostLabels = 100
	mostText   = 4096
	mostChunk  = 8192
	mostChunks = 1 << 20
)

// Save writes a snapshot. Samples that are added while it is written are in it or not.
func (s *Store) Save(w io.Writer) error {
	sum := crc32.NewIEEE()
	b := bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10)
	o := &out{w: b}
	o.raw([]byte(magic))
	o.number(uint64(s.step))
	q, err := s.Querier(0, 0)
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }() // keeps what is being written
	s.mu.RLock()
	var all []*Series
	s.eachSeries(func(r *Series) { all = append(all, r) })
	s.mu.RUnlock()
	for part := range slices.Chunk(all, 100) {
		s.mu.RLock()
		for _, r := range part {
			s.save(o, r)
		}
		s.mu.RUnlock()
		if o.err != nil {
			return o.err
		}
	}
	o.number(0)
	if err := errors.Join(o.err, b.Flush()); err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, sum.Sum32())
}

func (s *Store) save(o *out, r *Series) {
	n := len(r.chunks)
	if r.head != nil {
		n++
	}
	if n == 0 {
		return
	}
	o.number(uint64(r.labels.Len()))
	r.labels.Range(func(l labels.Label) {
		o.text([]byte(l.Name))
		o.text([]byte(l.Value))
	})
	o.number(uint64(n))
	for i := range r.chunks {
		c := &r.chunks[i]
		o.number(uint64(c.start))
		o.number(uint64(c.span))
		o.text(s.slabs.of(c))
	}
	if r.head != nil {
		o.number(uint64(r.first))
		o.number(uint64(r.last - r.first))
		o.text(r.head.Bytes())
	}
}

type out struct {
	w   *bufio.Writer
	buf [binary.MaxVarintLen64]byte
	err error
}

func (o *out) raw(b []byte) {
	if o.err == nil {
		_, o.err = o.w.Write(b)
	}
}

func (o *out) number(n uint64) { o.raw(o.buf[:binary.PutUvarint(o.buf[:], n)]) }

func (o *out) text(b []byte) {
	o.number(uint64(len(b)))
	o.raw(b)
}

// Load makes a store of a snapshot. It returns an error for a file that is damaged or has another step, and never a part.
func Load(r io.Reader, o Options) (*Store, error) {
	s := New(o)
	in := &in{r: bufio.NewReaderSize(r, 64<<10), sum: crc32.NewIEEE()}
	head := in.bytes(len(magic))
	step := in.number(1 << 40)
	switch {
	case in.err != nil:
		return nil, in.err
	case string(head) != magic:
		return nil, errors.New("not a snapshot of readings")
	case int64(step) != s.step:
		return nil, fmt.Errorf("its samples are %d ms apart, and not %d", step, s.step)
	}
	for in.err == nil {
		n := in.number(mostLabels)
		if n == 0 || in.err != nil {
			break
		}
		s.load(in, int(n))
	}
	sum := in.sum.Sum32()
	var want [4]byte
	if in.err == nil {
		_, in.err = io.ReadFull(in.r, want[:])
	}
	if in.err == nil && binary.LittleEndian.Uint32(want[:]) != sum {
		in.err = errors.New("its checksum is wrong")
	}
	if in.err != nil {
		s.slabs.list, s.slabs.dying = nil, append(s.slabs.dying, s.slabs.list...)
		s.release()
		return nil, in.err
	}
	return s, nil
}

// load reads a series with n labels.
func (s *Store) load(in *in, n int) {
	pairs := make([]string, 0, 2*n)
	for range 2 * n {
		pairs = append(pairs, string(in.text(mostText)))
	}
	chunks := in.number(mostChunks)
	if in.err != nil {
		return
	}
	r, ok := s.Series(labels.FromStrings(pairs...))
	for i := range chunks {
		start, span, raw := uint32(in.number(1<<32-1)), uint32(in.number(spanTicks+1)), in.text(mostChunk)
		if in.err != nil || !ok {
			continue
		}
		if len(raw) < 2 || start <= r.last {
			in.err = errors.New("a chunk is not after the one before it")
			return
		}
		if err := s.take(r, start, span, raw, i == chunks-1); err != nil {
			in.err = err
			return
		}
	}
}

// take adds a chunk to a series; the last is its head.
func (s *Store) take(r *Series, start, span uint32, raw []byte, last bool) error {
	r.last = start + span
	s.newest = max(s.newest, r.last)
	if !last {
		where := s.slabs.put(raw, r.last)
		where.start, where.span, where.samples = start, uint16(span), uint8(min(binary.BigEndian.Uint16(raw), perChunk))
		r.chunks = append(r.chunks, where)
		return nil
	}
	chunk := chunkenc.NewXORChunk()
	app, err := chunk.Appender()
	if err != nil {
		return err
	}
	old := &chunkenc.XORChunk{}
	old.Reset(raw)
	it := old.Iterator(nil)
	for it.Next() == chunkenc.ValFloat {
		t, v := it.At()
		app.Append(t, v)
		r.value = v
	}
	r.head, r.app, r.first = chunk, app, start
	return it.Err()
}

type in struct {
	r   *bufio.Reader
	sum hash.Hash32
	err error
}

// number reads one that is at most most.
func (i *in) number(most uint64) (n uint64) {
	for shift := 0; i.err == nil; shift += 7 {
		var b byte
		if b, i.err = i.r.ReadByte(); i.err != nil {
			return 0
		}
		i.sum.Write([]byte{b})
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
		if shift > 56 {
			i.err = errors.New("a number is too long")
		}
	}
	if i.err == nil && n > most {
		i.err = fmt.Errorf("a number is %d, and may be %d at most", n, most)
	}
	if i.err != nil {
		return 0
	}
	return n
}

func (i *in) bytes(n int) []byte {
	if i.err != nil {
		return nil
	}
	b := make([]byte, n)
	if _, i.err = io.ReadFull(i.r, b); i.err == nil {
		i.sum.Write(b)
	}
	return b
}

func (i *in) text(most uint64) []byte { return i.bytes(int(i.number(most))) }
