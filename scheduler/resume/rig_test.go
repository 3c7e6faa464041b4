package resume_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"berth.dev/berth/api"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	schedulerquota "berth.dev/berth/scheduler/quota"
	"berth.dev/berth/scheduler/resume"
)

// rig is an API server with Jobs and pods in memory, and a scheduler of them that has a Resumer. Pods
// are in the queue that the label "queue" names. It must be used inside a synctest bubble.
type rig struct {
	*testing.T
	client *fake.Clientset
	quota  *schedulerquota.Quota

	mu      sync.Mutex
	refuses error // what a patch is answered; nil: it is done
	version int
	made    int // pods of Jobs
	nodes   []*v1.Node
	pods    map[types.UID]*v1.Pod
	told    []string // events
	late    bool     // the controller of Jobs creates no pods
}

// newRig returns a rig with a node of each of so many GPUs.
func newRig(t *testing.T, gpus ...int) *rig {
	r := &rig{T: t, pods: map[types.UID]*v1.Pod{}}
	for _, n := range gpus {
		r.add(n)
	}
	r.client = fake.NewClientset()
	r.client.PrependReactor("patch", "jobs", r.patch)
	return r
}

// start runs a scheduler, which counts by these queues. It ends with the returned function.
func (r *rig) start(specs ...quota.Spec) (stop func()) {
	r.quota = schedulerquota.New()
	res := &resume.Resumer{
		Quota: r.quota, Client: r.client, Events: told{r},
		Nodes: func() []*v1.Node {
			r.mu.Lock()
			defer r.mu.Unlock()
			return slices.Clone(r.nodes)
		},
		Pods: r.all, Held: func() map[types.UID]string { return nil },
	}
	ctx, cancel := contextOf(r.T)
	res.Start(ctx)
	for _, p := range r.all() {
		r.quota.Seen(p)
	}
	pieces := func(p *v1.Pod) []quota.Piece {
		n := request.Of(p)["nvidia.com/gpu"]
		return []quota.Piece{{Devices: n, Parts: n * quota.Whole}}
	}
	r.quota.SetQueues(specs, schedulerquota.Reader{
		Queue: func(p *v1.Pod) string { return p.Labels["queue"] }, User: func(*v1.Pod) string { return "ann" },
		Held: func(p *v1.Pod, _ string) []quota.Piece { return pieces(p) },
		Asked: func(p *v1.Pod, _ sharing.Ways) (quota.Pod, []quota.Kind) {
			return quota.Pod{ID: string(p.UID), Pieces: pieces(p)}, nil
		},
		Kind: func(*v1.Node) quota.Kind { return quota.Kind{} },
		Line: func(o metav1.Object) *int32 { return queues.LinePriorities{"urgent": 100}.Of(o, nil) },
	})
	r.settle()
	return func() { cancel(); synctest.Wait() }
}

// settle has everything done that can be done now: also what is gathered for a moment.
func (r *rig) settle() {
	for range 4 {
		synctest.Wait()
		time.Sleep(50 * time.Millisecond)
		r.control()
	}
	synctest.Wait()
}

