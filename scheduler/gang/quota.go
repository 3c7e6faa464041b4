package gang

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/scheduler/admit"
	"berth.dev/berth/scheduler/quota"
)

// admitted asks the quotas for the gang of a task, and has the plan place no more members
// than there is quota for. nil is that it may be planned.
func (g *Plans) admitted(cycle fwk.CycleState, pod *v1.Pod, task *Task) *fwk.Status {
	c := g.p.Cluster
	if !c.Quota.On() {
		return nil
	}
	ask := &quota.Ask{Lead: pod, Pods: task.Pods, Need: task.Need, Gang: task.Name, Ticket: c.Waiting.Ticket(pod)}
	if task.Extra {
		ask = quota.Alone(pod, ask.Ticket)
	}
	no, count := admit.Gang(c, cycle, ask)
	if no != nil {
		return no
	}
	if count < len(task.Pods) && (task.Most == 0 || count < task.Most) {
		task.Most = count
	}
	return nil
}

// promise keeps quota for the members of a task that have places.
func (g *Plans) promise(task *Task, nodes map[types.UID]string) {
	if !g.p.Cluster.Quota.On() {
		return
	}
	var placed []*v1.Pod
	for _, pod := range task.Pods {
		if nodes[pod.UID] != "" {
			placed = append(placed, pod)
		}
	}
	g.p.Cluster.Quota.Promise(placed)
}
