package explain

import (
	"fmt"
	"strings"

	"berth.dev/berth/core/queue"
)

// mostOvertakers is how many pods are named that have overtaken another.
const mostOvertakers = 3

// Overtaken is that pods were created after one that waits, and started before it, because
// they ask for less.
type Overtaken struct {
	Asks Amount      // of the pod that waits
	By   []queue.Ask // the ones that started last come first; empty is none
}

// String is the finding as a sentence, "" if no pod has overtaken it.
func (o Overtaken) String() string {
	if len(o.By) == 0 {
		return ""
	}
	texts := make([]string, 0, mostOvertakers+1)
	for _, by := range o.By[:min(len(o.By), mostOvertakers)] {
		texts = append(texts, fmt.Sprintf("%s (%d %s on %s)", by.Name, by.Count, by.Resource, by.Node))
	}
	if more := len(o.By) - mostOvertakers; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("created later and started first, because smaller requests fit where this one (%d %s) does not: %s",
		o.Asks.Count, o.Asks.Resource, strings.Join(texts, ", "))
}
