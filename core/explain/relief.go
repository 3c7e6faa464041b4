package explain

import "time"

// Relief is a change, one alone, with which a pod that waits would fit.
type Relief struct {
	Change  string // such as "ask for 1 nvidia.com/gpu instead of 2"
	Node    string // where it then fits
	Command string // that makes the change, for a shell; "" is that there is none
	Admin   bool   // it changes the cluster, not the workload
	Later   bool   // it fits there when the pods that it preempts have ended
}

// String is the relief as a sentence.
func (r Relief) String() string {
	if r.Later {
		return r.Change + ": it then fits on " + r.Node + " when they have ended"
	}
	return r.Change + ": it then fits on " + r.Node + " now"
}

// MostStops is how many idle workloads are worth a check whether stopping them helps.
const MostStops = 10

// WorthStopping reports whether a workload has been idle for long enough to suggest
// that it be stopped for another.
func WorthStopping(idle time.Duration) bool { return idle >= 30*time.Minute }
