package queue

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/explain"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// state is what is known of the queues of a cluster.
type state struct {
	queues []*v1alpha1.Queue // by name
	tree   *quota.Tree
	// count is nil where pods, nodes or namespaces cannot be listed; hidden says so.
	count     *queues.Count
	situation *queues.Situation
	pods      []*v1.Pod
	hidden    string
	starts    map[string]explain.Likely // when what waits is likely to start, by queues.Workload
}

// read lists the queues, and counts what their pods hold.
func read(ctx context.Context, c *client.Cluster, o client.Options) (*state, error) {
	list, served, err := c.Queues(ctx, o)
	if err == nil && !served {
		err = fmt.Errorf("list queues on %s: this cluster does not serve Queues; install `%s controller`", c.Name, o.Name)
	}
	if err != nil {
		return nil, err
	}
	s := &state{queues: list}
	specs, _ := queues.Specs(s.queues)
	s.tree = quota.NewTree(specs)
	nodes, pods, err := c.Holders(ctx, "")
	if err == nil {
		s.situation, err = c.QueueSituation(ctx, o, s.queues, nodes, pods)
	}
	if apierrors.IsForbidden(err) {
		s.hidden = "amounts are those that the Queues report: you cannot list nodes, namespaces, or the pods of all namespaces"
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	s.count = queues.Read(s.situation)
	s.pods, s.tree = pods, s.count.Book.Tree()
	return s, nil
}

// outside says which namespaces with GPU pods no queue takes; "" is none.
func (s *state) outside() string {
	if s.count == nil {
		return ""
	}
	spaces := map[string]int{}
	for _, pod := range s.pods {
		if request.Of(pod) != nil && s.count.QueueOf(pod).Queue == "" {
			spaces[pod.Namespace]++
		}
	}
	if len(spaces) == 0 {
		return ""
	}
	pods := 0
	var names []string
	for name, n := range spaces {
		names, pods = append(names, name), pods+n
	}
	slices.Sort(names)
	return fmt.Sprintf("%s with GPUs in no queue, without a quota: %s", term.Count(pods, "pod"), term.FitList("", names, term.PlainWidth/2))
}
