package train

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/request"
	objects "berth.dev/berth/kube/training"
)

// followed is a line of a rank, or that a log has ended.
type followed struct {
	rank int
	line string
	end  bool
	err  error
}

// follower prints the logs of a job's pods as they grow.
type follower struct {
	logs  *logs
	jobs  *jobs
	job   *job
	lines chan followed
	tasks sync.WaitGroup

	begun map[string]bool    // runs of containers whose logs are read, or were
	pods  map[string]*v1.Pod // by name
	open  int                // logs that are read
	ended bool               // the job has ended, is stopped, or is gone
}

// followAll prints the logs of a job, and new lines and those of new pods, until the job and its pods have ended.
func (l *logs) followAll(ctx context.Context, j *jobs, o *job) error {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{
		logs: l, jobs: j, job: o, lines: make(chan followed), begun: map[string]bool{}, pods: map[string]*v1.Pod{}, ended: o.Status.Ended() || o.Suspend,
	}
	defer f.tasks.Wait()
	defer cancel()
	found, err := j.CoreV1().Pods(j.namespace).List(ctx, metav1.ListOptions{LabelSelector: f.selector()})
	if err != nil {
		return j.Failed("list pods of "+j.namespace, err)
	}
	for i := range found.Items {
		f.saw(ctx, &found.Items[i])
	}
	if len(f.begun) == 0 && !f.over() {
		term.Printf(l.options.Err, "no pod of %s has started yet; `%s train why %s` explains\n", o.at(), l.options.Name, o.title())
	}
	pods, err := client.Events(ctx, &f.tasks, func() (watch.Interface, error) {
		return j.CoreV1().Pods(j.namespace).Watch(ctx, metav1.ListOptions{LabelSelector: f.selector()})
	})
	if err != nil {
		return j.Failed("watch pods of "+j.namespace, err)
	}
	states, err := client.Events(ctx, &f.tasks, func() (watch.Interface, error) {
		return j.in(o.Kind, j.namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + o.Name})
	})
	if err != nil {
		return j.refused("watch "+o.at(), "watch", err)
	}
	return f.run(ctx, pods, states)
}

// selector selects the pods of the job.
func (f *follower) selector() string {
	return kubeflow.LabelJobName + "=" + f.job.Name + "," + kubeflow.LabelOperatorName + "=" + f.job.Kind.Operator()
}

// run prints lines, and looks at events of pods and of the job, until there is nothing to come.
func (f *follower) run(ctx context.Context, pods, states <-chan watch.Event) error {
	printLine := f.logs.printer(f.job)
	for !f.over() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case line := <-f.lines:
			if line.err != nil {
				term.Printf(f.logs.options.Err, "warning: %v\n", line.err)
			}
			if line.end {
				f.open--
				continue
			}
			if err := printLine(line.rank, line.line); err != nil {
				return err
			}
		case e := <-pods:
			if p, ok := e.Object.(*v1.Pod); ok && e.Type == watch.Deleted {
				delete(f.pods, p.Name)
			} else if ok {
				f.saw(ctx, p)
			}
		case e := <-states:
			if err := f.state(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// state notes whether the job has ended, is stopped, or is gone.
func (f *follower) state(e watch.Event) error {
	u, ok := e.Object.(*unstructured.Unstructured)
	if !ok || u.GetUID() != f.job.object.GetUID() {
		return nil
	}
	o, err := read(f.job.Kind, u)
	if err != nil {
		return err
	}
	f.ended = o.Status.Ended() || o.Suspend || e.Type == watch.Deleted
	return nil
}

// over reports whether no line is to come: the job has ended or is stopped, so have its pods, and their logs
// are printed.
func (f *follower) over() bool {
	if f.open > 0 || !f.ended {
		return false
	}
	for _, p := range f.pods {
		if !request.Ended(p) {
			return false
		}
	}
	return true
}

// saw notes a pod, and reads its log if that has begun.
func (f *follower) saw(ctx context.Context, p *v1.Pod) {
	ref := metav1.GetControllerOfNoCopy(p)
	one, ok := objects.PodOf(f.job.Kind, p)
	if ref == nil || ref.UID != f.job.object.GetUID() || !ok || f.logs.rank >= 0 && f.job.Rank(one.Member) != f.logs.rank {
		return
	}
	f.pods[p.Name] = p
	s, key, ok := f.logs.source(f.job, p)
	if !ok || f.begun[key] {
		return
	}
	f.begun[key] = true
	f.open++
	f.tasks.Go(func() { f.read(ctx, s) })
}

// read passes on the lines of one log, until it or ctx ends.
func (f *follower) read(ctx context.Context, from source) {
	pass := func(l followed) bool {
		select {
		case f.lines <- l:
			return true
		case <-ctx.Done():
			return false
		}
	}
	o := v1.PodLogOptions{Follow: true}
	if f.logs.tail >= 0 {
		o.TailLines = &f.logs.tail
	}
	s, err := f.jobs.open(ctx, from, o)
	if err != nil {
		pass(followed{end: true, err: err})
		return
	}
	defer s.body.Close()
	for {
		more, err := s.next(false)
		switch {
		case err != nil || !more:
			pass(followed{end: true, err: err})
			return
		case !pass(followed{rank: s.rank, line: s.line}):
			return
		}
	}
}