func (r *rig) all() (out []*v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pods {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return out
}

// patch is what the API server does with a merge patch of a Job.
func (r *rig) patch(a k8stesting.Action) (bool, runtime.Object, error) {
	p := a.(k8stesting.PatchAction)
	r.mu.Lock()
	refuses := r.refuses
	r.mu.Unlock()
	if refuses != nil {
		return true, nil, refuses
	}
	var want struct {
		Metadata struct {
			ResourceVersion string
			UID             types.UID
			Annotations     map[string]*string
		}
		Spec struct {
			Suspend     *bool
			Parallelism *int32
		}
	}
	if err := json.Unmarshal(p.GetPatch(), &want); err != nil {
		return true, nil, err
	}
	j := r.job(p.GetName())
	if want.Metadata.ResourceVersion != j.ResourceVersion || want.Metadata.UID != j.UID {
		return true, nil, apierrors.NewConflict(batchv1.Resource("jobs"), p.GetName(), fmt.Errorf("another version"))
	}
	for name, value := range want.Metadata.Annotations {
		if value == nil {
			delete(j.Annotations, name)
		} else {
			j.Annotations[name] = *value
		}
	}
	if j.Spec.Suspend = want.Spec.Suspend; want.Spec.Parallelism != nil {
		j.Spec.Parallelism = want.Spec.Parallelism
	}
	return true, r.put(j), nil
}

func (r *rig) job(name string) *batchv1.Job {
	obj, err := r.client.Tracker().Get(batchv1.SchemeGroupVersion.WithResource("jobs"), "d", name)
	if err != nil {
		r.Fatal(err)
	}
	return obj.(*batchv1.Job).DeepCopy()
}

// put writes a Job.
func (r *rig) put(j *batchv1.Job) *batchv1.Job {
	r.mu.Lock()
	r.version++
	j.ResourceVersion = strconv.Itoa(r.version)
	r.mu.Unlock()
	at := batchv1.SchemeGroupVersion.WithResource("jobs")
	if err := r.client.Tracker().Update(at, j, "d"); apierrors.IsNotFound(err) {
		err = r.client.Tracker().Create(at, j, "d")
		if err != nil {
			r.Fatal(err)
		}
	}
	return j.DeepCopy()
}

// change changes a Job.
func (r *rig) change(name string, how func(*batchv1.Job)) {
	j := r.job(name)
	how(j)
	r.put(j)
	r.settle()
}

// refuse has patches answered by an error; nil has them done.
func (r *rig) refuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = err
}

// add adds a node with so many GPUs.
func (r *rig) add(gpus int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = append(r.nodes, kubetest.Foreign(fmt.Sprint("n", len(r.nodes)), kubetest.Product("Tesla-T4", gpus, 15360), "nvidia.com/gpu", gpus, "cpu", 64, "pods", 100))
}

// create creates a suspended Job of a queue that waits for its turn.
func (r *rig) create(name, queue string, pods int32, gpus int64, how ...func(*batchv1.Job)) {
	limits := v1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Now(), Annotations: map[string]string{api.AnnotationResume: api.ResumeInTurn}},
		Spec: batchv1.JobSpec{Suspend: new(true), Parallelism: &pods, Template: v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"queue": queue}},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Limits: limits, Requests: limits}}}},
		}},
	}
	for _, do := range how {
		do(j)
	}
	r.put(j)
	r.settle()
	time.Sleep(time.Second) // the next one is younger
}

func note(name, value string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Annotations[name] = value }
}

// control does what the controller of Jobs does, and the rest of the scheduler: it creates the pods of
// Jobs that are not suspended, and places those for which there is quota on a node with room.
func (r *rig) control() {
	list, err := r.client.Tracker().List(batchv1.SchemeGroupVersion.WithResource("jobs"), batchv1.SchemeGroupVersion.WithKind("Job"), "")
	if err != nil {
		r.Fatal(err)
	}
	for _, j := range list.(*batchv1.JobList).Items {
		suspended, have := *j.Spec.Suspend, 0
		for _, p := range r.all() {
			if ref := metav1.GetControllerOf(p); ref == nil || ref.UID != j.UID {
				continue
			}
			if suspended {
				r.end(p)
			} else {
				have++
			}
		}
		for ; !suspended && !r.late && have < int(*j.Spec.Parallelism); have++ {
			r.made++
			r.serve(&v1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "d", Name: fmt.Sprintf("%s-%d", j.Name, r.made), UID: types.UID(fmt.Sprintf("%s-%d", j.Name, r.made)), Labels: j.Spec.Template.Labels, CreationTimestamp: metav1.Now(),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID, Controller: new(true)}},
			}, Spec: j.Spec.Template.Spec})
		}
		if now := r.job(j.Name); int(now.Status.Active) != have {
			now.Status.Active = int32(have)
			r.put(now)
		}
	}
	for _, p := range r.all() {
		switch {
		case p.Spec.NodeName != "":
		case r.quota.Try(schedulerquota.Alone(p, request.TicketOf(p))).Refused == "":
			r.place(p)
		default:
			r.quota.Failed(p)
		}
	}
}

