package request

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/core/gang"
	"berth.dev/berth/kube/training"
)

// Gang is the gang that a pod belongs to, as the pod says.
type Gang struct {
	Namespace string
	Name      string // for people; unique in the namespace only together with Key
	Key       string // equal for the members of one gang only, in all namespaces
	// MinCount is how many members must have a place before any gets one, at
	// least 1; 0 is that Object says it.
	MinCount int
	Object   *GangObject
	Within   gang.Level // the farthest that members may be apart
	// Grace is how long some members may run without the rest before all are evicted: 0
	// is gang.DefaultGrace, and less is for as long as they like.
	Grace time.Duration
}

// GangObject is an object that says how many members a gang has.
type GangObject struct {
	Kind      GangKind
	Namespace string
	Name      string
}

// GangKind is a kind of object that says how many members a gang has.
type GangKind struct {
	Group, Version, Resource, Kind string
}

// The kinds of objects that say how many members a gang has.
var (
	GangPodGroup        = GangKind{"scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup"}    // Kubernetes
	GangPodGroupX       = GangKind{"scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup"}  // scheduler-plugins' coscheduling
	GangPodGroupVolcano = GangKind{"scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"} // Volcano
	GangPodGroupKAI     = GangKind{"scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup"}    // KAI
	GangJobSet          = GangKind{"jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"}
	GangJob             = GangKind{"batch", "v1", "jobs", "Job"}
	GangTFJob           = GangKind{kubeflow.Group, "v1", "tfjobs", kubeflow.KindTFJob}
	GangPyTorchJob      = GangKind{kubeflow.Group, "v1", "pytorchjobs", kubeflow.KindPyTorchJob}
	GangTrainJob        = GangKind{trainer.Group, trainer.GroupVersion.Version, "trainjobs", trainer.KindTrainJob}
)

// GVR is how the kind is asked for at the API.
func (k GangKind) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource}
}

// String is the kind as people write it, such as "PodGroup of
// scheduling.x-k8s.io/v1alpha1".
func (k GangKind) String() string { return k.Kind + " of " + k.Group + "/" + k.Version }

// GangOf reads the gang of a pod, nil where it has none. It looks at the
// annotations berth.dev/gang and berth.dev/gang-min-count, then at what names a
// PodGroup: spec.schedulingGroup (Kubernetes), the label
// scheduling.x-k8s.io/pod-group (coscheduling), the annotations
// scheduling.k8s.io/group-name and scheduling.volcano.sh/group-name (Volcano)
// and pod-group-name (KAI).
//
// With berth.dev/gang alone, the pods of a Job are one gang of as many as the
// Job runs at once, and the pods of a JobSet one gang over all its Jobs. The pods of a
// TFJob, PyTorchJob, or TrainJob are a gang without any of these; berth.dev/gang-min-count then says
// with how few of them it starts.
//
// The error is of an annotation that cannot be understood: the pod should then
// not be placed at all, as its siblings might be missing. The Gang is given all
// the same where its name is known.
func GangOf(pod *v1.Pod) (*Gang, error) {
	if ofNoGang(pod) {
		return nil, nil
	}
	g := &Gang{Namespace: pod.Namespace, Within: gang.Cluster}
	if level := pod.Annotations[api.AnnotationTopology]; level != "" {
		l, err := gang.ParseLevel(level)
		if err != nil {
			return g.named(pod, pod.Annotations[api.AnnotationGang]), fmt.Errorf("annotation %s: %w", api.AnnotationTopology, err)
		}
		g.Within = l
	}
	var wrong error
	if text, ok := pod.Annotations[api.AnnotationGangGrace]; ok {
		g.Grace, wrong = grace(text)
	}
	if name := pod.Annotations[api.AnnotationGang]; name != "" {
		g, err := own(pod, g.named(pod, name))
		return g, cmp.Or(err, wrong)
	}
	for _, group := range []struct {
		name string
		kind GangKind
	}{
		{schedulingGroup(pod), GangPodGroup},
		{pod.Labels[api.LabelPodGroup], GangPodGroupX},
		{cmp.Or(pod.Annotations[api.AnnotationVolcanoGroup], pod.Annotations[api.AnnotationVolcanoGroupOwn]), GangPodGroupVolcano},
		{pod.Annotations[api.AnnotationKAIGroup], GangPodGroupKAI},
	} {
		if group.name != "" {
			g.of(&GangObject{Kind: group.kind, Namespace: pod.Namespace, Name: group.name})
			g.Name = group.name
			return g, wrong
		}
	}
	if ofTraining(g, pod) {
		g.Name = g.Object.Name
		if pod.Annotations[api.AnnotationGangMinCount] != "" {
			g, err := counted(pod, g)
			return g, cmp.Or(err, wrong)
		}
		return g, wrong
	}
	return nil, nil
}

