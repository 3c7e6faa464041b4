package why

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/queues"
)

// turn returns how it stands with a suspended object that is to be resumed in its turn; nil is that it
// is not, or that it may not be known.
func (e *explainer) turn(ctx context.Context, o metav1.Object) *reasons.Turn {
	ok, left := queues.Of(o, nil).InTurn()
	if !ok && left == "" {
		return nil
	}
	if !ok {
		return &reasons.Turn{Left: left}
	}
	list, _, err := e.Cluster.Queues(ctx, e.o)
	if err != nil {
		return nil
	}
	if len(list) == 0 {
		return &reasons.Turn{Left: "the cluster has no Queue, so nothing has turns"}
	}
	nodes, pods, err := e.Cluster.Holders(ctx, "")
	if err != nil {
		return nil
	}
	from, err := e.QueueSituation(ctx, e.o, list, nodes, pods)
	if err != nil {
		return nil
	}
	i := slices.IndexFunc(from.Suspended, func(s *queues.Suspended) bool { return s.Object.GetUID() == o.GetUID() })
	if i < 0 {
		return nil
	}
	s, count := from.Suspended[i], queues.Read(from)
	w := count.WorkloadFor(s)
	if w == nil {
		return &reasons.Turn{Left: count.QueueOf(s.Sets[0].Pod).Why}
	}
	t := &reasons.Turn{Queue: w.Queue, User: w.User, Need: w.Need, Quota: count.Book.Try(w), Problem: s.Problem}
	if t.Quota.Cause != quota.None {
		line := count.Book.Waiting(w.Queue)
		t.Of, t.Position = len(line), 1+slices.IndexFunc(line, func(o quota.Workload) bool { return o.ID == w.ID })
		return t
	}
	if cluster, err := explain.NewCluster(nodes, pods); err == nil {
		t.Fit = cluster.Room(s, w.Need)
	}
	return t
}
