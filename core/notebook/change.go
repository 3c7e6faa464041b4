package notebook

import (
	"fmt"

	"berth.dev/berth/core/explain"
)

// Want is what a notebook's StatefulSet should be. A Mark tells the pod that the
// user wrote; two that are equal need no restart. Full tells all of the StatefulSet
// but its replicas.
type Want struct {
	Mark, Full string
	Replicas   int32 // 0 or 1
}

// Set is what its StatefulSet is.
type Set struct {
	Mark, Full string // "" where another controller or user made it
	Replicas   int32
	Drifted    bool // it is not what Full says, because it was edited
	// Seen says that its controller has taken note of its last change, so that no
	// pod is made of an older one.
	Seen bool
	// Adopted is the UID of a pod without a mark that is as Mark says: one that was
	// there when Berth took over.
	Adopted string
}

// Running is a pod, as far as a change of it goes.
type Running struct {
	UID, Mark string
	Bound     bool // it has a node
	Deleting  bool
	Ended     bool // for good, as Failed or Succeeded; its StatefulSet replaces it
}

// Room says whether the pod that is wanted would find a place if the one that runs
// were gone.
type Room uint8

// The states of Room.
const (
	RoomUnknown Room = iota // not asked
	RoomYes
	RoomNo
)

// Act is what to do next about a StatefulSet and its pod.
type Act uint8

// The acts. One that writes ends the pass where its effect has to be seen first.
const (
	Keep    Act = iota // everything is as it should be, or on the way
	Create             // make the StatefulSet
	Update             // replace it
	Replace            // delete the pod: the StatefulSet makes one as it is wanted
	AskRoom            // find out Room, and ask again
	Hold               // let run what runs, and change nothing: there is no room
)

// Next says what to do, one step at a time. set and pod are nil where there is
// none. It keeps no state between steps: what it needs to know is in the marks of
// the StatefulSet and its pod, so it may be asked again after a crash at any
// point, and one change never leads to two restarts:
//
//   - A pod that runs is not touched before it is known that the new one has room.
//   - The StatefulSet is written before the pod goes, and the pod goes only when
//     the StatefulSet's controller has seen that, so that none is made as before.
//   - A pod is deleted only if its mark is not that of the StatefulSet.
func Next(want Want, set *Set, pod *Running, room Room) Act {
	if set == nil {
		return Create
	}
	alive := pod != nil && !pod.Ended && !pod.Deleting
	if set.Full != want.Full || set.Drifted || set.Replicas != want.Replicas {
		runs := alive && pod.Bound && set.Replicas > 0 && want.Replicas > 0
		if runs && set.Mark != want.Mark && set.Mark != "" {
			switch room {
			case RoomUnknown:
				return AskRoom
			case RoomNo:
				return Hold
			case RoomYes:
			}
		}
		return Update
	}
	if alive && want.Replicas > 0 && set.Seen && Outdated(set, pod) {
		return Replace
	}
	return Keep
}

// Outdated reports whether a pod is of an earlier writing than its StatefulSet.
func Outdated(set *Set, pod *Running) bool {
	return set.Mark != "" && pod.Mark != set.Mark && (set.Adopted == "" || set.Adopted != pod.UID)
}

// Changed says in a few words what a new pod would have that the old one has not.
func Changed(old, want []explain.Amount, oldImage, image string) string {
	switch {
	case len(old) == 1 && len(want) == 1 && old[0].Resource == want[0].Resource && old[0].Count != want[0].Count:
		return fmt.Sprintf("GPU count %d to %d", old[0].Count, want[0].Count)
	case explain.Amounts(old) == explain.Amounts(want) && oldImage != image:
		return fmt.Sprintf("image %s to %s", oldImage, image)
	case explain.Amounts(old) == explain.Amounts(want):
		return "its spec has changed"
	case len(old) == 0:
		return "no GPU to " + explain.Amounts(want)
	case len(want) == 0:
		return explain.Amounts(old) + " to no GPU"
	}
	return explain.Amounts(old) + " to " + explain.Amounts(want)
}
