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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/training"
	schedulerquota "berth.dev/berth/scheduler/quota"
	"berth.dev/berth/scheduler/resume"
)

var jobs = batchv1.SchemeGroupVersion.WithResource("jobs")

// rig is an API server with Jobs, PyTorchJobs, and pods in memory, and a scheduler of them that has a Resumer. Pods
// are in the queue that the label "queue" names. It must be used inside a synctest bubble.
type rig struct {
	*testing.T
	client  *fake.Clientset
	dynamic *dynamicfake.FakeDynamicClient
	quota   *schedulerquota.Quota

	mu      sync.Mutex
	refuses error // what a patch is answered; nil: it is done
	version int
	made    int // pods of objects
	nodes   []*v1.Node
	pods    map[types.UID]*v1.Pod
	told    []string // events
	late    bool     // the controllers create no pods
	missing bool     // training jobs are not served
}

// newRig returns a rig with a node of each of so many GPUs.
func newRig(t *testing.T, gpus ...int) *rig {
	r := &rig{T: t, pods: map[types.UID]*v1.Pod{}}
	for _, n := range gpus {
		r.add(n)
	}
	r.client = fake.NewClientset()
	kubetest.OwnCopies(&r.client.Fake)
	r.client.PrependReactor("patch", "jobs", r.patch)
	r.dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		kubeflow.PyTorchJobs: "PyTorchJobList", kubeflow.TFJobs: "TFJobList", trainer.TrainJobs: "TrainJobList",
	})
	kubetest.OwnCopies(&r.dynamic.Fake)
	r.dynamic.PrependReactor("patch", "pytorchjobs", r.patch)
	r.dynamic.PrependReactor("list", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.missing, nil, apierrors.NewNotFound(a.GetResource().GroupResource(), "")
	})
	return r
}

