package nodeindex

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/placement"
	"berth.dev/berth/kube/request"
)

// StayOf returns how long pods stay that are placed now, as they declare: until the last of them has ended. It is
// not known if one of them declares nothing.
func StayOf(pods ...*v1.Pod) placement.Stay {
	var most time.Duration
	for _, p := range pods {
		d := request.MostRunTime(p)
		if d == 0 {
			return placement.Stay{}
		}
		most = max(most, d)
	}
	if most == 0 {
		return placement.Stay{}
	}
	return placement.Stay{Ends: time.Now().Add(most).Unix(), Run: max(1, int64(most/time.Second))}
}
