package queues

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/idle"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
)

// Defaults of a Queue.
const (
	DefaultMinRunTime = 10 * time.Minute
	DefaultHalfLife   = 7 * 24 * time.Hour
)

// Specs returns what Queues have, in the order of list, and what is wrong with each of them
// alone, by name. A quota of GPUs that no product is called counts by that name; products
// are names of products in label form that are known beside those of package gpu, such as
// those of the cluster's nodes.
func Specs(list []*v1alpha1.Queue, products ...string) ([]quota.Spec, []quota.Problem) {
	var specs []quota.Spec
	var problems []quota.Problem
	for _, q := range list {
		r := reader{queue: q.Name, products: products}
		specs = append(specs, r.spec(q))
		problems = append(problems, r.problems...)
	}
	slices.SortStableFunc(problems, func(a, b quota.Problem) int { return cmp.Compare(a.Queue, b.Queue) })
	return specs, problems
}

// Rules returns the rules of Queues that have any, by name. A maxRunTime that cannot be read is none.
func Rules(list []*v1alpha1.Queue) map[string]quota.Rule {
	out := map[string]quota.Rule{}
	for _, q := range list {
		r := reader{}
		rule := quota.Rule{Drain: q.Spec.Stop == v1alpha1.StopHoldAndDrain, Most: r.duration("", q.Spec.MaxRunTime, 0)}
		if rule != (quota.Rule{}) {
			out[q.Name] = rule
		}
	}
	return out
}

// reader reads one Queue.
type reader struct {
	queue    string
	products []string
	problems []quota.Problem
}

func (r *reader) wrong(field, format string, args ...any) {
	r.problems = append(r.problems, quota.Problem{Queue: r.queue, Field: field, Text: fmt.Sprintf(format, args...)})
}

func (r *reader) spec(q *v1alpha1.Queue) quota.Spec {
	s := &q.Spec
	out := quota.Spec{
		Name: q.Name, Parent: s.Parent, Weight: 1000, Ceiling: s.PriorityCeiling, Created: q.CreationTimestamp.Time,
		FairUsers: s.Order == v1alpha1.OrderFair,
		Stop:      s.Stop != "" && s.Stop != v1alpha1.StopNone,
		Spent:     Holds(q),
	}
	for _, name := range s.Sharing {
		out.Sharing |= sharing.Way(string(name))
	}
	if s.Weight != nil {
		out.Weight = int64(*s.Weight) * 1000
	}
	for i := range s.Quotas {
		c, field := &s.Quotas[i], fmt.Sprintf("spec.quotas[%d]", i)
		out.Quotas = append(out.Quotas, quota.Quota{
			Resource: r.resource(field+".gpus", c.GPUs), Nominal: Parts(c.Nominal), Borrowing: limit(c.BorrowingLimit), Lending: limit(c.LendingLimit),
		})
		if s.Parent == "" && c.BorrowingLimit != nil {
			r.wrong(field+".borrowingLimit", "the queue has no parent, and borrows nothing")
		}
		if s.Parent == "" && c.LendingLimit != nil {
			r.wrong(field+".lendingLimit", "the queue has no parent, and lends only to queues below it, without a limit")
		}
	}
	out.Prefers = r.preferred(s.PreferredGPUs)
	out.PerUser, out.PerPod = r.limits("spec.perUser", s.PerUser), r.limits("spec.perPod", s.PerPod)
	out.MinRunTime = r.duration("spec.minRunTime", s.MinRunTime, DefaultMinRunTime)
	out.HalfLife = DefaultHalfLife
	if s.Fairness != nil {
		out.HalfLife = r.duration("spec.fairness.halfLife", s.Fairness.HalfLife, DefaultHalfLife)
	}
	if most := r.duration("spec.maxRunTime", s.MaxRunTime, 0); most > 0 && most < out.MinRunTime {
		r.wrong("spec.maxRunTime", "%s is less than spec.minRunTime, %s", s.MaxRunTime, cmp.Or(s.MinRunTime, DefaultMinRunTime.String()))
	}
	return out
}