// start runs a scheduler, which counts by these queues. It ends with the returned function.
func (r *rig) start(specs ...quota.Spec) (stop func()) {
	r.quota = schedulerquota.New()
	res := &resume.Resumer{
		Quota: r.quota, Client: r.client, Dynamic: r.dynamic, Events: told{r},
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
	r.quota.SetQueues(specs, queues.Reader{
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

// patch is what the API server does with a merge patch.
func (r *rig) patch(a k8stesting.Action) (bool, runtime.Object, error) {
	p := a.(k8stesting.PatchAction)
	r.mu.Lock()
	refuses := r.refuses
	r.mu.Unlock()
	if refuses != nil {
		return true, nil, refuses
	}
	change, object := map[string]any{}, r.find(p.GetName())
	now, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err == nil {
		err = utiljson.Unmarshal(p.GetPatch(), &change)
	}
	if err != nil {
		return true, nil, err
	}
	if meta := change["metadata"].(map[string]any); meta["resourceVersion"] != object.GetResourceVersion() || meta["uid"] != string(object.GetUID()) {
		return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), p.GetName(), fmt.Errorf("another version"))
	}
	merge(now, change)
	if _, is := object.(*batchv1.Job); is {
		j := &batchv1.Job{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(now, j); err != nil {
			return true, nil, err
		}
		return true, r.put(j), nil
	}
	j, err := training.Decode(kubeflow.KindPyTorchJob, now)
	if err != nil {
		return true, nil, err
	}
	return true, r.put(j), nil
}

// merge applies a merge patch.
func merge(into, change map[string]any) {
	for name, value := range change {
		inner, both := into[name].(map[string]any)
		more, is := value.(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case both && is:
			merge(inner, more)
		default:
			into[name] = value
		}
	}
}

// object is a Job or a PyTorchJob.
type object interface {
	metav1.Object
	runtime.Object
}

// find returns the object of a name.
func (r *rig) find(name string) object {
	if o, err := r.client.Tracker().Get(jobs, "d", name); err == nil {
		return o.DeepCopyObject().(*batchv1.Job)
	}
	o, err := r.dynamic.Tracker().Get(kubeflow.PyTorchJobs, "d", name)
	if err != nil {
		r.Fatal(err)
	}
	j, err := training.Decode(kubeflow.KindPyTorchJob, o.(*unstructured.Unstructured).Object)
	if err != nil {
		r.Fatal(err)
	}
	return j
}

func (r *rig) job(name string) *batchv1.Job { return r.find(name).(*batchv1.Job) }

// put writes an object, with a spec that may have changed.
func (r *rig) put(o object) object {
	o.SetGeneration(o.GetGeneration() + 1)
	return r.write(o)
}

// write writes an object.
func (r *rig) write(o object) object {
	r.mu.Lock()
	r.version++
	o.SetResourceVersion(strconv.Itoa(r.version))
	r.mu.Unlock()
	tracker, at, stored := r.client.Tracker(), jobs, runtime.Object(o)
	if t, is := o.(kubeflow.TrainingJob); is {
		raw, err := json.Marshal(t)
		u := &unstructured.Unstructured{}
		if err == nil {
			err = utiljson.Unmarshal(raw, &u.Object)
		}
		if err != nil {
			r.Fatal(err)
		}
		u.SetGroupVersionKind(kubeflow.GroupVersion.WithKind(t.JobKind()))
		tracker, at, stored = r.dynamic.Tracker(), kubeflow.PyTorchJobs, u
	}
	err := tracker.Update(at, stored, "d")
	if apierrors.IsNotFound(err) {
		err = tracker.Create(at, stored, "d")
	}
	if err != nil {
		r.Fatal(err)
	}
	return stored.DeepCopyObject().(object)
}

// change changes a Job.
func (r *rig) change(name string, how func(*batchv1.Job)) {
	j := r.job(name)
	how(j)
	r.put(j)
	r.settle()
}

// retrain changes a PyTorchJob.
func (r *rig) retrain(name string, how func(*kubeflow.PyTorchJob)) {
	j := r.find(name).(*kubeflow.PyTorchJob)
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

// train creates a suspended PyTorchJob of a queue that waits for its turn: a Master without GPUs, and so many
// workers with so many GPUs each.
func (r *rig) train(name, queue string, workers int32, gpus int64, how ...func(*kubeflow.PyTorchJob)) {
	j := &kubeflow.PyTorchJob{}
	j.ObjectMeta = metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Now(), Annotations: map[string]string{api.AnnotationResume: api.ResumeInTurn}}
	j.Spec.RunPolicy.Suspend = new(true)
	replicas := func(count int32, limits v1.ResourceList) kubeflow.ReplicaSpec {
		raw, err := json.Marshal(v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"queue": queue}},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "pytorch", Image: "x/train:1", Resources: v1.ResourceRequirements{Limits: limits, Requests: limits}}}},
		})
		if err != nil {
			r.Fatal(err)
		}
		return kubeflow.ReplicaSpec{Replicas: &count, Template: runtime.RawExtension{Raw: raw}}
	}
	j.Spec.PyTorchReplicaSpecs = map[string]kubeflow.ReplicaSpec{
		"Master": replicas(1, nil), "Worker": replicas(workers, v1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}),
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

// objects are the Jobs and PyTorchJobs that there are.
func (r *rig) objects() (out []object) {
	list, err := r.client.Tracker().List(jobs, batchv1.SchemeGroupVersion.WithKind("Job"), "")
	if err != nil {
		r.Fatal(err)
	}
	for _, j := range list.(*batchv1.JobList).Items {
		out = append(out, &j)
	}
	list, err = r.dynamic.Tracker().List(kubeflow.PyTorchJobs, kubeflow.GroupVersion.WithKind(kubeflow.KindPyTorchJob), "")
	if err != nil {
		r.Fatal(err)
	}
	for _, u := range list.(*unstructured.UnstructuredList).Items {
		out = append(out, r.find(u.GetName()))
	}
	return out
}

