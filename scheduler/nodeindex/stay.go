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
	most := make([]time.Duration, len(pods))
	for i, p := range pods {
		most[i] = request.MostRunTime(p)
	}
	return placement.StayOf(time.Now(), most...)
}
