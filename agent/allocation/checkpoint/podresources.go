package checkpoint

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// List asks the kubelet's pod-resources API for all entries. podUIDs returns the UIDs
// of the node's pods by "namespace/name"; entries of other pods have none. It is
// called after the kubelet has answered, so it has every pod that is listed. An entry
// has the nonce of the last answer for its IDs: where there are several, the API
// does not say which container has which, and it does not list init containers.
func List(ctx context.Context, socket string, podUIDs func() (map[string]string, error), answers *Answers) ([]Entry, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connect to the kubelet's pod-resources API: %w", err)
	}
	defer func() { _ = conn.Close() }()
	list, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list pods at the kubelet's pod-resources API: %w", err)
	}
	uids, err := podUIDs()
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, pod := range list.GetPodResources() {
		for _, c := range pod.GetContainers() {
			out = append(out, containerEntries(uids[pod.GetNamespace()+"/"+pod.GetName()], c, answers)...)
		}
	}
	return out, nil
}

// containerEntries returns the entries of one container. The kubelet lists a
// resource once for each NUMA node.
func containerEntries(uid string, c *podresources.ContainerResources, answers *Answers) []Entry {
	var out []Entry
	for _, d := range c.GetDevices() {
		i := slices.IndexFunc(out, func(e Entry) bool { return e.Resource == d.GetResourceName() })
		if i < 0 {
			out = append(out, Entry{PodUID: uid, Container: c.GetName(), Resource: d.GetResourceName()})
			i = len(out) - 1
		}
		out[i].DeviceIDs = append(out[i].DeviceIDs, d.GetDeviceIds()...)
	}
	for i := range out {
		slices.Sort(out[i].DeviceIDs)
		out[i].DeviceIDs = slices.Compact(out[i].DeviceIDs)
		if list := answers.For(out[i].Resource, out[i].DeviceIDs); len(list) > 0 {
			out[i].Nonce = list[len(list)-1]
		}
	}
	return out
}
