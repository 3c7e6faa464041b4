package explain

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/request"
)

// Waiting is one workload that waits, with its cause in a line.
type Waiting struct {
	Owner request.Owner
	Pods  int // of it that wait for this cause
	Code  reasons.Code
	State reasons.Reason
	Cause string
	Since time.Time // when the oldest of these pods was made
}

// Survey lists every workload with pods that have no node, in a namespace, or in all if
// namespace is "". Workloads with one cause stand together, the cause of most pods first,
// of these the one that waits longest. Each distinct ask is judged once. Pods are all pods of the cluster.
func Survey(nodes []*v1.Node, pods []*v1.Pod, namespace string, now time.Time) ([]Waiting, error) {
	c, err := NewCluster(nodes, pods)
	if err != nil {
		return nil, err
	}
	placers, verdicts := schedulers(pods), map[string]*reasons.Verdict{}
	var out []Waiting
	at := map[waitingKey]int{}
	for _, p := range pods {
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || namespace != "" && p.Namespace != namespace {
			continue
		}
		key := askKey(p, len(c.antis) > 0)
		v := verdicts[key]
		if v == nil {
			v = c.Judge(p)
			verdicts[key] = v
		}
		f := reasons.Facts{
			Namespace: p.Namespace, Name: p.Name, GPUs: v.Asks, Claims: ClaimsOf(p), Pod: PodFacts(p, nil), Brief: true, Verdict: v,
			Scheduler: p.Spec.SchedulerName, Schedulers: placers, Waited: now.Sub(p.CreationTimestamp.Time),
		}
		for _, g := range p.Spec.SchedulingGates {
			f.Gates = append(f.Gates, g.Name)
		}
		r := reasons.Judge(&f)
		w := Waiting{Owner: request.OwnerOf(p), Pods: 1, Code: f.Code(&r), State: r.Reason, Cause: r.Message, Since: p.CreationTimestamp.Time}
		k := waitingKey{w.Owner, w.Code, w.Cause}
		if i, found := at[k]; found {
			out[i].Pods++
			if w.Since.Before(out[i].Since) {
				out[i].Since = w.Since
			}
			continue
		}
		at[k] = len(out)
		out = append(out, w)
	}
	sums := map[reasons.Code]int{}
	for i := range out {
		sums[out[i].Code] += out[i].Pods
	}
	slices.SortFunc(out, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(sums[b.Code], sums[a.Code]), cmp.Compare(a.Code, b.Code), a.Since.Compare(b.Since), request.CompareOwners(a.Owner, b.Owner))
	})
	return out, nil
}

// waitingKey is what pods of one line have in common.
type waitingKey struct {
	owner request.Owner
	code  reasons.Code
	cause string
}
