package serving

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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
	"sigs.k8s.io/yaml"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	modes "berth.dev/berth/controller/runtime"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// world is an API server in memory with one service in namespace ml, a clock, and what its requests are.
type world struct {
	t       *testing.T
	client  client.Client
	r       *reconciler
	now     time.Time
	writes  int
	refuse  bool // no Deployment may be written
	forbid  bool // nothing may be created
	traffic *rules.Traffic
	log     []string
	reads   int // of logs
}

const tensorflow = "spec: {predictor: {minReplicas: 0, maxReplicas: 3, tensorflow: {storageUri: 'pvc://model-storage/', resources: {limits: {nvidia.com/gpu: 1}}}}}"

func newWorld(t *testing.T, text string, others ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), kserve.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	o := &kserve.InferenceService{}
	if err := yaml.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	o.Name, o.Namespace, o.UID, o.Generation = "mnist", "ml", "u", 1
	serve := &kserve.ClusterServingRuntime{ObjectMeta: metav1.ObjectMeta{Name: "kserve-tensorflow-serving", Annotations: map[string]string{kserve.AnnotationServerType: "tensorflow-serving"}}}
	serve.Spec.Raw = []byte(`{"supportedModelFormats":[{"name":"tensorflow","autoSelect":true}],"containers":[{"name":"kserve-container","image":"tensorflow/serving:1"}]}`)
	w := &world{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(o, serve).WithObjects(others...).
		WithStatusSubresource(&kserve.InferenceService{}, &corev1.Pod{}).WithIndex(&corev1.Pod{}, byService, serviceOf).WithIndex(&appsv1.ControllerRevision{}, byService, serviceOf).
		WithInterceptorFuncs(interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				if raw, err := json.Marshal(o); err != nil || w.refuse && strings.Contains(string(raw), `"kind":"Deployment"`) {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "mnist-predictor", errors.New("exceeded quota"))
				}
				w.writes++
				return c.Apply(ctx, o, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if _, ok := o.(*appsv1.ControllerRevision); ok {
					w.writes++
				}
				if w.forbid && o.GetName() != "" {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, o.GetName(), errors.New("exceeded quota"))
				}
				return c.Create(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				w.writes++
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				w.writes++
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	w.start()
	return w
}

// start starts the controller, as after a crash.
func (w *world) start() {
	w.r = newReconciler(Options{Traffic: func(string, string) (rules.Traffic, bool) {
		if w.traffic == nil {
			return rules.Traffic{}, false
		}
		return *w.traffic, true
	}}, w.client, w.client, w.client, record.NewFakeRecorder(1000))
	w.r.now = func() time.Time { return w.now }
	w.r.logs = func(context.Context, *corev1.Pod, string, bool) ([]string, error) { w.reads++; return w.log, nil }
}

// pass makes one pass, and returns how many writes it took.
func (w *world) pass() int {
	w.t.Helper()
	before := w.writes
	if _, err := w.r.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ml", Name: "mnist"}}); err != nil {
		w.t.Fatal(err)
	}
	return w.writes - before
}

// service is the service as it is stored.
func (w *world) service() *kserve.InferenceService {
	w.t.Helper()
	o := &kserve.InferenceService{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "ml", Name: "mnist"}, o); err != nil {
		w.t.Fatal(err)
	}
	return o
}

// deployment is the Deployment of the model, or nil.
func (w *world) deployment() *appsv1.Deployment { return w.deploymentOf("mnist-predictor") }

// deploymentOf is the Deployment with a name, or nil.
func (w *world) deploymentOf(name string) *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "ml", Name: name}, d); err != nil {
		return nil
	}
	return d
}

// pod adds a pod of the model as it is now.
func (w *world) pod(name string, change func(*corev1.Pod)) { w.podOf(w.deployment(), name, change) }

// podOf adds a pod of a Deployment.
func (w *world) podOf(d *appsv1.Deployment, name string, change func(*corev1.Pod)) {
	w.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ml", UID: types.UID(name), Labels: d.Spec.Template.Labels, Annotations: d.Spec.Template.Annotations}}
	change(p)
	if err := w.client.Create(context.Background(), p); err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.Status().Update(context.Background(), p); err != nil {
		w.t.Fatal(err)
	}
}

func waits(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no node has a free GPU"}}
}

func ready(p *corev1.Pod) {
	p.Spec.NodeName = "n"
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

// loading is a pod whose server began at a time.
func loading(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName = "n"
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "kserve-container", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}}}}
	}
}