func (r *reader) limits(field string, list []v1alpha1.QueueLimit) []quota.Limit {
	var out []quota.Limit
	for i := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		out = append(out, quota.Limit{Resource: r.resource(at+".gpus", list[i].GPUs), Most: Parts(list[i].Max)})
	}
	return out
}

// preferred reads an order of preference. It leaves out kinds that no pod can choose.
func (r *reader) preferred(list []string) []quota.Resource {
	var out []quota.Resource
	for i, name := range list {
		field := fmt.Sprintf("spec.preferredGPUs[%d]", i)
		if name == v1alpha1.GPUsAll || name == v1alpha1.GPUsEquivalents || strings.HasPrefix(name, v1alpha1.GPUsMIGPrefix) {
			r.wrong(field, "%s is not a product or a node label", name)
			continue
		}
		out = append(out, r.resource(field, name))
	}
	return out
}

// duration reads a time; where it is not one, the usual counts.
func (r *reader) duration(field, text string, usual time.Duration) time.Duration {
	if text == "" {
		return usual
	}
	d, err := idle.Duration(text)
	if err != nil {
		r.wrong(field, "%q is not a duration: write one such as 30s, 10m, 1h30m or 2d", text)
		return usual
	}
	return d
}

// resource returns the resource of package quota that a value of gpus names.
func (r *reader) resource(field, name string) quota.Resource {
	switch name {
	case v1alpha1.GPUsAll:
		return quota.GPUs
	case v1alpha1.GPUsEquivalents:
		return quota.Equivalents
	}
	if profile, ok := strings.CutPrefix(name, v1alpha1.GPUsMIGPrefix); ok {
		if near, known := gpu.KnownProfile(profile); !known {
			r.wrong(field, "no GPU has the MIG profile %s; the nearest is %s", profile, near)
		}
		return quota.Resource(quota.MIGPrefix + gpu.CanonicalProfile(profile))
	}
	if strings.Contains(name, "=") {
		return quota.Resource(name)
	}
	label := gpu.BareLabel(name)
	if p, ok := gpu.Find(label); ok {
		return quota.Resource(p.LabelName())
	}
	label = gpu.Product{Name: label}.LabelName()
	if slices.Contains(r.products, label) {
		return quota.Resource(label)
	}
	near := v1alpha1.GPUsAll
	if p, ok := gpu.Find(gpu.Nearest(name)); ok {
		near = p.LabelName()
	}
	near = cmp.Or(gpu.NearestWord(label, r.products), near)
	r.wrong(field, "%s is not a known GPU product; did you mean %s?", name, near)
	return quota.Resource(label)
}

// limit returns the parts of a limit.
func limit(q *resource.Quantity) int64 {
	if q == nil {
		return quota.Unlimited
	}
	return Parts(*q)
}

// Parts returns an amount of GPUs in the parts of package quota, to the nearest. More than
// ten million GPUs count as these, and less than that below 0 likewise.
func Parts(q resource.Quantity) int64 {
	const most, nano = 10_000_000, 1_000_000_000
	switch {
	case q.CmpInt64(most) >= 0:
		return most * quota.Whole
	case q.CmpInt64(-most) <= 0:
		return -most * quota.Whole
	}
	n := q.ScaledValue(resource.Nano) // rounded up, within an int64
	return n/nano*quota.Whole + int64(math.Round(float64(n%nano)*quota.Whole/nano))
}

// Quantity returns parts as an amount of GPUs, in thousandths, as people write it.
func Quantity(parts int64) resource.Quantity {
	return *resource.NewMilliQuantity(quota.Milli(parts), resource.DecimalSI)
}

// GPUsOf returns how a resource is written in a Queue's field gpus.
func GPUsOf(r quota.Resource) string {
	switch r {
	case quota.GPUs:
		return v1alpha1.GPUsAll
	case quota.Equivalents:
		return v1alpha1.GPUsEquivalents
	}
	return string(r)
}