// serve shows a pod to the scheduler.
func (r *rig) serve(p *v1.Pod) {
	r.mu.Lock()
	r.pods[p.UID] = p
	r.mu.Unlock()
	r.quota.Seen(p)
}

// place binds a pod to the first node that has room for it.
func (r *rig) place(p *v1.Pod) {
	for _, n := range r.nodes {
		left := n.Status.Allocatable["nvidia.com/gpu"]
		free := left.Value()
		for _, o := range r.all() {
			if o.Spec.NodeName == n.Name {
				free -= request.Of(o)["nvidia.com/gpu"]
			}
		}
		if free >= request.Of(p)["nvidia.com/gpu"] {
			r.quota.Reserve(p, n.Name)
			bound := p.DeepCopy()
			bound.Spec.NodeName = n.Name
			r.serve(bound)
			return
		}
	}
	r.quota.Failed(p)
}

// end ends a pod.
func (r *rig) end(p *v1.Pod) {
	r.mu.Lock()
	delete(r.pods, p.UID)
	r.mu.Unlock()
	r.quota.Gone(p.UID)
}

// finish has a Job complete: its pods are gone.
func (r *rig) finish(name string) {
	if err := r.client.Tracker().Delete(batchv1.SchemeGroupVersion.WithResource("jobs"), "d", name); err != nil {
		r.Fatal(err)
	}
	for _, p := range r.of(name) {
		r.end(p)
	}
	r.settle()
}

func (r *rig) of(name string) (out []*v1.Pod) {
	for _, p := range r.all() {
		if ref := metav1.GetControllerOf(p); ref != nil && ref.Name == name {
			out = append(out, p)
		}
	}
	return out
}

// pod shows a pod without an owner.
func (r *rig) pod(name, queue, node string, gpus int64) *v1.Pod {
	p := kubetest.Pod(name, node, "nvidia.com/gpu", int(gpus))
	p.UID, p.Labels = types.UID("uid-"+name), map[string]string{"queue": queue}
	p.Status.StartTime = new(metav1.Now())
	if r.quota == nil {
		r.pods[p.UID] = p
		return p
	}
	r.serve(p)
	return p
}

// states is how Jobs are: "a=4" runs with 4 pods on nodes, "a=1/4" has 1 of 4 on nodes, and "a-" is
// suspended.
func (r *rig) states(names ...string) string {
	var out []string
	for _, name := range names {
		j := r.job(name)
		placed, all := 0, r.of(name)
		for _, p := range all {
			if p.Spec.NodeName != "" {
				placed++
			}
		}
		switch {
		case *j.Spec.Suspend:
			out = append(out, name+"-")
		case placed == len(all):
			out = append(out, fmt.Sprintf("%s=%d", name, placed))
		default:
			out = append(out, fmt.Sprintf("%s=%d/%d", name, placed, len(all)))
		}
	}
	return strings.Join(out, " ")
}

func (r *rig) want(states string) {
	r.Helper()
	var names []string
	for word := range strings.FieldsSeq(states) {
		names = append(names, word[:1])
	}
	if got := r.states(names...); got != states {
		r.Errorf("the Jobs are %s, want %s", got, states)
	}
}

// told keeps events.
type told struct{ r *rig }

func (t told) Eventf(about, _ runtime.Object, _, reason, _, text string, args ...any) {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	t.r.told = append(t.r.told, about.(*batchv1.Job).Name+" "+reason+": "+fmt.Sprintf(text, args...))
}

var _ events.EventRecorder = told{}

// cohort is queues below one, each with a nominal quota.
func cohort(total int64, parts map[string]int64) []quota.Spec {
	of := func(n int64) []quota.Quota {
		return []quota.Quota{{Resource: quota.GPUs, Nominal: n * quota.Whole, Borrowing: quota.Unlimited, Lending: quota.Unlimited}}
	}
	out := []quota.Spec{{Name: "org", Quotas: of(total)}}
	for name, n := range parts {
		out = append(out, quota.Spec{Name: name, Parent: "org", Quotas: of(n)})
	}
	return out
}
