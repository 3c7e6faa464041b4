package training

import (
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/core/gpu"
)

// Fault is an error of a GPU under a pod that has made the GPU unhealthy, so no other pod gets it.
type Fault struct {
	GPU  int // index on its node
	UUID string
	Xid  int
}

// cause says what has happened to a pod that had the GPU, as the end of a sentence about the pod.
func (f *Fault) cause(node string) string {
	return fmt.Sprintf("lost GPU %d (%s) of %s to Xid %d (%s)", f.GPU, f.UUID, node, f.Xid, gpu.Xid(f.Xid).Name)
}

// keptOut ends the message of a restart for a fault.
const keptOut = "; no pod gets this GPU until it is healthy again"

// faulty returns the first of the pods with a fault, nil if there is none.
func faulty(pods []*Pod) *Pod {
	for _, p := range pods {
		if p.Fault != nil {
			return p
		}
	}
	return nil
}

// repeats is on how many nodes in a row the program of a member has to end with the same exit code for the cause not
// to be a node.
const repeats = 3

// ended returns what is counted with the end of a program on a node added to those in a row. Another exit code begins
// the row again, and a node that is in it already adds nothing.
func (c Counted) ended(p *Pod) Counted {
	if p.Exit == nil || p.Node == "" {
		return c
	}
	if c.Exit != *p.Exit {
		c.Exit, c.Nodes = *p.Exit, ""
	}
	nodes := c.nodes()
	if slices.Contains(nodes, p.Node) {
		return c
	}
	if len(nodes) < repeats {
		c.Nodes = strings.Join(append(nodes, p.Node), ",")
	}
	return c
}

// nodes returns the nodes on which the program has ended in a row with the same exit code.
func (c Counted) nodes() []string {
	if c.Nodes == "" {
		return nil
	}
	return strings.Split(c.Nodes, ",")
}

// Program says of the first member by rank whose program has ended on three nodes in a row with the same exit code that the
// program is the likely cause; "" is that there is none.
func (j *Job) Program() string {
	for _, m := range j.Ranks() {
		if text := j.Restarts.program(j.Name, m); text != "" {
			return text
		}
	}
	return ""
}

// program says the same of one member of a job.
func (r Restarts) program(job string, m Member) string {
	c := r[m.key()]
	nodes := c.nodes()
	if len(nodes) < repeats {
		return ""
	}
	return fmt.Sprintf("%s has ended with exit code %d on %d nodes in a row (%s), so the likely cause is the program or its data, not a node or a GPU",
		m.Name(job), c.Exit, len(nodes), strings.Join(nodes, ", "))
}
