package allocation

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// podEntries finds the pod that has these tokens of a resource, and gives all
// entries of that pod.
//
// Tokens may be those of several containers: of an init container, and of those
// that use its devices again. They are of one pod, so that it does not matter
// which one starts: each has a CDI name of its own, and all get their spec.
func (n *Node) podEntries(ctx context.Context, resource string, tokens []string) ([]entry, error) {
	entries, err := n.checkpoint.read()
	var mine []entry
	if err == nil {
		if mine, err = n.ofPod(ctx, entries, resource, tokens); err == nil && len(mine) > 0 {
			err = readNonces(mine)
		}
	}
	var r *refusal
	if err == nil && len(mine) > 0 || errors.As(err, &r) {
		return mine, err
	}
	if n.o.PodResources != "" {
		n.log.Warn("the kubelet's checkpoint does not tell, asking for its pods' resources", "error", err)
		if entries, err = n.listed(ctx); err != nil {
			return nil, err
		}
		if mine, err = n.ofPod(ctx, entries, resource, tokens); err != nil {
			return nil, err
		}
		err = n.unique(mine)
	}
	if err == nil && len(mine) == 0 {
		err = refuse(ReasonPodUnknown, "the kubelet asks for %s of %s and does not say for which container; it asks again by itself", names(tokens), resource)
	} else if err != nil && !errors.As(err, &r) {
		err = refuse(ReasonPodUnknown, "%w; give the agent the kubelet's pod-resources socket", err)
	}
	return mine, err
}

// ofPod gives all entries of the pod that has these tokens of a resource, in
// order; none where no pod has them.
func (n *Node) ofPod(ctx context.Context, entries []entry, resource string, tokens []string) ([]entry, error) {
	var uids []string
	for i := range entries {
		if entries[i].has(resource, tokens) && !slices.Contains(uids, entries[i].PodUID) {
			uids = append(uids, entries[i].PodUID)
		}
	}
	if len(uids) > 1 {
		uids = n.alive(ctx, uids)
	}
	switch len(uids) {
	case 0:
		return nil, nil
	case 1:
	default:
		return nil, refuse(ReasonAmbiguous, "the kubelet asks for %s of %s, which it has given to pods %s: delete all of these but one", names(tokens), resource, names(uids))
	}
	var mine []entry
	for _, e := range entries {
		if e.PodUID == uids[0] {
			mine = append(mine, e)
		}
	}
	slices.SortFunc(mine, func(a, b entry) int { return compareEntries(&a, &b) })
	return mine, nil
}

// alive keeps the pods that have not ended. One that cannot be read stays.
func (n *Node) alive(ctx context.Context, uids []string) []string {
	return slices.DeleteFunc(uids, func(uid string) bool {
		pod, err := n.o.Pods.Pod(ctx, uid, true)
		return err == nil && (pod == nil || ended(pod))
	})
}

// listed makes entries of what the kubelet tells of its pods' resources, and of
// the answers that this process remembers. Where several answers were for the
// same tokens nobody can tell which is whose: the kubelet does not list init
// containers.
func (n *Node) listed(ctx context.Context) ([]entry, error) {
	conn, err := grpc.NewClient("unix://"+n.o.PodResources, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, refuse(ReasonPodUnknown, "the kubelet cannot be asked for its pods' resources: %w", err)
	}
	defer func() { _ = conn.Close() }()
	list, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, refuse(ReasonPodUnknown, "the kubelet does not list its pods' resources: %w", err)
	}
	pods, err := n.o.Pods.Pods(ctx, true)
	if err != nil {
		return nil, refuse(ReasonPodUnknown, "the pods of this node cannot be read: %w", err)
	}
	uid := map[string]string{}
	for _, pod := range pods {
		if !ended(pod) {
			uid[pod.Namespace+"/"+pod.Name] = string(pod.UID)
		}
	}
	var out []entry
	for _, pod := range list.GetPodResources() {
		for _, c := range pod.GetContainers() {
			out = append(out, n.listedContainer(uid[pod.GetNamespace()+"/"+pod.GetName()], c)...)
		}
	}
	return out, nil
}

// listedContainer makes the entries of one container. The kubelet lists one
// resource several times, once for each NUMA node.
func (n *Node) listedContainer(uid string, c *podresources.ContainerResources) []entry {
	var out []entry
	for _, d := range c.GetDevices() {
		i := slices.IndexFunc(out, func(e entry) bool { return e.Resource == d.GetResourceName() })
		if i < 0 {
			out = append(out, entry{PodUID: uid, Container: c.GetName(), Resource: d.GetResourceName()})
			i = len(out) - 1
		}
		out[i].Tokens = append(out[i].Tokens, d.GetDeviceIds()...)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range out {
		slices.Sort(out[i].Tokens)
		out[i].Tokens = slices.Compact(out[i].Tokens)
		if list := n.nonces[tokenKey(out[i].Resource, out[i].Tokens)]; len(list) > 0 {
			out[i].Nonce = list[len(list)-1]
		}
	}
	return out
}

// unique refuses entries whose answer may be another's.
func (n *Node) unique(entries []entry) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		if len(n.nonces[tokenKey(e.Resource, e.Tokens)]) > 1 {
			return refuse(ReasonAmbiguous, "container %s of pod %s shares devices of %s with an init container, and the kubelet's checkpoint, which tells them apart, cannot be read: delete the pod, or give it no init container with GPUs",
				e.Container, e.PodUID, e.Resource)
		}
	}
	return nil
}
