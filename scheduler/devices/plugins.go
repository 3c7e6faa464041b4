package devices

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// Maker makes a plugin for one profile.
type Maker = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error)

// Plugins returns the makers of Berth's plugins by name, for one scheduler: they
// share what they know, as the scheduler's profiles share the nodes.
func Plugins() map[string]Maker {
	made, _ := WithWaits()
	return made
}

// WithWaits is Plugins, and what these plugins say of pods that they refuse.
func WithWaits() (map[string]Maker, *Waits) {
	d, book := newDesk(), newGangBook()
	register(d)
	m := newMaking(d.refused, book.broken)
	made := map[string]Maker{
		Name:           maker(d),
		WaitingName:    waitingMaker(d),
		PreemptionName: preemptionMaker(d, m),
		GangsName:      gangsMaker(d, book),
		GangPlansName:  gangPlansMaker(d, book, m),
	}
	return made, d.waits
}
