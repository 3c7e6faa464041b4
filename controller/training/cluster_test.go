package training

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/trainer"
	objects "berth.dev/berth/kube/training"
)

// testCluster is an API server in memory, with a clock, that counts writes and can break off at one
// of them.
type testCluster struct {
	t      *testing.T
	client client.Client
	r      *reconciler
	now    time.Time
	mu     sync.Mutex // held during a write: the controller makes several at once
	uids   int
	writes []string
	breaks int      // the number of the write that fails, from 1; 0 is none
	done   bool     // of breaks: whether the write is carried out before its answer is lost
	refuse string   // the kind that may not be created
	posts  []string // what was to be created, also where it was there
	told   chan string
}

var errBroken = errors.New("the connection is lost")

// newCluster returns a cluster with a job.
func newCluster(t *testing.T, job objects.Object, others ...client.Object) *testCluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), kubeflow.AddTrainingToScheme(scheme), trainer.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := &testCluster{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	job.SetUID("job")
	c.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(job).WithObjects(others...).WithStatusSubresource(&kubeflow.TFJob{}, &kubeflow.PyTorchJob{}, &trainer.TrainJob{}, &corev1.Pod{}).
		WithIndex(&corev1.Pod{}, byOwner, ownerUID).WithIndex(&corev1.Service{}, byOwner, ownerUID).
		WithIndex(&corev1.Pod{}, byOrphan, orphanOf).WithIndex(&corev1.Service{}, byOrphan, orphanOf).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if c.refuse != "" && o.GetObjectKind().GroupVersionKind().Kind == c.refuse {
					return apierrors.NewForbidden(schema.GroupResource{Resource: strings.ToLower(c.refuse) + "s"}, o.GetName(), errors.New("exceeded quota: gpus"))
				}
				c.post(o.GetName())
				return c.count("create "+o.GetName(), func() error {
					c.uids++
					o.SetUID(types.UID(fmt.Sprint("u", c.uids)))
					o.SetCreationTimestamp(metav1.NewTime(c.now))
					return w.Create(ctx, o, opts...)
				})
			},
			Delete: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				var d client.DeleteOptions
				d.ApplyOptions(opts)
				if d.Preconditions == nil || d.Preconditions.UID == nil {
					t.Errorf("%s is deleted without the UID of what was seen", o.GetName())
				}
				return c.count("delete "+o.GetName(), func() error { return w.Delete(ctx, o) })
			},
			Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				return c.count("patch "+o.GetName(), func() error { return w.Patch(ctx, o, p, opts...) })
			},
			SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				return c.count("patch "+sub+" of "+o.GetName(), func() error { return w.SubResource(sub).Patch(ctx, o, p, opts...) })
			},
		}).Build()
	for _, k := range kinds {
		if string(k.kind) == job.JobKind() {
			c.start(k)
		}
	}
	return c
}

// start starts the controller, as after a crash.
func (c *testCluster) start(k kind) {
	recorder := record.NewFakeRecorder(10000)
	c.told = recorder.Events
	c.r = &reconciler{
		kind: k, jobs: c.client, children: c.client, live: c.client, events: recorder, now: func() time.Time { return c.now },
		memories: map[types.UID]*memory{},
	}
}

// post notes a request to create an object.
func (c *testCluster) post(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.posts = append(c.posts, name)
}

// count carries out a write, or fails.
func (c *testCluster) count(what string, write func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.writes) + 1
	if n == c.breaks && !c.done {
		c.writes = append(c.writes, what)
		return errBroken
	}
	err := write()
	if err == nil {
		c.writes = append(c.writes, what)
		if n == c.breaks {
			return errBroken
		}
	}
	return err
}

// settle reconciles the job until nothing more is written. A pass that fails is made again by a controller that starts.
func (c *testCluster) settle() {
	c.t.Helper()
	for range 50 {
		before := len(c.writes)
		_, err := c.r.Reconcile(c.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ml", Name: "mnist"}})
		switch {
		case errors.Is(err, errBroken):
			c.start(c.r.kind)
		case err != nil:
			c.t.Fatal(err)
		case len(c.writes) == before:
			return
		}
	}
	c.t.Fatalf("writes do not end: %q", c.writes)
}

// set puts pods into phases, written as "chief-0 Succeeded 0, worker-0 Running".
func (c *testCluster) set(text string) {
	c.t.Helper()
	for one := range strings.SplitSeq(text, ", ") {
		var who, phase string
		code := -1
		_, _ = fmt.Sscanf(one, "%s %s %d", &who, &phase, &code)
		phase, evicted := strings.CutSuffix(phase, "?")
		pod := &corev1.Pod{}
		if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist-" + who}, pod); err != nil {
			c.t.Fatal(err)
		}
		pod.Spec.NodeName = "n1"
		if err := c.client.Update(c.t.Context(), pod); err != nil {
			c.t.Fatal(err)
		}
		pod.Status.Phase = corev1.PodPhase(phase)
		if evicted {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}}
		}
		if code >= 0 {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "tensorflow", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code)}}}}
		}
		if err := c.client.Status().Update(c.t.Context(), pod); err != nil {
			c.t.Fatal(err)
		}
	}
}

// hold commits a GPU to a pod, as the scheduler does.
func (c *testCluster) hold(who, uuid string) {
	c.t.Helper()
	pod := &corev1.Pod{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist-" + who}, pod); err != nil {
		c.t.Fatal(err)
	}
	pod.Annotations = map[string]string{api.AnnotationDevices: `{"tensorflow":[{"uuid":"` + uuid + `","milliGPU":1000,"memoryBytes":1}]}`}
	if err := c.client.Update(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
}

// job reads the job.
func (c *testCluster) job() *kubeflow.Training {
	c.t.Helper()
	o := c.r.kind.object()
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "ml", Name: "mnist"}, o); err != nil {
		c.t.Fatal(err)
	}
	return o.(kubeflow.TrainingJob).Job()
}

// children lists the pods and Services, as "pod chief-0 Running, service chief-0".
func (c *testCluster) children() string {
	c.t.Helper()
	var pods corev1.PodList
	var services corev1.ServiceList
	if err := errors.Join(c.client.List(c.t.Context(), &pods), c.client.List(c.t.Context(), &services)); err != nil {
		c.t.Fatal(err)
	}
	var out []string
	for _, p := range pods.Items {
		out = append(out, strings.TrimSpace("pod "+strings.TrimPrefix(p.Name, "mnist-")+" "+string(p.Status.Phase)))
	}
	for _, s := range services.Items {
		out = append(out, "service "+strings.TrimPrefix(s.Name, "mnist-"))
	}
	return strings.Join(out, ", ")
}

// state writes the conditions of the job.
func (c *testCluster) state() string {
	var out []string
	for _, cond := range c.job().Status.Conditions {
		if cond.Type != "GPUQueued" {
			out = append(out, cond.Type+"="+string(cond.Status))
		}
	}
	return strings.Join(out, ", ")
}
