package quota

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/testutil"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/quota/metrics"
)

// families are the names of all metrics of queues.
var families = []string{
	"berth_queue_nominal_gpus", "berth_queue_used_gpus", "berth_queue_borrowed_gpus", "berth_queue_lent_gpus",
	"berth_queue_waiting_workloads", "berth_queue_oldest_wait_seconds", "berth_queue_admissions_total", "berth_queue_evictions_total",
}

func TestMetricsOfQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := lend()
		g := metrics.NewCollector(q.look, time.Now)
		for _, name := range []string{"a", "b", "c"} {
			pod := one("red", name, name, "n1")
			q.Seen(pod)
			q.Bound(pod)
		}
		q.Seen(one("blue", "d", "d", "n1"))
		lead := one("blue", "e", "", "")
		if a := q.Try(Alone(lead, request.TicketOf(lead))); a.Refused == "" {
			t.Fatal("the pod is admitted, though all is in use")
		}
		time.Sleep(90 * time.Second)
		victim := one("red", "c", "c", "n1")
		q.Claim(Alone(lead, request.TicketOf(lead))).Returns(victim).Done()
		q.Preempted(one("red", "b", "b", "n1"))
		q.Preempted(one("", "x", "", "n1")) // of no queue
		const want = `
# HELP berth_queue_nominal_gpus [ALPHA] Nominal quota of a queue, by kind of GPUs; of MIG profiles in MIG devices.
# TYPE berth_queue_nominal_gpus gauge
berth_queue_nominal_gpus{gpus="All",queue="blue"} 2
berth_queue_nominal_gpus{gpus="All",queue="org"} 4
berth_queue_nominal_gpus{gpus="All",queue="red"} 2
# HELP berth_queue_used_gpus [ALPHA] GPUs that pods of a queue, and of those below it, hold or have kept for them.
# TYPE berth_queue_used_gpus gauge
berth_queue_used_gpus{gpus="All",queue="blue"} 1
berth_queue_used_gpus{gpus="All",queue="org"} 4
berth_queue_used_gpus{gpus="All",queue="red"} 3
# HELP berth_queue_borrowed_gpus [ALPHA] GPUs that a queue holds beyond its nominal quota.
# TYPE berth_queue_borrowed_gpus gauge
berth_queue_borrowed_gpus{gpus="All",queue="blue"} 0
berth_queue_borrowed_gpus{gpus="All",queue="org"} 0
berth_queue_borrowed_gpus{gpus="All",queue="red"} 1
# HELP berth_queue_lent_gpus [ALPHA] GPUs of the nominal quota of a queue that other queues hold.
# TYPE berth_queue_lent_gpus gauge
berth_queue_lent_gpus{gpus="All",queue="blue"} 1
berth_queue_lent_gpus{gpus="All",queue="org"} 0
berth_queue_lent_gpus{gpus="All",queue="red"} 0
# HELP berth_queue_waiting_workloads [ALPHA] Workloads of a queue, and of those below it, that wait for quota.
# TYPE berth_queue_waiting_workloads gauge
berth_queue_waiting_workloads{queue="blue"} 1
berth_queue_waiting_workloads{queue="org"} 1
berth_queue_waiting_workloads{queue="red"} 0
# HELP berth_queue_oldest_wait_seconds [ALPHA] How long the first of the workloads that wait for quota has waited; 0 if none waits.
# TYPE berth_queue_oldest_wait_seconds gauge
berth_queue_oldest_wait_seconds{queue="blue"} 90
berth_queue_oldest_wait_seconds{queue="org"} 90
berth_queue_oldest_wait_seconds{queue="red"} 0
# HELP berth_queue_admissions_total [ALPHA] Pods of a queue, and of those below it, that this scheduler has bound.
# TYPE berth_queue_admissions_total counter
berth_queue_admissions_total{queue="blue"} 0
berth_queue_admissions_total{queue="org"} 3
berth_queue_admissions_total{queue="red"} 3
# HELP berth_queue_evictions_total [ALPHA] Pods of a queue, and of those below it, that this scheduler has evicted, by reason.
# TYPE berth_queue_evictions_total counter
berth_queue_evictions_total{queue="blue",reason="Preempted"} 0
berth_queue_evictions_total{queue="blue",reason="QuotaReclaimed"} 0
berth_queue_evictions_total{queue="org",reason="Preempted"} 1
berth_queue_evictions_total{queue="org",reason="QuotaReclaimed"} 1
berth_queue_evictions_total{queue="red",reason="Preempted"} 1
berth_queue_evictions_total{queue="red",reason="QuotaReclaimed"} 1
`
		if err := testutil.CustomCollectAndCompare(g, strings.NewReader(want), families...); err != nil {
			t.Error(err)
		}
		read := q.read
		q.SetQueues([]quota.Spec{{Name: "red"}}, read) // a queue without amounts
		const left = `
# HELP berth_queue_admissions_total [ALPHA] Pods of a queue, and of those below it, that this scheduler has bound.
# TYPE berth_queue_admissions_total counter
berth_queue_admissions_total{queue="red"} 3
`
		if err := testutil.CustomCollectAndCompare(metrics.NewCollector(q.look, time.Now), strings.NewReader(left), "berth_queue_nominal_gpus", "berth_queue_admissions_total"); err != nil {
			t.Errorf("after queues were deleted: %v", err)
		}
		q.SetQueues(nil, queues.Reader{})
		q.Bound(&v1.Pod{})
		if err := testutil.CustomCollectAndCompare(metrics.NewCollector(q.look, time.Now), strings.NewReader(""), families...); err != nil {
			t.Errorf("without Queues: %v", err)
		}
	})
}
