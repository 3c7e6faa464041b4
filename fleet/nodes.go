package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/fleet/spec"
	"berth.dev/berth/internal/pause"
)

// startGrace is how long a fleet that has just started waits for the device
// plugin's pods, beside pluginGrace.
const startGrace = 50 * time.Second

// register takes over the simulated nodes that the API server has and creates
// those of the fleet that it lacks.
func (f *Fleet) register(ctx context.Context) error {
	list, err := retry(ctx, f, "list nodes", func() (*v1.NodeList, error) {
		return f.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	})
	if err != nil {
		return err
	}
	wanted := map[string]*spec.Node{}
	for i := range f.spec.Nodes {
		wanted[f.spec.Nodes[i].Name] = &f.spec.Nodes[i]
	}
	there := map[string]bool{}
	for i := range list.Items {
		found := &list.Items[i]
		there[found.Name] = true
		if found.Labels[api.LabelSimulated] != "true" {
			if wanted[found.Name] != nil {
				return fmt.Errorf("node %s is in the fleet and in the cluster, where it is not simulated (no label %s=true); give it another name in the fleet file",
					found.Name, api.LabelSimulated)
			}
			continue
		}
		if wanted[found.Name] == nil {
			f.log.Info("a node of an earlier fleet stays; delete it with kubectl delete node if it is not wanted", "node", found.Name)
		}
		if err := f.adopt(found, wanted[found.Name]); err != nil {
			return err
		}
	}
	return f.create(ctx, there)
}

// retry asks the API server until it answers or ctx ends: it may still be
// starting.
func retry[T any](ctx context.Context, f *Fleet, what string, ask func() (T, error)) (T, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		out, err := ask()
		if err == nil {
			return out, nil
		}
		if ctx.Err() != nil || apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) || apierrors.IsBadRequest(err) {
			return out, fmt.Errorf("%s: %w", what, err)
		}
		f.log.Debug("the API server does not answer yet", "attempt", what, "error", err)
		if !pause.For(ctx, wait) {
			return out, fmt.Errorf("%s: %w", what, err)
		}
	}
}

// create creates the nodes of the fleet that are not there, several at once.
// Their addresses go by the order in the fleet.
func (f *Fleet) create(ctx context.Context, there map[string]bool) error {
	work := make(chan *node)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	for range nodeWorkers {
		wg.Go(func() {
			for n := range work {
				if err := f.createNode(ctx, n); err != nil {
					fail(err)
				}
			}
		})
	}
	for _, s := range f.spec.Nodes {
		if there[s.Name] {
			continue
		}
		ip, err := f.ips.node(s.Name)
		if err != nil {
			fail(err)
			break
		}
		n, err := newNode(f, s, ip, f.now())
		if err != nil {
			fail(fmt.Errorf("offer the GPUs of node %s: %w", s.Name, err))
			continue
		}
		work <- n
	}
	close(work)
	wg.Wait()
	return errors.Join(errs...)
}

// createNode creates one Node object, status and all, in one write.
func (f *Fleet) createNode(ctx context.Context, n *node) error {
	obj, err := spec.Kubernetes(n.spec, n.ip, f.now())
	if err != nil {
		return fmt.Errorf("make node %s: %w", n.name, err)
	}
	obj.Spec.PodCIDR = f.ips.cidr(n.name)
	obj.Spec.PodCIDRs = []string{obj.Spec.PodCIDR}
	made, err := retry(ctx, f, "create node "+n.name, func() (*v1.Node, error) {
		return f.client.CoreV1().Nodes().Create(ctx, obj, metav1.CreateOptions{})
	})
	if err != nil {
		return err
	}
	made.ManagedFields = nil
	n.api, n.config = made, configLabel{true, made.Labels[api.LabelPluginConfig]}
	n.mig.asks(made.Labels[api.LabelMIGConfig])
	f.add(n)
	return nil
}

func (f *Fleet) add(n *node) {
	n.since = f.now().Add(startGrace)
	f.mu.Lock()
	f.nodes[n.name] = n
	f.mu.Unlock()
	f.queue.Add(n)
}

// run brings the Node object to what the node is: labels, annotations, capacity,
// allocatable and conditions. It writes nothing that is so already.
func (n *node) run(ctx context.Context) {
	n.mu.Lock()
	if n.api == nil || n.fleet.find(n.name) != n {
		n.mu.Unlock()
		return
	}
	n.mu.Unlock()
	again, unread := n.repartition(ctx)
	n.mu.Lock()
	now := n.fleet.now()
	status, next, err := n.statusPatch(now)
	var meta []byte
	if err == nil && !n.broken() {
		meta, err = n.metaPatch()
	}
	n.mu.Unlock()
	if err == nil && meta != nil {
		err = n.patch(ctx, spec.PatchType, meta)
	}
	if err == nil && status != nil {
		err = n.patch(ctx, types.StrategicMergePatchType, status, "status")
	}
	if err = cmp.Or(err, unread); err != nil && ctx.Err() == nil {
		n.fleet.log.Debug("node not written", "node", n.name, "error", err)
		next = now.Add(time.Second)
	} else if again {
		n.fleet.queue.Add(n)
	}
	n.fleet.timers.set(&n.alarm, next)
}

// patch sends a patch and takes the answer as the newest version.
func (n *node) patch(ctx context.Context, kind types.PatchType, data []byte, sub ...string) error {
	got, err := n.fleet.client.CoreV1().Nodes().Patch(ctx, n.name, kind, data, metav1.PatchOptions{}, sub...)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		n.mu.Lock()
		n.take(got)
		n.mu.Unlock()
	}
	return err
}

// metaPatch returns what is to change in the labels and annotations, nil if
// nothing.
func (n *node) metaPatch() ([]byte, error) {
	if len(n.gpus) == 0 {
		return nil, nil
	}
	data, err := spec.Patch(n.now(), n.api.Labels)
	if err != nil {
		return nil, err
	}
	var p struct {
		Metadata struct {
			Labels      map[string]*string `json:"labels"`
			Annotations map[string]*string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("read the patch of node %s: %w", n.name, err)
	}
	n.stateLabel(p.Metadata.Labels)
	same := len(p.Metadata.Labels) == 0
	for key, value := range p.Metadata.Annotations {
		has, there := n.api.Annotations[key]
		same = same && there == (value != nil) && (!there || has == *value)
	}
	if same {
		return nil, nil
	}
	return json.Marshal(p)
}

// uid returns the UID of the Node object, "" before it is known.
func (n *node) uid() types.UID {
	if n.api == nil {
		return ""
	}
	return n.api.UID
}
