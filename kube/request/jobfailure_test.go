package request_test

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/kube/request"
)

func TestFailsJob(t *testing.T) {
	disrupted := func(action batchv1.PodFailurePolicyAction) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: action, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}}}
	}
	codes := func(action batchv1.PodFailurePolicyAction, op batchv1.PodFailurePolicyOnExitCodesOperator, values ...int32) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: op, Values: values}}
	}
	const (
		ignore, fail, count = batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionCount
		in, notIn           = batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn
	)
	for _, tt := range []struct {
		name   string
		limit  *int32
		index  *int32
		failed int32
		going  int // counted, but not in Failed yet
		rules  []batchv1.PodFailurePolicyRule
		want   string // what the reason contains; "" is that the Job goes on
	}{
		{name: "four evictions within the default of six"},
		{name: "four more than three that have failed", failed: 3, want: "each of the 4 evictions counts for its backoffLimit of 6, and 3 are counted already"},
		{name: "of which some are not in the sum yet", failed: 1, going: 2, want: "and 3 are counted already"},
		{name: "a Job that allows no failure", limit: new(int32(0)), want: "backoffLimit of 0"},
		{name: "evictions that are ignored", limit: new(int32(0)), rules: []batchv1.PodFailurePolicyRule{disrupted(ignore)}},
		{name: "evictions that are counted by a rule", limit: new(int32(0)), rules: []batchv1.PodFailurePolicyRule{disrupted(count)}, want: "backoffLimit of 0"},
		{name: "evictions that fail the Job", rules: []batchv1.PodFailurePolicyRule{disrupted(fail)}, want: "its podFailurePolicy fails it when a pod is evicted"},
		{name: "a rule about the exit code of SIGTERM comes first", rules: []batchv1.PodFailurePolicyRule{codes(fail, in, 143), disrupted(ignore)}, want: "fails it"},
		{name: "a rule about every exit code comes first", limit: new(int32(0)), rules: []batchv1.PodFailurePolicyRule{codes(count, notIn, 0), disrupted(ignore)}, want: "backoffLimit of 0"},
		{name: "a rule about another exit code comes first", limit: new(int32(0)), rules: []batchv1.PodFailurePolicyRule{codes(fail, in, 42), disrupted(ignore)}},
		{name: "a rule about exit codes comes later", limit: new(int32(0)), rules: []batchv1.PodFailurePolicyRule{disrupted(ignore), codes(fail, notIn, 0)}},
		{name: "no rule is about evictions", limit: new(int32(3)), rules: []batchv1.PodFailurePolicyRule{codes(ignore, in, 42)}, want: "backoffLimit of 3"},
		{name: "a limit for each index", limit: new(int32(0)), index: new(int32(3))},
		{name: "an index that has failed too often", index: new(int32(2)), want: "an index of Job train would fail: pod p has failed 2 times"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "train"}, Status: batchv1.JobStatus{Failed: tt.failed}}
			job.Spec.BackoffLimit, job.Spec.BackoffLimitPerIndex = tt.limit, tt.index
			if len(tt.rules) > 0 {
				job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: tt.rules}
			}
			if tt.going > 0 {
				job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"a", "b"}}
			}
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{batchv1.JobIndexFailureCountAnnotation: "2"}}}
			got := request.FailsJob(job, []*v1.Pod{pod, pod, pod, pod})
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
