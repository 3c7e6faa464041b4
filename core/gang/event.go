package gang

import (
	"time"

	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
)

// Event is something that has happened to a gang. The types of this file are all
// the events that there are.
type Event interface{ happen(*step) }

// Pod is a member as it is now.
type Pod struct {
	queue.Age
	Name     string
	Priority int32
	Milli    int64  // milli-GPUs that it asks for
	Node     string // where it is bound; "" is nowhere
	Gang     Spec
	Invalid  string // why its annotations cannot be understood; "" is that they can
	// Replaced is that a controller creates another pod when this one is deleted.
	Replaced bool
}

// What the watch and the queue report of members.
type (
	// Seen is a member that is there, new or changed.
	Seen struct{ Pod }
	// Left is a pod that exists and is not a member any longer.
	Left struct{ UID string }
	// Gone is a member that is deleted.
	Gone struct{ UID string }
	// Sized is that an object that counts members counts other ones.
	Sized struct {
		Source  any
		Least   int
		Unknown string // as in Spec
	}
	// Enqueue is a member that is about to enter the queue. The answer says
	// whether it may. There are no other actions: the queue is locked.
	Enqueue struct{ Pod }
	// Freed is a change that may have made room for the gang that a pod leads.
	Freed struct {
		UID string
		// Other is that what has changed matters to Filters alone.
		Other bool
		Ended bool  // a pod has ended
		Milli int64 // the most milli-GPUs that it may have given back
		// Priority is that of the pod: what one of lower priority held could have been
		// taken from it before.
		Priority int32
	}
)

// What a scheduling cycle reports of the member that it is about.
type (
	// Placed is that members of Task go to Nodes, which are held for them.
	Placed struct {
		UID   string
		Task  *Task
		Nodes map[string]string // by member
		Order []string          // members in the order in which they are to be tried; nil is any
	}
	// Unfit is that the gang does not fit. Cost is what it took to find that out.
	Unfit struct {
		UID     string
		Refusal *Refusal
		Cost    time.Duration
	}
	// Filtered is that the member was refused on every node that it might use.
	// The answer says what becomes of it.
	Filtered struct{ UID string }
	// Arrived is that the member has passed every filter and has its place. The
	// answer says whether it may go on, waits for others, or has to go back.
	Arrived struct{ UID string }
	// Answered is that the member's binding came to nothing. Refused says that the
	// API server said no; else it may have arrived.
	Answered struct {
		UID     string
		Refused bool
		Reason  string // why
	}
	// Unreserved is that what was reserved for the member came to nothing.
	Unreserved struct{ UID string }
	// Moved is that another node is kept for the member.
	Moved struct{ UID, Node string }
)

// What preemption and the clock report.
type (
	// Preempting is that room is being made for the gang of a member; Reserved that
	// it comes free by itself, without evictions.
	Preempting struct {
		UID      string
		Reserved bool
	}
	// NoVictims is that no room can be made for the gang of a member, as ShortMilli
	// milli-GPUs are held by pods that must not go; 0 is not known.
	NoVictims struct {
		UID        string
		ShortMilli int64
	}
	// HoldLost is that what was held for a member went to others.
	HoldLost struct{ UID string }
	// Unkept is that places are free that were kept for others.
	Unkept struct{}
	// NotEvicted is that the members of a gang cannot be evicted as Actions.Evict says, and why.
	NotEvicted struct{ Gang, Why string }
	// Time is that the time of Actions.WakeAt has come.
	Time struct{}
)

// host reports whether a refusal is for what pods without GPUs may give back too.
func host(nodes []placement.Count) bool {
	for _, c := range nodes {
		if c.Reason == placement.TooManyPods || c.Reason == placement.NotEnoughCPU || c.Reason == placement.NotEnoughMemory {
			return true
		}
	}
	return false
}
