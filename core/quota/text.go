package quota

import (
	"cmp"
	"fmt"
)

// Sentence says for people why a workload may not go on; what is "the pod", or names a
// gang. It is "" for a Verdict that lets it.
func (v *Verdict) Sentence(what, user string) string {
	asks := fmt.Sprintf("%s asks for %s", what, of(v.Asked, v.Resource))
	switch v.Cause {
	case NoQueue:
		return fmt.Sprintf("queue %s does not exist, or its object is not valid: kubectl get queue %s -o yaml", v.Queue, v.Queue)
	case Mixed:
		other := "no queue"
		if v.Other != "" {
			other = "queue " + v.Other
		}
		return fmt.Sprintf("pods of the gang are of queue %s and of %s; it is admitted when all are of one queue (label berth.dev/queue)", v.Queue, other)
	case Sharing:
		if v.Allowed == 0 {
			return fmt.Sprintf("%s would use GPUs by %s, and queue %s and those above it allow no way in common (spec.sharing)", what, v.Ways.Text("or"), v.Queue)
		}
		return fmt.Sprintf("%s would use GPUs by %s, and queue %s allows only %s (spec.sharing)", what, v.Ways.Text("or"), v.Queue, v.Allowed.Text("and"))
	case PodLimit:
		return fmt.Sprintf("%s, and queue %s allows %s for each pod", asks, v.Queue, Text(v.Most))
	case Never:
		return fmt.Sprintf("%s, and queue %s can have %s at most", asks, v.Queue, Text(v.Most))
	case Stopped:
		return fmt.Sprintf("queue %s is stopped (spec.stop) and admits no pods", v.Queue)
	case Spent:
		return fmt.Sprintf("the budget of queue %s is spent (spec.budget), and it admits no pods until the next month", v.Queue)
	case UserLimit:
		return fmt.Sprintf("%s, and user %s holds %s of the %s that queue %s allows for each user", asks, known(cmp.Or(v.User, user)), Text(v.Held), of(v.Most, v.Resource), v.Queue)
	case BorrowingLimit:
		return fmt.Sprintf("%s, and queue %s holds %s of the %s that it may have with what it borrows", asks, v.Queue, Text(v.Held), of(v.Most, v.Resource))
	case Used:
		if v.Held >= v.Most {
			return fmt.Sprintf("%s, and all %s of queue %s are in use", asks, of(v.Most, v.Resource), v.Queue)
		}
		return fmt.Sprintf("%s, and %s of the %s of queue %s are in use", asks, Text(v.Held), of(v.Most, v.Resource), v.Queue)
	case Behind:
		return fmt.Sprintf("%s, and what is free for queue %s is kept for a workload before it in line, which asks for %s and has waited for over an hour", asks, v.Queue, of(v.Most, v.Resource))
	case None:
	}
	return ""
}

// of writes an amount of a resource, such as "2 GPUs" or "1 Tesla-T4".
func of(parts int64, r Resource) string {
	one := Milli(parts) == 1000
	switch profile := r.Profile(); {
	case r == GPUs && one:
		return "1 GPU"
	case r == GPUs:
		return Text(parts) + " GPUs"
	case r == Equivalents:
		return Text(parts) + " GPU-equivalents"
	case profile != "" && one:
		return "1 MIG device " + profile
	case profile != "":
		return Text(parts) + " MIG devices " + profile
	case r.Label() != "" && one:
		return "1 GPU of nodes with " + r.Label()
	case r.Label() != "":
		return Text(parts) + " GPUs of nodes with " + r.Label()
	case one:
		return "1 GPU " + string(r)
	}
	return Text(parts) + " GPUs " + string(r)
}
