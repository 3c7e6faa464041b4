package notebook

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
)

// How old what was read of the cluster may be, and how long it is kept in memory.
const (
	nodesFor = 10 * time.Second
	podsFor  = 2 * time.Second
)

// clusterCache is the cluster's nodes and pods, read on demand and not watched:
// few notebooks need them. They are read from the API server's own cache, and
// forgotten soon.
type clusterCache struct {
	reader client.Reader
	now    func() time.Time

	mu          sync.Mutex
	nodeList    []*corev1.Node
	podList     []*corev1.Pod
	nodesAt     time.Time
	podsAt      time.Time
	nodesForget *time.Timer
	podsForget  *time.Timer
	counted     *explain.Cluster // of nodeList and podList; nil is not counted yet
}

// fromCache asks the API server for what it has in memory.
func fromCache() client.ListOption {
	return &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}
}

// nodes are the nodes of the cluster, to be read only, as they were at a time of the
// API's, which has whole seconds, or later. The zero time is any.
func (s *clusterCache) nodes(ctx context.Context, since time.Time) ([]*corev1.Node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodeList != nil && s.now().Sub(s.nodesAt) < nodesFor && !s.nodesAt.Truncate(time.Second).Before(since) {
		return s.nodeList, nil
	}
	var list corev1.NodeList
	if err := s.reader.List(ctx, &list, fromCache()); err != nil {
		return nil, err
	}
	s.nodeList, s.nodesAt = make([]*corev1.Node, len(list.Items)), s.now()
	for i := range list.Items {
		n := &list.Items[i]
		n.ManagedFields, n.Status.Images = nil, nil
		s.nodeList[i] = n
	}
	s.counted = nil
	s.nodesForget = forgetAfter(s.nodesForget, nodesFor, s, func() { s.nodeList, s.counted = nil, nil })
	return s.nodeList, nil
}

// all are the nodes and the pods of the cluster, to be read only.
func (s *clusterCache) all(ctx context.Context) ([]*corev1.Node, []*corev1.Pod, error) {
	nodes, err := s.nodes(ctx, s.now().Add(-podsFor))
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.podList != nil && s.now().Sub(s.podsAt) < podsFor {
		return nodes, s.podList, nil
	}
	var list corev1.PodList
	if err := s.reader.List(ctx, &list, fromCache()); err != nil {
		return nil, nil, err
	}
	s.podList, s.podsAt = make([]*corev1.Pod, len(list.Items)), s.now()
	for i := range list.Items {
		s.podList[i] = &list.Items[i]
	}
	s.counted = nil
	s.podsForget = forgetAfter(s.podsForget, podsFor, s, func() { s.podList, s.counted = nil, nil })
	return nodes, s.podList, nil
}

// judge says what keeps pod from every node, with nodes as they were at since or later,
// and returns them. The verdict is nil if the cluster cannot be counted.
func (s *clusterCache) judge(ctx context.Context, since time.Time, pod *corev1.Pod) (*reasons.Verdict, []*corev1.Node, error) {
	if _, err := s.nodes(ctx, since); err != nil {
		return nil, nil, err
	}
	nodes, pods, err := s.all(ctx)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counted == nil {
		if s.counted, err = explain.NewCluster(nodes, pods); err != nil {
			return nil, nodes, nil // a courtesy: the scheduler's words remain
		}
		s.counted.SetPrivate() // for all who may read the notebook
	}
	return s.counted.Judge(pod), nodes, nil
}

// forgetAfter runs drop with s.mu held after d, instead of what old would do.
func forgetAfter(old *time.Timer, d time.Duration, s *clusterCache, drop func()) *time.Timer {
	if old != nil {
		old.Stop()
	}
	return time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		drop()
	})
}
