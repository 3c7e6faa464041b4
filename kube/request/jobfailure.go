package request

import (
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
)

// defaultBackoffLimit is the API's default of a Job's spec.backoffLimit.
const defaultBackoffLimit = 6

// exitCodes are those of a container that is ended by SIGTERM, and by SIGKILL.
var exitCodes = []int32{143, 137}

// FailsJob returns why a Job would fail, or one of its indexes, if pods were evicted that are
// created by it; "" is that it would not.
//
// The Job controller counts every pod that is deleted as failed, unless a rule of
// spec.podFailurePolicy ignores the condition DisruptionTarget, which an eviction sets. The
// rules are tried in their order, and one on exit codes may come first.
//
// Source: Kubernetes' Job controller, v1.36.
func FailsJob(job *batchv1.Job, pods []*v1.Pod) string {
	const help = "add a rule to its podFailurePolicy that ignores the condition DisruptionTarget"
	limit := int32(defaultBackoffLimit)
	switch counts, fails := evictionCounts(job.Spec.PodFailurePolicy); {
	case fails:
		return fmt.Sprintf("Job %s would fail: its podFailurePolicy fails it when a pod is evicted", job.Name)
	case !counts:
		return ""
	case job.Spec.BackoffLimitPerIndex != nil:
		for _, pod := range pods {
			if n, _ := strconv.Atoi(pod.Annotations[batchv1.JobIndexFailureCountAnnotation]); n >= int(*job.Spec.BackoffLimitPerIndex) {
				return fmt.Sprintf("an index of Job %s would fail: pod %s has failed %d times, and its backoffLimitPerIndex is %d; %s",
					job.Name, pod.Name, n, *job.Spec.BackoffLimitPerIndex, help)
			}
		}
		return ""
	case job.Spec.BackoffLimit != nil:
		limit = *job.Spec.BackoffLimit
	}
	failed := int(job.Status.Failed)
	if u := job.Status.UncountedTerminatedPods; u != nil {
		failed += len(u.Failed)
	}
	if failed+len(pods) <= int(limit) {
		return ""
	}
	return fmt.Sprintf("Job %s would fail: each of the %d evictions counts for its backoffLimit of %d, and %d are counted already; %s",
		job.Name, len(pods), limit, failed, help)
}

// evictionCounts reports whether a pod that is evicted counts as failed, and whether that
// fails its Job or its index at once.
func evictionCounts(p *batchv1.PodFailurePolicy) (counts, fails bool) {
	if p == nil {
		return true, false
	}
	codes := slices.Clone(exitCodes) // those for which no rule was found yet
	for _, rule := range p.Rules {
		var hits bool
		switch {
		case rule.OnExitCodes != nil:
			left := slices.DeleteFunc(slices.Clone(codes), func(code int32) bool {
				return slices.Contains(rule.OnExitCodes.Values, code) == (rule.OnExitCodes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn)
			})
			hits, codes = len(left) < len(codes), left
		default:
			hits = slices.ContainsFunc(rule.OnPodConditions, func(c batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
				return c.Type == v1.DisruptionTarget && (c.Status == "" || c.Status == v1.ConditionTrue)
			})
		}
		if !hits {
			continue
		}
		counts = counts || rule.Action == batchv1.PodFailurePolicyActionCount
		fails = fails || rule.Action == batchv1.PodFailurePolicyActionFailJob || rule.Action == batchv1.PodFailurePolicyActionFailIndex
		if rule.OnExitCodes == nil {
			return counts, fails
		}
	}
	return true, fails
}
