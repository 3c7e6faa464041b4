package idle

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/runtime"
	rules "berth.dev/berth/core/idle"
	"berth.dev/berth/core/training"
	"berth.dev/berth/kube/devices"
	words "berth.dev/berth/kube/idle"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	objects "berth.dev/berth/kube/training"
)

// Jobs are the training jobs of one kind, which a loop suspends when their GPUs are idle. A policy of their namespace or
// in their annotations applies to them, the process's own does not. The loop keeps their warnings in memory, so the next
// process warns again.
type Jobs struct {
	Kind training.Kind
	List func(context.Context) ([]objects.Object, error)
	// Pods returns the pods of a job.
	Pods func(ctx context.Context, job client.Object) ([]*corev1.Pod, error)
}

// jobPods are the pods of a job that hold GPUs or may use CPU for it, and the job.
type jobPods struct {
	object   objects.Object
	pods     []*corev1.Pod
	problems string // of its policy
}

// kind is that of the job.
func (j *jobPods) kind() training.Kind { return training.Kind(j.object.JobKind()) }

// AddJobs adds a loop for training jobs to a manager, whose cache must have their kind. It also watches the metadata of
// namespaces.
func AddJobs(mgr manager.Manager, o Options, jobs Jobs) error {
	l, err := newLoop(mgr, o)
	if err != nil {
		return fmt.Errorf("add the loop for idle %ss: %w", jobs.Kind, err)
	}
	l.jobs = &jobs
	return mgr.Add(l)
}

// watched returns the kinds whose changes wake the loop.
func (l *loop) watched() []client.Object {
	if l.jobs != nil {
		return []client.Object{objects.New(l.jobs.Kind), runtime.NamespaceMeta()}
	}
	return []client.Object{&kubeflow.Notebook{}, runtime.NamespaceMeta()}
}

// jobSubjects returns the jobs with a policy that run and hold GPUs.
func (l *loop) jobSubjects(ctx context.Context) (out []subject, err error) {
	all, err := l.jobs.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list %ss: %w", l.jobs.Kind, err)
	}
	named := map[string]map[string]string{}
	for _, o := range all {
		policy, problems := l.policyOfJob(ctx, o, named)
		watched := !policy.Never || problems != ""
		if o.GetDeletionTimestamp() != nil || !watched && o.GetAnnotations()[api.AnnotationSuspendedFor] == "" {
			continue
		}
		job, _ := objects.Of(o) // what is wrong with it is its controller's to say
		if job.Suspend || job.Status.Ended() {
			continue // pods may still be there
		}
		if l.resumed(ctx, o); !watched {
			continue
		}
		pods, err := l.jobs.Pods(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("list the pods of %ss: %w", l.jobs.Kind, err)
		}
		pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool {
			return p.DeletionTimestamp != nil || request.Ended(p)
		})
		if !slices.ContainsFunc(pods, holdsGPUs) {
			continue
		}
		n := &kubeflow.Notebook{ObjectMeta: metav1.ObjectMeta{
			Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), Annotations: o.GetAnnotations(),
		}}
		out = append(out, subject{Notebook: n, pod: lastReady(pods), policy: policy, job: &jobPods{o, pods, problems}})
	}
	return out, nil
}

// policyOfJob returns the policy of a job, and what cannot be read of it. named remembers the annotations of namespaces.
func (l *loop) policyOfJob(ctx context.Context, o client.Object, named map[string]map[string]string) (policy rules.Policy, problems string) {
	of, known := named[o.GetNamespace()]
	if !known {
		m := runtime.NamespaceMeta()
		if err := l.reader.Get(ctx, client.ObjectKey{Name: o.GetNamespace()}, m); err == nil {
			of = m.Annotations
		}
		named[o.GetNamespace()] = of
	}
	policy, list := words.Of(of, o.GetAnnotations())
	return policy, strings.Join(list, "; ")
}

// holdsGPUs reports whether a pod holds GPUs or shares of them, or asks for them.
func holdsGPUs(p *corev1.Pod) bool { return len(devices.HeldDevices(p)) > 0 || request.Of(p) != nil }

// lastReady returns a pod that is not ready, if there is one, and else that which became ready last: a job is idle from then
// on at the earliest.
func lastReady(pods []*corev1.Pod) *corev1.Pod {
	return slices.MaxFunc(pods, func(a, b *corev1.Pod) int {
		readyA, sinceA := readySince(a)
		readyB, sinceB := readySince(b)
		if readyA != readyB {
			if readyB {
				return 1
			}
			return -1
		}
		return cmp.Or(sinceA.Compare(sinceB), cmp.Compare(a.Name, b.Name))
	})
}