// control does what the controllers of objects do, and the rest of the scheduler: it creates the pods of
// objects that are not suspended, and places those for which there is quota on a node with room.
func (r *rig) control() {
	for _, o := range r.objects() {
		s := queues.Of(o, nil)
		have := make([]int, max(1, len(s.Sets)))
		for _, p := range r.of(o.GetName()) {
			if s.Is {
				r.end(p)
			} else {
				have[s.SetOf(p)]++
			}
		}
		for k, set := range s.Sets {
			want := set.Count
			if s.Resizes {
				want = s.Creates
			}
			for ; !s.Is && !r.late && have[k] < want; have[k]++ {
				r.made++
				p := set.Pod.DeepCopy()
				p.Name, p.CreationTimestamp = fmt.Sprintf("%s-%d", o.GetName(), r.made), metav1.Now()
				p.UID = types.UID(p.Name)
				if set.Type != "" {
					p.Labels[kubeflow.LabelReplicaType] = strings.ToLower(set.Type)
				}
				r.serve(p)
			}
		}
		r.report(o, s.Is, have)
	}
	for _, p := range r.all() {
		switch {
		case p.Spec.NodeName != "":
		case p.Labels[kubeflow.LabelReplicaType] != "":
			r.placeGang(p)
		case r.quota.Try(schedulerquota.Alone(p, request.TicketOf(p))).Refused == "":
			r.place(p)
		default:
			r.quota.Failed(p)
		}
	}
}

// placeGang places the pods of the training job of a pod, if there is quota for as many as it needs.
func (r *rig) placeGang(lead *v1.Pod) {
	name, bound := metav1.GetControllerOf(lead).Name, 0
	_, need := queues.Of(r.find(name), nil).Pods()
	var waiting []*v1.Pod
	for _, p := range r.of(name) {
		if p.Spec.NodeName == "" {
			waiting = append(waiting, p)
		} else {
			bound++
		}
	}
	if len(waiting) == 0 || bound+len(waiting) < need || waiting[0].UID != lead.UID {
		return
	}
	ask := &schedulerquota.Ask{Lead: lead, Pods: waiting, Need: need - bound, Gang: "d/" + name, Ticket: request.TicketOf(lead)}
	if bound >= need {
		ask = schedulerquota.Alone(lead, ask.Ticket)
	}
	answer := r.quota.Try(ask)
	if answer.Refused != "" {
		r.quota.Failed(lead)
		return
	}
	for _, p := range ask.Pods[:answer.Count] {
		r.place(p)
	}
}

// report has the status of an object say how many of its pods exist.
func (r *rig) report(o object, suspended bool, have []int) {
	switch o := o.(type) {
	case *batchv1.Job:
		if int(o.Status.Active) != have[0] {
			o.Status.Active = int32(have[0])
			r.write(o)
		}
	case *kubeflow.PyTorchJob:
		is := kubeflow.TrainingCondition{Type: "Suspended", Status: v1.ConditionFalse}
		if suspended {
			is.Status = v1.ConditionTrue
		}
		if list := o.Status.Conditions; len(list) == 0 || list[0] != is {
			o.Status.Conditions = []kubeflow.TrainingCondition{is}
			r.write(o)
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

// finish has an object complete: its pods are gone.
func (r *rig) finish(name string) {
	tracker, at := r.client.Tracker(), jobs
	if _, is := r.find(name).(kubeflow.TrainingJob); is {
		tracker, at = r.dynamic.Tracker(), kubeflow.PyTorchJobs
	}
	if err := tracker.Delete(at, "d", name); err != nil {
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

// states is how objects are: "a=4" runs with 4 pods on nodes, "a=1/4" has 1 of 4 on nodes, and "a-" is
// suspended.
func (r *rig) states(names ...string) string {
	var out []string
	for _, name := range names {
		o := r.find(name)
		placed, all := 0, r.of(name)
		for _, p := range all {
			if p.Spec.NodeName != "" {
				placed++
			}
		}
		switch {
		case queues.Of(o, nil).Is:
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
		r.Errorf("the objects are %s, want %s", got, states)
	}
}

// told keeps events.
type told struct{ r *rig }

func (t told) Eventf(about, _ runtime.Object, _, reason, _, text string, args ...any) {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	t.r.told = append(t.r.told, about.(metav1.Object).GetName()+" "+reason+": "+fmt.Sprintf(text, args...))
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
