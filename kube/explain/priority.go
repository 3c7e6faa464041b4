package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/request"
)

// mostClasses is how many PriorityClasses are tried.
const mostClasses = 4

// byPriority is the lowest PriorityClass with which the pod of s would preempt others and fit
// then: one that preempts, that no quota refuses, and that no disruption budget
// stands against. ok is false if there is none.
func (s *Situation) byPriority() (help Help, ok bool) {
	classes := slices.Clone(s.Priorities)
	slices.SortFunc(classes, func(a, b schedulingv1.PriorityClass) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.Name, b.Name))
	})
	var keeps []func(*v1.Pod) bool
	for i := range s.Budgets {
		keeps = append(keeps, keptBy(&s.Budgets[i]))
	}
	gone, tried := 0, 0
	for i := range classes {
		c := &classes[i]
		never := c.PreemptionPolicy != nil && *c.PreemptionPolicy == v1.PreemptNever
		if never || strings.HasPrefix(c.Name, "system-") || c.Value <= request.Priority(s.Pod) && !request.NeverPreempts(s.Pod) || tried == mostClasses {
			continue
		}
		rest := slices.DeleteFunc(slices.Clone(s.Pods), func(p *v1.Pod) bool {
			return p.Spec.NodeName != "" && request.Priority(p) < c.Value && !slices.ContainsFunc(keeps, func(kept func(*v1.Pod) bool) bool { return kept(p) })
		})
		if len(rest)+gone == len(s.Pods) {
			continue // the same pods leave as for a lower class
		}
		gone = len(s.Pods) - len(rest)
		tried++
		judged := s.Pod.DeepCopy()
		judged.Spec.PriorityClassName, judged.Spec.Priority, judged.Spec.PreemptionPolicy = c.Name, &c.Value, nil
		if quotaRefuses(s.Quotas, judged, s.Pod) {
			continue
		}
		on, err := s.with(rest, judged)
		if err != nil {
			return Help{}, false
		}
		node, fits := on.startsNow(judged, s.lineup())
		if !fits {
			continue
		}
		help = Help{Relief: reasons.Relief{Change: fmt.Sprintf("use PriorityClass %s (%d), which preempts pods of lower priority", c.Name, c.Value), Node: node, Later: true}, Pod: judged}
		written := judged.DeepCopy()
		written.Spec.Priority = nil // the API server fills it in
		help.Command = command(s.Pod, written)
		return help, true
	}
	return Help{}, false
}

// Preempts returns the node on which the pod of s would fit if the pods of lower priority were evicted that no disruption
// budget keeps; ok is false if it would not, or does not preempt.
func (s *Situation) Preempts() (node string, ok bool) {
	if request.NeverPreempts(s.Pod) || s.Queues != nil && s.Queues.Verdict(s.Pod).Cause != quota.None {
		return "", false
	}
	var keeps []func(*v1.Pod) bool
	for i := range s.Budgets {
		keeps = append(keeps, keptBy(&s.Budgets[i]))
	}
	rest := slices.DeleteFunc(slices.Clone(s.Pods), func(p *v1.Pod) bool {
		return p.Spec.NodeName != "" && request.Priority(p) < request.Priority(s.Pod) && !slices.ContainsFunc(keeps, func(kept func(*v1.Pod) bool) bool { return kept(p) })
	})
	if len(rest) == len(s.Pods) {
		return "", false
	}
	on, err := s.with(rest, s.Pod)
	if err != nil {
		return "", false
	}
	return on.startsNow(s.Pod, s.lineup())
}

// quotaRefuses reports whether a quota would not let a pod be created in the place of another.
func quotaRefuses(quotas []v1.ResourceQuota, pod, instead *v1.Pod) bool {
	return QuotaRoom(quotas, pod, instead) != nil || slices.ContainsFunc(quotas, func(q v1.ResourceQuota) bool {
		return ofClass(&q, pod.Spec.PriorityClassName) && !ofClass(&q, instead.Spec.PriorityClassName) && !hasRoom(&q, pod)
	})
}

// ofClass reports whether a quota counts pods of a PriorityClass, and of no other scope.
func ofClass(q *v1.ResourceQuota, class string) bool {
	if q.Spec.ScopeSelector == nil || len(q.Spec.Scopes) > 0 {
		return false
	}
	for _, m := range q.Spec.ScopeSelector.MatchExpressions {
		in := m.Operator == v1.ScopeSelectorOpIn && slices.Contains(m.Values, class) || m.Operator == v1.ScopeSelectorOpExists && class != "" ||
			m.Operator == v1.ScopeSelectorOpNotIn && !slices.Contains(m.Values, class)
		if m.ScopeName != v1.ResourceQuotaScopePriorityClass || !in {
			return false
		}
	}
	return true
}

// hasRoom reports whether a quota has room for one more pod.
func hasRoom(q *v1.ResourceQuota, pod *v1.Pod) bool {
	want := charged(pod)
	want["pods"] = *resource.NewQuantity(1, resource.DecimalSI)
	return shortage(q, want, nil) == nil
}