// askJob reads the GPUs of all pods of a job, and if none is in use the CPU of the pods. A program says nothing of itself, so the
// job's use is known only where that of its GPUs is.
func (l *loop) askJob(ctx context.Context, j *jobPods) rules.Readings {
	r := rules.Readings{GPUs: rules.GPUs{At: l.o.Now(), Result: rules.OK}}
	for _, p := range j.pods {
		if !holdsGPUs(p) {
			continue
		}
		g := l.prober.GPUs(ctx, p)
		r.GPUs.Devices = append(r.GPUs.Devices, g.Devices...)
		if g.At.Before(r.GPUs.At) {
			r.GPUs.At = g.At
		}
		if g.Result == rules.Failed || g.Result == rules.Absent && r.GPUs.Result == rules.OK {
			r.GPUs.Result, r.GPUs.Said = g.Result, g.Said
		}
	}
	r.Server = rules.Server{At: r.GPUs.At, Result: r.GPUs.Result, Said: r.GPUs.Said}
	if r.Server.Result != rules.OK || rules.Busy(r.GPUs) {
		return r
	}
	r.Server.Programs = true
	for _, p := range j.pods {
		c := l.prober.CPU(ctx, p.Namespace, p.Name)
		switch {
		case c.Result == rules.Failed, r.CPU.Result == "":
			r.CPU = c
		case r.CPU.Result != rules.Failed && c.Result == rules.OK && (r.CPU.Result != rules.OK || c.Cores > r.CPU.Cores):
			r.CPU = c
		}
	}
	return r
}

// suspend suspends a job, if it is still as it was read, and writes why.
func (l *loop) suspend(ctx context.Context, s subject, d rules.Decision) error {
	set := map[string]any{api.AnnotationSuspendedFor: stoppedFor(d)}
	maps.Copy(set, queues.StayStopped(s.job.object, l.o.Now()))
	return l.patchJob(ctx, s.job.object, map[string]any{"metadata": map[string]any{"annotations": set}, "spec": objects.Suspend(string(s.job.kind()), true)})
}

// resumed removes from a job that runs why it was suspended.
func (l *loop) resumed(ctx context.Context, o objects.Object) {
	if o.GetAnnotations()[api.AnnotationSuspendedFor] == "" {
		return
	}
	change := map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.AnnotationSuspendedFor: nil}}}
	if err := l.patchJob(ctx, o, change); err != nil && !lost(err) && ctx.Err() == nil {
		klog.ErrorS(err, "The reason why a job was suspended could not be removed", "job", klog.KObj(o))
	}
}

// patchJob changes a job, if it is still as it was read.
func (l *loop) patchJob(ctx context.Context, o objects.Object, change map[string]any) error {
	meta, _ := change["metadata"].(map[string]any)
	meta["uid"], meta["resourceVersion"] = o.GetUID(), o.GetResourceVersion()
	patch, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("write a patch of job %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	into := objects.New(l.jobs.Kind)
	into.SetNamespace(o.GetNamespace())
	into.SetName(o.GetName())
	return l.writer.Patch(ctx, into, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(Name))
}

// tellJob makes the event of a step about a job.
func (l *loop) tellJob(s subject, d rules.Decision, warned bool) {
	resource := strings.TrimSuffix(objects.ResourceOf(string(s.job.kind())).Resource, "s")
	switch d.Do {
	case rules.Nothing, rules.Move, rules.Warn:
		if d.StopsAt.IsZero() || warned && d.Do != rules.Warn {
			return
		}
		l.event(s, corev1.EventTypeWarning, eventWarned, fmt.Sprintf(
			"suspended at %s unless its GPUs are used: %s; its pods are then deleted, and what they have not saved is lost; to keep it running: kubectl annotate --overwrite %s %s -n %s %s=never",
			d.StopsAt.UTC().Format(time.RFC3339), d.Why, resource, s.Name, s.Namespace, api.AnnotationIdleAfter))
	case rules.Clear:
		l.event(s, corev1.EventTypeNormal, eventCleared, "not suspended: "+d.Why)
	case rules.Stop:
		jobsSuspended.Inc()
		l.event(s, corev1.EventTypeWarning, eventSuspended, fmt.Sprintf("suspended as %s; what its pods have not saved is lost; to resume it: berth train resume %s -n %s", stoppedFor(d), s.Name, s.Namespace))
	}
}
