package quota

import "strings"

// Selection is the choices between kinds of GPUs that one pod has by its queue's quotas, in the
// order in which the queue prefers them, and the one that nodes are looked for. A nil Selection has
// no choice: any kind will do.
type Selection struct {
	list []Choice
	at   int // the one that nodes are looked for; -1 is all of them
	// failed is how many of list all nodes have refused, in attempts before.
	failed int
}

// NewSelection returns a Selection of all of some choices.
func NewSelection(list []Choice) *Selection { return &Selection{list: list, at: -1} }

// Renew replaces the choices, and selects all of them. Which have failed stays known.
func (s *Selection) Renew(list []Choice) { s.list, s.at = list, -1 }

// Len returns the number of choices.
func (s *Selection) Len() int {
	if s == nil {
		return 0
	}
	return len(s.list)
}

// Select selects choice k alone, from 0, or all for -1, and returns for how many pods there is quota
// in it: 0 for all, and where there is no such choice, which selects nothing.
func (s *Selection) Select(k int) (count int) {
	if k >= s.Len() {
		return 0
	}
	if s != nil {
		s.at = k
	}
	if k < 0 {
		return 0
	}
	return s.list[k].Count
}

// Next selects the first choice that has not failed, or the last.
func (s *Selection) Next() {
	if s != nil {
		s.failed = min(s.failed, len(s.list)-1)
		s.at = s.failed
	}
}

// Fail notes that all nodes of the choice that Next has selected have refused the pod, and reports whether
// there is another. Where there is none, all choices are to be tried again, from the first.
func (s *Selection) Fail() (another bool) {
	if s == nil || s.at < 0 {
		return false
	}
	if s.failed = s.at + 1; s.failed < len(s.list) {
		return true
	}
	s.failed, s.at = 0, -1
	return false
}

// Kinds returns the kinds of GPUs of what is selected; nil is any.
func (s *Selection) Kinds() (kinds []Kind) {
	switch {
	case s == nil:
		return nil
	case s.at >= 0:
		return s.list[s.at].Kinds
	case len(s.list) == 1:
		return s.list[0].Kinds
	}
	for _, choice := range s.list {
		kinds = append(kinds, choice.Kinds...)
	}
	return kinds
}

// Allowed is the kinds of GPUs that a pod may use by its queue's quotas.
type Allowed struct {
	Kinds []Kind // nil is any
	// Pools is that labels of nodes matter, and not products alone.
	Pools bool
}

// Key is equal for pods that may get the same; "" where products alone matter, or nothing does.
func (a Allowed) Key() string {
	if !a.Pools || a.Kinds == nil {
		return ""
	}
	var b strings.Builder
	for _, k := range a.Kinds {
		b.WriteString(k.Product + "\x06" + k.Labels + "\x05")
	}
	return b.String()
}
