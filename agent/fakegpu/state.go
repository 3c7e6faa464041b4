package fakegpu

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"berth.dev/berth/internal/input"
)

// state is what a GPU keeps while no process has the driver open: what was cut
// into it, and its counters.
type state struct {
	Base  time.Time            `json:"base"`  // what every After counts from
	Fired time.Time            `json:"fired"` // Xids and resets due until then have happened
	Cards map[string]cardState `json:"gpus"`  // by UUID
	Text  string               `json:"text"`  // the last good text of the file
}

type cardState struct {
	Wish      string          `json:"wish"` // what the file asked of MIG then
	MIG       bool            `json:"mig"`
	Next      bool            `json:"migNext"`
	Instances []instanceState `json:"instances,omitempty"`
	Exclusive bool            `json:"exclusive,omitempty"`
	Mended    time.Time       `json:"mended,omitzero"`
	Totals    Totals          `json:"totals"`
}

type instanceState struct {
	ID       int      `json:"id"`
	Profile  int      `json:"profile"`
	Start    int      `json:"start"`
	Computes [][2]int `json:"computes"` // ID and slices
}

// save writes the state, if there is a file for it. That a disk is full does not
// stop the GPUs.
func (l *Library) save() {
	if l.o.State == "" {
		return
	}
	s := state{Base: l.base, Fired: l.fired, Text: l.text, Cards: map[string]cardState{}}
	for _, c := range l.cards {
		k := cardState{
			Wish: wish(c.group), MIG: c.mig, Next: c.migNext, Exclusive: c.exclusive, Mended: c.mended,
			Totals: Advance(c.g, l.loads(c), c.totals, time.Now()),
		}
		for _, in := range c.instances {
			i := instanceState{ID: in.id, Profile: in.profile.ID, Start: in.start}
			for _, ci := range in.computes {
				i.Computes = append(i.Computes, [2]int{ci.id, ci.slices})
			}
			k.Instances = append(k.Instances, i)
		}
		s.Cards[c.g.UUID] = k
	}
	if err := write(l.o.State, s); err != nil {
		l.o.Log.Warn("cannot save the state of the fake GPUs", "file", l.o.State, "error", err)
	}
}

func write(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// load takes over the state of an earlier process, once. Where the file has
// changed since, what it asks of MIG wins, and every After counts again.
func (l *Library) load() {
	if l.o.State == "" || l.loaded {
		return
	}
	l.loaded = true
	s, err := readState(l.o.State)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.o.Log.Warn("cannot read the state of the fake GPUs; they start fresh", "file", l.o.State, "error", err)
		return
	}
	if l.text == s.Text { // the same file as then
		l.base, l.fired = s.Base, s.Fired
	}
	for _, c := range l.cards {
		k, ok := s.Cards[c.g.UUID]
		if !ok {
			continue
		}
		c.exclusive, c.mended, c.totals = k.Exclusive, k.Mended, k.Totals
		if k.Wish == wish(c.group) {
			c.restore(k)
		}
	}
}

func readState(path string) (s state, err error) {
	data, err := input.ReadFile(path, input.State)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	return s, err
}

// kept is the last good text of the file that an earlier process has followed, and
// what it says.
func (l *Library) kept(path string) (f File, text string, ok bool) {
	if l.o.State == "" {
		return File{}, "", false
	}
	s, err := readState(l.o.State)
	if err != nil || s.Text == "" {
		return File{}, "", false
	}
	f, err = Parse(path, []byte(s.Text), l.o.Devices...)
	return f, s.Text, err == nil
}

// restore partitions a card as it was.
func (c *card) restore(k cardState) {
	c.mig, c.migNext, c.instances = k.MIG, k.Next, nil
	for _, i := range k.Instances {
		p, ok := c.profile(i.Profile)
		if !ok || !slices.Contains(p.Placements, i.Start) || !c.room(p, i.Start) {
			continue // of another release's tables
		}
		in := &instance{id: i.ID, profile: p, start: i.Start}
		for _, ci := range i.Computes {
			in.computes = append(in.computes, computeInstance{ci[0], ci[1]})
		}
		c.instances = append(c.instances, in)
	}
	c.describe()
}
