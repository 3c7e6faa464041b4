package explain

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/devices"
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

// Survey is a cluster whose waiting workloads are listed.
type Survey struct {
	Nodes     []*v1.Node
	Pods      []*v1.Pod   // all of the cluster
	Namespace string      // of the workloads; "" is all
	DRA       devices.DRA // what a DRA driver offers beside what the nodes do
	Private   bool        // names of other namespaces than a workload's are withheld
	// BadClaims are the claims that keep a pod from every node; nil is that they are not known.
	BadClaims func(*v1.Pod) []reasons.Claim
}

// Waiting lists every workload with pods that have no node, or one that does not exist.
// Workloads with one cause stand together, the cause of most pods first, of these the one
// that waits longest. Each distinct ask is judged once.
func (s *Survey) Waiting(now time.Time) ([]Waiting, error) {
	c, err := NewCluster(s.Nodes, s.Pods)
	if err != nil {
		return nil, err
	}
	c.private = s.Private
	c.SetDRA(s.DRA)
	placers, verdicts := schedulers(s.Pods), map[string]*reasons.Verdict{}
	judge := func(p *v1.Pod) *reasons.Verdict {
		key := askKey(p, len(c.antis) > 0)
		if verdicts[key] == nil {
			verdicts[key] = c.Judge(p)
		}
		return verdicts[key]
	}
	var out []Waiting
	at := map[waitingKey]int{}
	for _, p := range s.Pods {
		gone := p.Spec.NodeName != "" && len(p.Status.ContainerStatuses) == 0 && !request.Ended(p) && c.nodeOf(p.Spec.NodeName) == nil
		if p.Spec.NodeName != "" && !gone || p.DeletionTimestamp != nil || s.Namespace != "" && p.Namespace != s.Namespace {
			continue
		}
		f := reasons.Facts{
			Namespace: p.Namespace, Name: p.Name, GPUs: AmountsOf(p), Claims: ClaimsOf(p), Pod: PodFacts(p, nil), Brief: true,
			Scheduler: p.Spec.SchedulerName, Schedulers: placers, Waited: now.Sub(p.CreationTimestamp.Time), NodeGone: gone,
		}
		if gone {
			f.Verdict = nodeGone(p.Spec.NodeName, s.Nodes)
		} else {
			f.Verdict = judge(p)
		}
		if s.BadClaims != nil && len(f.Claims) > 0 {
			f.BadClaims = s.BadClaims(p)
		}
		for _, g := range p.Spec.SchedulingGates {
			f.Gates = append(f.Gates, g.Name)
		}
		f.Joining = Joining(p, s.Nodes, now)
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
