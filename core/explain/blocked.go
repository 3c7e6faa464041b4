package explain

import "fmt"

// Blocked is what prevents pods of lower priority from being preempted for one that waits:
// a disruption budget, or, without one, the pod's own preemptionPolicy.
type Blocked struct {
	Budget string // "namespace/name"; "" is the preemptionPolicy Never
	Pods   int    // of lower priority, that hold GPUs which would do
}

// String is the finding as a sentence.
func (b Blocked) String() string {
	if b.Budget == "" {
		return fmt.Sprintf("its preemptionPolicy is Never, so pods of lower priority (%d) that hold GPUs keep them; use a PriorityClass that preempts", b.Pods)
	}
	return fmt.Sprintf("disruption budget %s allows no disruption now, and so keeps pods of lower priority (%d) from being preempted", b.Budget, b.Pods)
}
