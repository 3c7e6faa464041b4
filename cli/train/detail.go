package train

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/core/training"
	objects "berth.dev/berth/kube/training"
)

// detail is a job in `berth train show -o json`.
type detail struct {
	row
	Elastic    string      `json:"elastic,omitempty"` // MIN:MAX workers
	Ranks      []rank      `json:"ranks"`
	Slowest    *int        `json:"slowest"`  // the rank whose GPUs are least busy; null is that none is slower than others, or unknown
	MeanBusy   *float64    `json:"meanBusy"` // ratio 0-1 over the ranks that are known, beside it
	Conditions []condition `json:"conditions"`
	Cause      string      `json:"cause,omitempty"` // of failures, as far as they show it
}

// rank is one replica of a job.
type rank struct {
	Rank     int      `json:"rank"`
	Type     string   `json:"type"`
	Index    int      `json:"index"` // within its type
	Pod      string   `json:"pod"`   // "" does not exist
	Phase    string   `json:"phase"` // of the pod, Terminating, or Missing
	Node     string   `json:"node"`
	Devices  []device `json:"devices"`
	Busy     *float64 `json:"busy"` // mean ratio 0-1 of its GPUs; null is unknown
	Restarts int      `json:"restarts"`
	ExitCode *int     `json:"exitCode,omitempty"`
	Since    string   `json:"since,omitempty"` // RFC 3339: when it started, else when it was created
}

// device is a GPU or a part of one.
type device struct {
	Index int    `json:"index"` // of the GPU on its node; -1 is unknown
	UUID  string `json:"uuid"`
}

// condition is a condition of a job.
type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Since   string `json:"since"` // RFC 3339

	since time.Time
}

// detail reads what is shown of a job and its pods.
func (j *jobs) detail(ctx context.Context, o *job) (*detail, error) {
	pods, err := j.podsOf(ctx, o)
	if err != nil {
		return nil, err
	}
	o.measureProgress(pods, j.options.Time())
	d := &detail{row: o.row(), Ranks: o.ranks(pods), Conditions: []condition{}, Cause: o.Program()}
	if e := o.Elastic; e != nil {
		d.Elastic = fmt.Sprintf("%d:%d", e.Min, e.Max)
	}
	for _, c := range o.Status.Conditions {
		if c.Since.IsZero() {
			continue // not a condition of the API's
		}
		status := v1.ConditionFalse
		if c.True {
			status = v1.ConditionTrue
		}
		d.Conditions = append(d.Conditions, condition{c.Type, string(status), c.Reason, c.Message, c.Since.UTC().Format(time.RFC3339), c.Since})
	}
	j.measure(ctx, d)
	return d, nil
}

// podsOf lists the pods of a job: those that it controls, or if there are none, those of the JobSet of a TrainJob that upstream's
// trainer runs.
func (j *jobs) podsOf(ctx context.Context, o *job) ([]*v1.Pod, error) {
	own := func(p *v1.Pod) bool {
		ref := metav1.GetControllerOfNoCopy(p)
		return ref != nil && ref.UID == o.object.GetUID()
	}
	pods, err := j.PodsOf(ctx, j.namespace, func(p *v1.Pod) bool { return own(p) || objects.OfJobSet(o.object, p) })
	if err != nil {
		return nil, j.Failed("list pods of "+j.namespace, err)
	}
	if slices.ContainsFunc(pods, own) {
		pods = slices.DeleteFunc(pods, func(p *v1.Pod) bool { return !own(p) })
	}
	return pods, nil
}

// ranks lists the replicas of a job, and pods beyond them. If a replica has two pods, the newer one is shown.
func (j *job) ranks(pods []*v1.Pod) []rank {
	newest := map[training.Member]*v1.Pod{}
	members := j.Ranks()
	for _, p := range pods {
		one, ok := objects.PodOf(j.Kind, p)
		if !ok {
			continue
		}
		if was := newest[one.Member]; was == nil || was.CreationTimestamp.Before(&p.CreationTimestamp) {
			newest[one.Member] = p
		}
		if !slices.Contains(members, one.Member) {
			members = append(members, one.Member)
		}
	}
	out := []rank{}
	for _, m := range members {
		r := rank{Rank: j.Rank(m), Type: m.Type, Index: m.Index, Phase: "Missing", Devices: []device{}, Restarts: j.Restarts.Of(m)}
		if p := newest[m]; p != nil {
			one, _ := objects.PodOf(j.Kind, p)
			r.Pod, r.Phase, r.Node, r.ExitCode = p.Name, string(one.Phase), p.Spec.NodeName, one.Exit
			r.Restarts += one.Restarts
			at := p.CreationTimestamp
			if p.Status.StartTime != nil {
				at = *p.Status.StartTime
			}
			r.Since = at.UTC().Format(time.RFC3339)
			if one.Deleting {
				r.Phase = "Terminating"
			}
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b rank) int { return cmp.Compare(a.Rank, b.Rank) })
	return out
}
