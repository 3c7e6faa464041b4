package quota

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth.dev/berth/core/checkpoint"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/sharing"
)

// Pod is what one pod asks for.
type Pod struct {
	ID string // its UID
	// Pieces are the devices it asks for. Their products are "" where any of Kinds
	// will do.
	Pieces []Piece
	User   string // "" is that of the workload
	// Ways are those in which it would use GPUs, one set for each kind of node that could take it, sorted.
	// Nil is not known.
	Ways []sharing.Ways
}

// Devices returns how many devices the pod asks for.
func (p *Pod) Devices() (n int64) {
	for _, piece := range p.Pieces {
		n += piece.Devices
	}
	return n
}

// Workload is pods that are admitted together: a pod alone, or a gang.
type Workload struct {
	ID    string // the pod's UID, or what names the gang
	Queue string
	User  string // "" is not known: see Unknown
	// Ticket has the priority of its pods. Line is the priority that counts in the line of its queue instead; nil
	// is none apart from that.
	Ticket queue.Ticket
	Line   *int32
	Pods   []Pod     // the first Need of them are admitted together, the others as far as there is quota
	Need   int       // 0 is all
	Kinds  []Kind    // of GPUs that its pods may use, sorted; nil is that nothing is known
	Joins  string    // the gang that runs, and that it is one more pod of; "" is none
	Since  time.Time // when it was first refused
	// Mixed is that some of its pods are of another queue, Other, or of none: it is not admitted.
	Mixed bool
	Other string
}

// userOf is the user that a pod of the workload counts for.
func (w *Workload) userOf(p *Pod) string { return cmp.Or(p.User, w.User) }

// need is how many pods must be admitted.
func (w *Workload) need() int {
	if w.Need <= 0 || w.Need > len(w.Pods) {
		return len(w.Pods)
	}
	return w.Need
}

// shape is equal for workloads of one queue of which all or none fit its quota.
func (w *Workload) shape() string {
	var b strings.Builder
	b.WriteString(w.User)
	b.WriteByte(0)
	for _, k := range w.Kinds {
		b.WriteString(k.Product)
		b.WriteByte(0)
		if k.Labels != "" {
			b.WriteString(k.Labels)
			b.WriteByte(2)
		}
	}
	if w.Joins != "" {
		b.WriteString(w.Joins)
		b.WriteByte(3)
	}
	b.WriteString(strconv.FormatBool(w.Mixed) + w.Other + "\x00" + strconv.Itoa(w.need()))
	for i := range w.Pods[:w.need()] {
		b.WriteString("\x01" + w.Pods[i].User + "\x02")
		for _, ways := range w.Pods[i].Ways {
			b.WriteByte(byte(ways))
		}
		b.WriteByte(0)
		for _, p := range w.Pods[i].Pieces {
			b.WriteString(p.Product + p.Labels + "\x00" + p.Profile + "\x00" + strconv.FormatInt(p.Devices, 36) + "/" + strconv.FormatInt(p.Parts, 36))
		}
	}
	return b.String()
}

// Holder is a pod that holds devices, or for which devices are kept.
type Holder struct {
	ID       string // the pod's UID
	Workload string // the gang, or the pod's UID
	Queue    string // "" is none: it counts nowhere
	User     string
	Pieces   []Piece
	Priority int32
	// Start is when it began to run; zero is not yet.
	Start time.Time
	Saves checkpoint.Saves
	// Idle is that nobody uses it: it is a notebook that the idle rules call idle.
	Idle bool
	// Least is how many pods its workload needs to run; 0 is all that it has.
	Least int
	// Leads is that its workload ends without it, however many pods are left.
	Leads bool
	// Owner is the UID of the object that makes such a pod again when this one has ended; "" is none.
	// Evictions are counted under it.
	Owner   string
	Leaving bool // it is being deleted; it holds until it is gone
}

// vector returns the amounts of pieces by resource of a tree. Pieces of which the kind is not known
// count as of kind.
func (t *Tree) vector(pieces []Piece, kind Kind) []int64 {
	v := make([]int64, len(t.resources))
	t.addTo(v, pieces, kind)
	return v
}

// addTo adds the amounts of pieces to v.
func (t *Tree) addTo(v []int64, pieces []Piece, kind Kind) {
	for k := range pieces {
		p := &pieces[k]
		of, labels := p.Product, p.Labels
		if of == "" {
			of = kind.Product
		}
		if labels == "" {
			labels = kind.Labels
		}
		for r, name := range t.resources {
			switch {
			case name == GPUs, of != "" && string(name) == of:
				v[r] += p.Parts
			case name == Equivalents:
				v[r] += weighted(p.Parts, of)
			case p.Profile != "" && t.profiles[r] == p.Profile:
				v[r] += p.Devices * Whole
			case labels != "" && labeled(labels, string(name)):
				v[r] += p.Parts
			}
		}
	}
}

// WithoutOne returns pods without one that asks for the pieces, or without the last one if none does. It
// changes pods.
func WithoutOne(pods []Pod, pieces []Piece) []Pod {
	i := slices.IndexFunc(pods, func(p Pod) bool { return slices.Equal(p.Pieces, pieces) })
	if i < 0 {
		i = len(pods) - 1
	}
	if i < 0 {
		return nil
	}
	return slices.Delete(pods, i, i+1)
}
