package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/strictyaml"
)

// Pools are declared in a ConfigMap of this name and namespace, under this key.
const (
	Namespace = "kube-system"
	Name      = "berth-pools"
	Key       = "pools.yaml"
)

// Read returns the pools that a cluster declares, in the order of the text; none where
// there is no such ConfigMap, or the caller may not read it.
func Read(ctx context.Context, client kubernetes.Interface) ([]Pool, error) {
	m, err := client.CoreV1().ConfigMaps(Namespace).Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the pools in ConfigMap %s/%s: %w", Namespace, Name, err)
	}
	list, err := Parse(m.Data[Key])
	if err != nil {
		return nil, fmt.Errorf("read %s of ConfigMap %s/%s: %w", Key, Namespace, Name, err)
	}
	return list, nil
}

// Parse reads a list of pools, YAML or JSON. The error names the pool and the field,
// and says what is right.
func Parse(text string) ([]Pool, error) {
	var list []Pool
	if err := strictyaml.Decode(Key, []byte(text), &list); err != nil {
		return nil, fmt.Errorf("not a list of pools: %w", err)
	}
	seen := map[string]bool{}
	for i := range list {
		p := &list[i]
		at := fmt.Sprintf("pool %d", i+1)
		if p.Name != "" {
			at = "pool " + p.Name
		}
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		if seen[p.Name] {
			return nil, fmt.Errorf("%s is declared twice; leave one out", at)
		}
		seen[p.Name] = true
	}
	return list, nil
}

// mostGPUs is how many GPUs a node may be declared to have.
const mostGPUs = 256

// mostNodes is how many nodes a pool may be declared to grow to.
const mostNodes = 1 << 20

// check returns what is wrong with a pool.
func (p *Pool) check() error {
	switch {
	case p.Name == "":
		return fmt.Errorf("it has no name; write the one that the label of its nodes has")
	case p.Max > mostNodes:
		return fmt.Errorf("max %d: a pool has at most %d nodes", p.Max, mostNodes)
	case p.Min < 0 || p.Max < 1 || p.Min > p.Max:
		return fmt.Errorf("min %d, max %d: write 0 or more for min, and for max at least 1 and no less than min", p.Min, p.Max)
	case p.CPU < 0 || p.MemoryGiB < 0 || p.CPU > enough || p.MemoryGiB > enough:
		return fmt.Errorf("cpu %d, memoryGiB %d: write what a node has, at most %d of each, or leave it out", p.CPU, p.MemoryGiB, enough)
	case p.GPUs.Count < 0 || p.GPUs.Count > mostGPUs:
		return fmt.Errorf("gpus.count %d: a node has 0 to %d", p.GPUs.Count, mostGPUs)
	case p.GPUs.Count == 0 && p.GPUs.Product != "":
		return fmt.Errorf("gpus.product is %q, and gpus.count is not said; write how many a node has", p.GPUs.Product)
	}
	if p.GPUs.Product != "" {
		if _, ok := gpu.Find(p.GPUs.Product); !ok {
			return fmt.Errorf("gpus.product %q is not known; write one of %s, or leave it out", p.GPUs.Product, strings.Join(products(), ", "))
		}
	}
	for _, t := range p.Taints {
		if t.Key == "" || !slices.Contains([]v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}, t.Effect) {
			return fmt.Errorf("taint %q: it has a key, and its effect is NoSchedule, PreferNoSchedule or NoExecute", t.ToString())
		}
	}
	return nil
}

func products() []string {
	var out []string
	for _, p := range gpu.Products() {
		out = append(out, p.Name)
	}
	return out
}
