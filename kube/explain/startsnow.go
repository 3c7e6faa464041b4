package explain

import (
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/placement"
	"berth.dev/berth/kube/request"
)

// startsNow returns a node on which pod fits now after all that wait for the same nodes and
// come before it have got their places; of a gang, all members that wait must find one.
func (t *Cluster) startsNow(pod *v1.Pod, line *lineup) (node string, ok bool) {
	mine := t.candidates(pod, t.ties)
	before := t.before(pod, &mine, line)
	if len(before) > mostAhead {
		return "", false
	}
	mark := t.snapshot.Mark()
	defer t.snapshot.RollBack(mark)
	best := placement.NewBestFit(placement.Setup{Cluster: t.snapshot})
	g, err := request.GangOf(pod)
	if err != nil {
		return "", false
	}
	if g == nil {
		t.withoutKept() // those it is kept for are among before
		for i := range before {
			before[i].take(t.snapshot, best) // one that does not fit takes nothing
		}
		return t.Fits(pod)
	}
	if node, ok = t.Fits(pod); !ok {
		return "", false
	}
	if group := t.Group(pod, line.pods); group == nil || group.Fit < group.Waiting || group.Needed > group.Free {
		return "", false
	}
	return node, true
}