// says checks a condition.
func (w *world) says(of, status, text string) {
	w.t.Helper()
	s := w.service().Status
	c := s.Condition(of)
	if c == nil || string(c.Status) != status || !strings.Contains(c.Reason+": "+c.Message, text) {
		w.t.Errorf("%s is %+v, want %s %q", of, c, status, text)
	}
}

func TestAServiceFromZeroToReadyAndBack(t *testing.T) {
	w := newWorld(t, tensorflow)
	w.traffic = &rules.Traffic{Since: w.now}
	w.pass()
	if d := w.deployment(); d == nil || *d.Spec.Replicas != 0 {
		t.Fatalf("a service with minReplicas 0 of which nothing is asked has %+v (kserve#3514)", d)
	}
	w.says("Ready", "True", "ScaledToZero: no requests; the next request starts a replica")
	for range 3 {
		if n := w.pass(); n != 0 {
			t.Fatalf("a pass over a service at rest writes %d times", n)
		}
	}
	w.traffic = &rules.Traffic{Held: 2, Last: w.now, Since: w.now}
	w.pass()
	if n := *w.deployment().Spec.Replicas; n != 1 {
		t.Fatalf("%d replicas after the first request", n)
	}
	w.pod("p", waits)
	w.now = w.now.Add(time.Hour)
	w.pass()
	if n := *w.deployment().Spec.Replicas; n != 1 {
		t.Fatalf("%d replicas while requests wait for the first one (kserve#1247)", n)
	}
	w.says("Ready", "False", "WaitingForGPU: 0 of 1 replica ready: no node has a free GPU")
	w.says("GPUQueued", "True", "no node has a free GPU")
	if s := w.service().Status; s.URL != "http://mnist.ml.svc.cluster.local" || s.ClusterServingRuntimeName != "kserve-tensorflow-serving" || s.ModelStatus.States.ActiveModelState != "Pending" {
		t.Errorf("the status is %+v", s)
	}
	if err := w.client.Delete(context.Background(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ml"}}); err != nil {
		t.Fatal(err)
	}
	w.pod("q", ready)
	w.traffic = &rules.Traffic{Last: w.now, Since: w.now.Add(-time.Hour)}
	w.pass()
	w.says("Ready", "True", "1 of 1 replica ready")
	w.now = w.now.Add(6 * time.Minute)
	w.pass()
	if n := *w.deployment().Spec.Replicas; n != 0 {
		t.Errorf("%d replicas after 6 minutes without requests", n)
	}
	w.says("Ready", "True", "ScaledToZero: no requests for 5m0s")
}

func TestServicesAreLeftToKServe(t *testing.T) {
	if k := Kind("", Options{}); k.Upstream != "kserve-controller" {
		t.Errorf("the other controller is %q", k.Upstream)
	}
	for _, mode := range []modes.Mode{modes.Govern, modes.Off} {
		w := newWorld(t, tensorflow)
		w.r.mode = func() modes.Mode { return mode }
		if n := w.pass(); n != 0 || w.deployment() != nil {
			t.Errorf("in mode %s a pass writes %d times", mode, n)
		}
	}
}

func TestARestartWritesNothing(t *testing.T) {
	w := newWorld(t, tensorflow)
	w.pass()
	w.pod("p", ready)
	w.pass()
	w.start()
	if n := w.pass(); n != 0 {
		t.Errorf("the first pass of a new process writes %d times", n)
	}
}

func TestWhatOthersChangeIsPutRight(t *testing.T) {
	w := newWorld(t, tensorflow)
	w.pass()
	d := w.deployment()
	*d.Spec.Replicas = 7
	if err := w.client.Update(context.Background(), d); err != nil {
		t.Fatal(err)
	}
	s := &corev1.Service{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "ml", Name: "mnist"}, s); err != nil {
		t.Fatal(err)
	}
	s.Spec.Selector = map[string]string{"app": "other"}
	if err := w.client.Update(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	w.pass()
	if n := *w.deployment().Spec.Replicas; n != 1 {
		t.Errorf("%d replicas stay that another client wrote", n)
	}
	if err := w.client.Get(context.Background(), client.ObjectKeyFromObject(s), s); err != nil || s.Spec.Selector["app"] != "isvc.mnist-predictor" {
		t.Errorf("the Service selects %v, %v", s.Spec.Selector, err)
	}
}

func TestTheModelIsNamedThatIsNone(t *testing.T) {
	w := newWorld(t, tensorflow)
	w.pass()
	w.log = []string{"W file_system_storage_path_source.cc:268] No versions of servable mnist found under base path /mnt/models. Did you forget to name your leaf directory as a number (eg. '/1/')?"}
	w.pod("p", loading(w.now))
	w.pass()
	w.says("Ready", "False", "Starting: 0 of 1 replica ready: loading the model")
	if w.reads != 0 {
		t.Error("the log of a server that has just started is read")
	}
	w.now = w.now.Add(11 * time.Second)
	w.pass()
	w.says("Ready", "False", "ModelLoadFailed: TensorFlow Serving finds no model in pvc://model-storage/")
	f := w.service().Status.ModelStatus.LastFailureInfo
	if f == nil || f.Location != "p" || f.Reason != "ModelLoadFailed" {
		t.Errorf("the failure is %+v", f)
	}
	for range 5 {
		w.now = w.now.Add(time.Second)
		if n := w.pass(); n != 0 {
			t.Errorf("a pass writes %d times, although nothing has changed", n)
		}
	}
	if w.reads != 1 {
		t.Errorf("the log is read %d times in 5 s", w.reads)
	}
}

func TestABoundOfRequestsIsOnTheServices(t *testing.T) {
	w := newWorld(t, strings.Replace(tensorflow, "minReplicas: 0, maxReplicas: 3", "minReplicas: 1, containerConcurrency: 2", 1))
	w.traffic, w.r.o.behind = &rules.Traffic{Since: w.now}, func() (bool, bool) { return true, true }
	w.pass()
	for _, name := range []string{"mnist", "mnist-predictor"} {
		s := &corev1.Service{}
		if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "ml", Name: name}, s); err != nil {
			t.Fatal(err)
		}
		if objects.BoundOf(s) != 2 || !objects.ThroughActivator(s) {
			t.Errorf("Service %s has %v, and requests go through activators: %v", name, s.Annotations, objects.ThroughActivator(s))
		}
	}
	w.pod("p", ready)
	w.pass()
	w.says("Ready", "True", "1 of 1 replica ready")
}