// ofNoGang reports whether nothing of a pod, as of most, is about gangs.
func ofNoGang(pod *v1.Pod) bool {
	if pod.Spec.SchedulingGroup != nil || pod.Labels[api.LabelPodGroup] != "" {
		return false
	}
	for _, name := range [...]string{api.AnnotationGang, api.AnnotationTopology, api.AnnotationVolcanoGroup, api.AnnotationVolcanoGroupOwn, api.AnnotationKAIGroup} {
		if pod.Annotations[name] != "" {
			return false
		}
	}
	_, _, ok := training.OwnerOf(pod)
	return !ok
}

// ofTraining makes the training job that a pod belongs to the object that counts its
// gang. It reports false for pods of other owners.
func ofTraining(g *Gang, pod *v1.Pod) bool {
	kind, name, ok := training.OwnerOf(pod)
	if !ok {
		return false
	}
	of := GangTFJob
	for _, k := range []GangKind{GangPyTorchJob, GangTrainJob} {
		if kind == k.Kind {
			of = k
		}
	}
	g.of(&GangObject{Kind: of, Namespace: pod.Namespace, Name: name})
	g.Key += "/" + string(metav1.GetControllerOfNoCopy(pod).UID)
	return true
}

// grace reads berth.dev/gang-grace.
func grace(text string) (time.Duration, error) {
	if text == "never" {
		return -1, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("annotation %s: %q is not a valid duration: write one such as 5m, or never", api.AnnotationGangGrace, text)
	}
	return d, nil
}

// named returns g with its own name.
func (g *Gang) named(pod *v1.Pod, name string) *Gang {
	g.Name, g.Key = name, pod.Namespace+"/"+name
	return g
}

// of makes an object the one that g is counted by.
func (g *Gang) of(o *GangObject) {
	g.Object, g.Key = o, o.Kind.Resource+"."+o.Kind.Group+"/"+o.Namespace+"/"+o.Name
}

// own completes a gang of Berth's annotations.
func own(pod *v1.Pod, g *Gang) (*Gang, error) {
	if _, ok := pod.Annotations[api.AnnotationGangMinCount]; ok {
		return counted(pod, g)
	}
	if ofTraining(g, pod) { // before JobSets, whose labels pods of TrainJobs have
		return g, nil
	}
	if name := pod.Labels[api.LabelJobSet]; name != "" {
		g.of(&GangObject{Kind: GangJobSet, Namespace: pod.Namespace, Name: name})
		return g, nil
	}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.Kind == GangJob.Kind {
		g.of(&GangObject{Kind: GangJob, Namespace: pod.Namespace, Name: ref.Name})
		g.Key += "/" + string(ref.UID)
		return g, nil
	}
	return g, fmt.Errorf("gang %s: its size is not set: add the annotation %s to its pods", g.Name, api.AnnotationGangMinCount)
}

// counted completes a gang whose size is in the annotation berth.dev/gang-min-count.
func counted(pod *v1.Pod, g *Gang) (*Gang, error) {
	text := pod.Annotations[api.AnnotationGangMinCount]
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostMembers {
		return g, fmt.Errorf("annotation %s: %q is not a valid pod count: give a number from 1 to %d", api.AnnotationGangMinCount, text, mostMembers)
	}
	g.MinCount, g.Object = n, nil
	return g, nil
}

// schedulingGroup is the PodGroup of Kubernetes' own API that a pod names.
func schedulingGroup(pod *v1.Pod) string {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return ""
	}
	return *pod.Spec.SchedulingGroup.PodGroupName
}

// Place is where a node is, as its labels say: its NVLink fabric over several
// nodes from GPU Feature Discovery, its rack and its zone.
func Place(node *v1.Node) gang.Place {
	return gang.Place{
		Fabric: node.Labels[api.LabelFabric],
		Rack:   cmp.Or(node.Labels[api.LabelRack], node.Labels[api.LabelTopologyRack]),
		Zone:   node.Labels[v1.LabelTopologyZone],
	}
}
