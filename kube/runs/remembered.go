package runs

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"berth.dev/berth/core/queue"
)

// Run times are remembered in a ConfigMap of this name, under this key of its binary data.
const (
	Namespace = "kube-system"
	Name      = "berth-run-times"
	Key       = "runs"
)

// MostTemplates is of how many templates run times are remembered: 1,024 with 64 runs each have some 250 kB, of the 1 MiB
// that a ConfigMap may have.
const MostTemplates = 1 << 10

// format is the first byte of what is remembered; others are of other versions.
const format = 1

var errDamaged = errors.New("the run times are damaged or from another version of Berth")

// Encode returns samples as bytes: the format, then of each sample its basis, its name, and its runs in seconds as variable-length
// integers with their count before them, and last a CRC-32 of all before it.
func Encode(list []queue.Sample) []byte {
	out := []byte{format}
	for i := range list {
		s := &list[i]
		out = append(out, byte(s.Of))
		out = binary.AppendUvarint(out, uint64(len(s.Name)))
		out = append(out, s.Name...)
		out = binary.AppendUvarint(out, uint64(len(s.Runs)))
		for _, ran := range s.Runs {
			out = binary.AppendUvarint(out, uint64(max(ran, 0)/time.Second))
		}
	}
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
}

// Decode reads what Encode wrote; without bytes there are no samples.
func Decode(text []byte) ([]queue.Sample, error) {
	if len(text) == 0 {
		return nil, nil
	}
	end := len(text) - 4
	if end < 1 || text[0] != format || binary.BigEndian.Uint32(text[end:]) != crc32.ChecksumIEEE(text[:end]) {
		return nil, errDamaged
	}
	r := reader{rest: text[1:end]}
	var out []queue.Sample
	for len(r.rest) > 0 && !r.bad {
		s := queue.Sample{Of: queue.Basis(r.bytes(1)[0])}
		s.Name = string(r.bytes(r.number()))
		n := r.number()
		for range min(n, uint64(len(r.rest))) {
			s.Runs = append(s.Runs, time.Duration(min(r.number(), longest))*time.Second)
		}
		out = append(out, s)
	}
	if r.bad {
		return nil, errDamaged
	}
	return out, nil
}

// longest is the longest run that is remembered, in seconds: ten years.
const longest = 10 * 366 * 24 * 3600

// reader takes values from bytes. Once bad is set there are no more.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// bytes returns the next n bytes, and at least one.
func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return []byte{0}
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}
