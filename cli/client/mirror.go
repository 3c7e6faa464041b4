package client

import (
	"cmp"
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"berth.dev/berth/kube/request"
)

// mirror is the nodes and live pods of a cluster as watches have them, for commands that show them again and again: a large
// cluster is listed once. It is read by one goroutine.
type mirror struct {
	nodes, pods cache.SharedIndexInformer
	news        chan struct{}
	failed      chan error // the first error of a list or a watch

	named map[types.UID]*v1.Pod // copies of pods whose users are read; see NameUsers
}

// mirrored has Read answer by watches until ctx ends, for nodes with a selector, which Read must have too. changed has one entry while something
// has changed that was not seen.
func (c *Cluster) mirrored(ctx context.Context, selector string) (changed <-chan struct{}, err error) {
	if err := checkSelector(selector); err != nil {
		return nil, err
	}
	m := &mirror{news: make(chan struct{}, 1), failed: make(chan error, 1), named: map[types.UID]*v1.Pod{}}
	m.nodes = coreinformers.NewFilteredNodeInformer(c.Interface, 0, cache.Indexers{}, func(o *metav1.ListOptions) { o.LabelSelector = selector })
	m.pods = coreinformers.NewFilteredPodInformer(c.Interface, metav1.NamespaceAll, 0, cache.Indexers{}, func(o *metav1.ListOptions) { o.FieldSelector = livePods })
	trim := newTrimmer()
	for _, one := range []struct {
		informer  cache.SharedIndexInformer
		transform cache.TransformFunc
	}{
		{m.nodes, func(o any) (any, error) {
			if n, is := o.(*v1.Node); is {
				return trimNode(n), nil
			}
			return o, nil
		}},
		{m.pods, func(o any) (any, error) {
			p, is := o.(*v1.Pod)
			switch {
			case !is:
				return o, nil
			case !ofGPUs(p):
				return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}}, nil
			}
			return trim.pod(p), nil
		}},
	} {
		if err := one.informer.SetTransform(one.transform); err != nil {
			return nil, err
		}
		if err := one.informer.SetWatchErrorHandlerWithContext(m.fails); err != nil {
			return nil, err
		}
		_, err := one.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { m.saw(o) }, UpdateFunc: func(old, o any) { m.saw(old, o) }, DeleteFunc: func(o any) { m.saw(o) },
		})
		if err != nil {
			return nil, err
		}
		go one.informer.RunWithContext(klog.NewContext(ctx, klog.New(nil))) // the screen is the command's: see fails
	}
	synced := make(chan bool, 1)
	go func() { synced <- cache.WaitForCacheSync(ctx.Done(), m.nodes.HasSynced, m.pods.HasSynced) }()
	select {
	case err := <-m.failed:
		return nil, c.Failed("watch nodes and pods", err)
	case <-synced:
	}
	c.mirror = m
	return m.news, context.Cause(ctx)
}

// saw notes a change of objects. Pods without GPUs are none.
func (m *mirror) saw(objects ...any) {
	for _, o := range objects {
		if p, is := o.(*v1.Pod); is && len(p.Spec.Containers) == 0 {
			continue
		}
		m.look()
	}
}

// look has the command show the cluster again.
func (m *mirror) look() {
	select {
	case m.news <- struct{}{}:
	default: // it will, and sees this too
	}
}

// fails notes that a list or a watch has failed. It is begun again.
func (m *mirror) fails(_ context.Context, _ *cache.Reflector, err error) {
	select {
	case m.failed <- err:
	default:
	}
	m.look()
}

// read returns the nodes, by name, and the pods that hold GPUs or say something of them. It asks the API server whether it answers: while it does
// not, watches only wait, and the mirror shows what was.
func (m *mirror) read(ctx context.Context, c *Cluster) (nodes []*v1.Node, pods []*v1.Pod, err error) {
	if _, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return nil, nil, c.Failed("list nodes", err)
	}
	for _, o := range m.nodes.GetStore().List() {
		nodes = append(nodes, o.(*v1.Node))
	}
	named := map[types.UID]*v1.Pod{}
	for _, o := range m.pods.GetStore().List() {
		p := o.(*v1.Pod)
		if len(p.Spec.Containers) == 0 {
			continue
		}
		if request.StampOf(p).Controller != "" {
			one := m.named[p.UID]
			if one == nil || one.ResourceVersion != p.ResourceVersion {
				one = p.DeepCopy()
			}
			named[p.UID], p = one, one
		}
		pods = append(pods, p)
	}
	m.named = named
	slices.SortFunc(nodes, func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return nodes, pods, nil
}