// A rollout with one GPU and none spare hangs with the default strategy (serving-progressive-rollout#200, #203).
func TestARolloutOnAFullCluster(t *testing.T) {
	for _, tt := range []struct{ name, note, below string }{
		{"waits by default, and says how to go on", "", "0"},
		{"stops an old replica first, if the service says so", "stop-first", "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tensorflow)
			w.pass()
			w.pod("old", ready)
			o := w.service()
			o.Spec.Raw = []byte(strings.Replace(string(o.Spec.Raw), `"tensorflow":{`, `"tensorflow":{"args":["--new"],`, 1))
			if tt.note != "" {
				o.Annotations = map[string]string{api.AnnotationRollout: tt.note}
			}
			if err := w.client.Update(context.Background(), o); err != nil {
				t.Fatal(err)
			}
			w.pass()
			if got := w.deployment().Spec.Strategy.RollingUpdate; got.MaxSurge.String() != "1" || got.MaxUnavailable.String() != "0" {
				t.Errorf("a rollout begins with %+v", got)
			}
			w.pod("new", waits)
			w.pass()
			if got := w.deployment().Spec.Strategy.RollingUpdate; got.MaxUnavailable.String() != tt.below {
				t.Errorf("while the new replica waits, %s old ones may end, want %s", got.MaxUnavailable, tt.below)
			}
			w.says("Ready", "True", "RollingOut: 1 of 1 replica ready of the revision before; the new one waits: no node has a free GPU")
		})
	}
}

