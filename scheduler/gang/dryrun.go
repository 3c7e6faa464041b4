package gang

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/scheduler/state"
)

const (
	mostDryRuns  = 64                    // for one gang
	dryRunsAt    = 8                     // in one moment
	acceptedFor  = 5 * time.Second       // an answer that all are accepted
	rejectedFor  = 50 * time.Millisecond // an answer that one is rejected: the others of the gang get it too
	mostAttempts = 1 << 12               // remembered
	dryRunTime   = 10 * time.Second      // then the bindings are sent
)

// fresh reports whether the answer, or the one to come, still counts.
func (d *dryRun) fresh(now time.Time) bool {
	select {
	case <-d.done:
	default:
		return true
	}
	if d.err == nil {
		return now.Sub(d.at) < acceptedFor
	}
	return now.Sub(d.at) < rejectedFor
}

// clear returns why the binding of a pod must not be written: no member of its gang is
// bound, and the API server would reject one of them. The first that asks has the
// bindings of all distinct members tried without effect, and the others wait for it.
func (b *Manager) clear(ctx context.Context, pod *v1.Pod) error {
	b.mu.Lock()
	spec, _ := b.machine.Gang(string(pod.UID))
	if first := b.machine.First(string(pod.UID)); first != "" && first != string(pod.UID) {
		name, why := b.pods[types.UID(first)].Name, b.machine.Rejected(first)
		b.mu.Unlock()
		b.Happened(gang.Answered{UID: string(pod.UID)})
		return fmt.Errorf("gang %s is not bound before its pod %s, because %s", spec.Name, name, why)
	}
	sent, alone := b.machine.Unbound(string(pod.UID))
	if sent == nil {
		b.mu.Unlock()
		if alone {
			return fmt.Errorf("gang %s is not bound, because others of its pods have lost their places", spec.Name)
		}
		return nil
	}
	d, first := b.dryRuns[spec.Key], false
	if d == nil || !d.fresh(time.Now()) {
		if len(b.dryRuns) >= mostAttempts {
			maps.DeleteFunc(b.dryRuns, func(_ string, d *dryRun) bool { return !d.fresh(time.Now()) })
		}
		d, first = &dryRun{done: make(chan struct{})}, true
		b.dryRuns[spec.Key] = d
	}
	list := b.distinct(sent)
	b.mu.Unlock()
	if first {
		b.ask(ctx, list, d)
	}
	select {
	case <-d.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.err != nil {
		b.Happened(gang.Answered{UID: string(pod.UID), Refused: d.rejected == pod.UID, Reason: d.err.Error()})
		return fmt.Errorf("gang %s is not bound, because the API server rejects one of its pods: %w", spec.Name, d.err)
	}
	return nil
}

// rehearsal is a pod and the node that it is to be bound to.
type rehearsal struct {
	pod  *v1.Pod
	node string
}

// distinct picks one of the members that are alike: those of one controller whose
// labels differ in their number only. Pods without a controller are all distinct. b.mu
// must be held.
func (b *Manager) distinct(sent []gang.Sent) []rehearsal {
	seen, out := map[string]bool{}, []rehearsal(nil)
	for _, s := range sent {
		pod := b.pods[types.UID(s.UID)]
		if pod == nil || len(out) == mostDryRuns {
			continue
		}
		key := s.UID
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			key = alike(owner.UID, pod)
		}
		if !seen[key] {
			seen[key] = true
			out = append(out, rehearsal{pod, s.Node})
		}
	}
	return out
}

// alike is equal for pods of one controller that differ in their number only.
func alike(owner types.UID, pod *v1.Pod) string {
	var key strings.Builder
	key.WriteString(string(owner) + "/" + pod.Spec.ServiceAccountName + "/" + pod.Spec.PriorityClassName)
	for _, name := range slices.Sorted(maps.Keys(pod.Labels)) {
		if !strings.HasSuffix(name, "-index") && name != "statefulset.kubernetes.io/pod-name" {
			key.WriteString("/" + name + "=" + pod.Labels[name])
		}
	}
	return key.String()
}

// ask has the API server judge bindings, and ends d.
func (b *Manager) ask(ctx context.Context, list []rehearsal, d *dryRun) {
	ctx, cancel := context.WithTimeout(ctx, dryRunTime)
	defer cancel()
	says := make([]error, len(list))
	next := make(chan int, len(list))
	for i := range list {
		next <- i
	}
	close(next)
	var all sync.WaitGroup
	for range min(dryRunsAt, len(list)) {
		all.Go(func() {
			for i := range next {
				says[i] = b.try(ctx, list[i])
			}
		})
	}
	all.Wait()
	for i, err := range says {
		if rejects(err) {
			d.rejected = list[i].pod.UID
			d.err = fmt.Errorf("bind pod %s/%s to node %s: %w", list[i].pod.Namespace, list[i].pod.Name, list[i].node, err)
			break
		}
	}
	d.at = time.Now()
	close(d.done)
}

// try has the API server judge one binding, as it is to be written.
func (b *Manager) try(ctx context.Context, t rehearsal) error {
	c := b.state.Chosen(t.pod.UID)
	if c != nil && c.Node != t.node {
		c = nil
	}
	return b.client.CoreV1().Pods(t.pod.Namespace).Bind(ctx, state.Binding(t.pod, t.node, c), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// rejects reports whether an answer is that the binding will be rejected. A pod that
// is gone or bound is no reason, and a webhook that knows no dry run has not said
// anything.
func rejects(err error) bool {
	return state.Refused(err) && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsTooManyRequests(err) &&
		!strings.Contains(err.Error(), "does not support dry run")
}
