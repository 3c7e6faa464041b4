package serving

import "fmt"

// Slots is how many requests an activator may have at a replica at once, where a replica takes limit of them: the activators share them, and those
// that are left over go to other activators at each replica. place is of the activator among all, and replica of the replica, both from 0.
// All together have limit at each replica, or one each if there are more activators than that.
func Slots(limit, activators, place, replica int) int {
	if activators <= 1 {
		return limit
	}
	own := limit / activators
	if (place+replica)%activators < limit%activators {
		own++
	}
	return max(own, 1)
}

// Unbounded is why a replica may get more requests at once than containerConcurrency says, with what to do; "" is that it may not.
// activators is how many of them stand before the service, 0 is that none does.
func Unbounded(limit, activators int) string {
	switch {
	case limit <= 0:
		return ""
	case activators == 0:
		return fmt.Sprintf("containerConcurrency %d is not kept, as requests reach the replicas directly: `berth activator` keeps it", limit)
	case activators > limit:
		return fmt.Sprintf("containerConcurrency %d is less than the %d activators, of which each sends one request: a replica may get %d at once; run fewer of them, or one", limit, activators, activators)
	}
	return ""
}