// With one GPU, a change from one replica to two started a new revision, ended the replica that answered, and sent no request to the other
// (serving-progressive-rollout#203). Here it is the same revision, and the first replica goes on.
func TestTwoReplicasOnOneGPU(t *testing.T) {
	w := newWorld(t, strings.Replace(tensorflow, "minReplicas: 0", "minReplicas: 1", 1))
	w.traffic = &rules.Traffic{Since: w.now}
	w.pass()
	w.pod("one", ready)
	w.pass()
	before := w.deployment().Spec.Template
	o := w.service()
	o.Spec.Raw = []byte(strings.Replace(string(o.Spec.Raw), `"minReplicas":1`, `"minReplicas":2`, 1))
	if err := w.client.Update(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	w.pass()
	if d := w.deployment(); *d.Spec.Replicas != 2 || !reflect.DeepEqual(d.Spec.Template, before) {
		t.Errorf("%d replicas, and the pods are the same: %v", *d.Spec.Replicas, reflect.DeepEqual(d.Spec.Template, before))
	}
	w.pod("two", waits)
	w.pass()
	w.says("Ready", "True", "1 of 2 replicas ready; the other waits: no node has a free GPU")
}

func TestWhatIsNamedInTheStatus(t *testing.T) {
	for _, tt := range []struct {
		name, text   string
		others       []client.Object
		change       func(*world)
		of, is, says string
	}{
		{"a format that none serves", "spec: {predictor: {model: {modelFormat: {name: tensorflw}}}}", nil, nil, "Ready", "False", "NoSupportingRuntime: no runtime serves format tensorflw; did you mean tensorflow?"},
		{"Knative mode", "metadata: {annotations: {serving.kserve.io/deploymentMode: Serverless}}\nspec: {predictor: {tensorflow: {}}}", nil, nil, "Ready", "False", "deploymentMode Serverless is not served"},
		{"a stopped service", "metadata: {annotations: {serving.kserve.io/stop: 'true'}}\nspec: {predictor: {tensorflow: {}}}", nil, nil, "Stopped", "True", ""},
		{"a Service of the name that is another's", tensorflow, []client.Object{&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "mnist", Namespace: "ml"}}}, nil, "IngressReady", "False", "NameTaken: Service mnist exists and does not belong to this service"},
		{"zero where requests are not counted", tensorflow, nil, func(w *world) { w.pod("p", ready) }, "Ready", "True", "1 of 1 replica ready; requests are not counted here, so one replica stays: `berth activator` counts them"},
		{"a bound of requests that nothing keeps", strings.Replace(tensorflow, "minReplicas: 0", "minReplicas: 1, containerConcurrency: 2", 1), nil, func(w *world) {
			w.r.o.Traffic = nil
			w.pod("p", ready)
		}, "Ready", "True", "containerConcurrency 2 is not kept, as requests reach the replicas directly: `berth activator` keeps it"},
		{"a quota that refuses the Deployment", tensorflow, nil, func(w *world) { w.refuse = true }, "GPUQueued", "True", "exceeded quota"},
		{
			"an image that cannot be pulled", tensorflow, nil, func(w *world) {
				w.pod("p", func(p *corev1.Pod) {
					p.Spec.NodeName = "n"
					p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "kserve-container", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such tag"}}}}
				})
			}, "Ready", "False", "RuntimeUnhealthy: container kserve-container does not start (ImagePullBackOff): no such tag",
		},
		{
			"a download that fails", "spec: {predictor: {tensorflow: {storageUri: 's3://a/b'}}}", nil, func(w *world) {
				w.pod("p", func(p *corev1.Pod) {
					p.Spec.NodeName = "n"
					p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "storage-initializer", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "Unable to locate credentials"}}}}
				})
			}, "Ready", "False", "ModelLoadFailed: the model cannot be downloaded from s3://a/b: Unable to locate credentials",
		},
		{
			"a Secret that does not exist", "spec: {predictor: {tensorflow: {storageUri: 's3://a/b', storage: {key: k}}}}", nil, func(w *world) {
				w.pod("p", func(p *corev1.Pod) {
					p.Spec.NodeName = "n"
					p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "storage-initializer", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: `secret "storage-config" not found`}}}}
				})
			}, "Ready", "False", "ModelLoadFailed: the model cannot be downloaded: Secret storage-config does not exist; create it (kubectl create secret generic storage-config --from-literal=KEY=VALUE), or remove it",
		},
		{
			"a key that a Secret does not have", "spec: {predictor: {tensorflow: {storageUri: 's3://a/b', storage: {key: k}}}}", nil, func(w *world) {
				w.pod("p", func(p *corev1.Pod) {
					p.Spec.NodeName = "n"
					p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "storage-initializer", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: "couldn't find key k in Secret ml/storage-config"}}}}
				})
			}, "Ready", "False", "ModelLoadFailed: the model cannot be downloaded: Secret storage-config has no key k; add it",
		},
		{
			"a server that ends", tensorflow, nil, func(w *world) {
				w.pod("p", func(p *corev1.Pod) {
					p.Spec.NodeName = "n"
					p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "kserve-container", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}}}
				})
			}, "Ready", "False", "RuntimeUnhealthy: the server has ended with exit code 137 (OOMKilled)",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.text, tt.others...)
			if w.refuse = false; tt.change != nil && !strings.Contains(tt.name, "quota") {
				w.pass()
			}
			if tt.change != nil {
				tt.change(w)
			}
			w.pass()
			w.says(tt.of, tt.is, tt.says)
			if n := w.pass(); n > 0 {
				t.Errorf("the next pass writes %d times", n)
			}
		})
	}
}
