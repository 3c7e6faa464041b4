package request_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
)

// made is the metadata of an object of a kind, by name, which is its UID as well: with the user
// and the UID that it is stamped with, and its controller as "Kind/name" if it has one.
func made(name, user, of, controller string) *metav1.ObjectMeta {
	o := &metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), Annotations: map[string]string{}}
	for key, value := range map[string]string{api.AnnotationUser: user, api.AnnotationUserOf: of} {
		if value != "" {
			o.Annotations[key] = value
		}
	}
	if kind, owner, ok := strings.Cut(controller, "/"); ok {
		o.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, UID: types.UID(owner), Controller: new(true)}}
	}
	return o
}

func TestUserOf(t *testing.T) {
	const jobs, crons, sets = "system:serviceaccount:kube-system:job-controller", "system:serviceaccount:kube-system:cronjob-controller", "berth:controller"
	there := map[string]metav1.Object{
		"Job/train":       made("train", "ada", "", ""),
		"Job/nightly-1":   made("nightly-1", crons, "nightly", "CronJob/nightly"),
		"CronJob/nightly": made("nightly", "Ångström", "", ""),
		"Job/old":         made("old", "", "", ""),
		"StatefulSet/nb":  made("nb", sets, "notebook", "Notebook/notebook"),
		"Job/again":       made("new-uid", "eve", "", ""),
		// As policies stamp what the deployment controller and a controller of InferenceServices create.
		"ReplicaSet/m-1":       made("m-1", sets, "m", "Deployment/m"),
		"Deployment/m":         made("m", sets, "svc", "InferenceService/svc"),
		"InferenceService/svc": made("svc", "ada", "", ""),
	}
	owners := func(namespace string, ref *metav1.OwnerReference) metav1.Object {
		if o, ok := there[ref.Kind+"/"+ref.Name]; ok && namespace == "n" {
			return o
		}
		return nil
	}
	for _, tt := range []struct {
		name string
		pod  *metav1.ObjectMeta
		want string
	}{
		{"a pod that a user created", made("p", "ada", "", ""), "ada"},
		{"a pod of a Job", made("p", jobs, "train", "Job/train"), "ada"},
		{"a pod of a CronJob's Job", made("p", jobs, "nightly-1", "Job/nightly-1"), "Ångström"},
		{"a pod of a Deployment of an InferenceService", made("p", "replicaset-controller", "m-1", "ReplicaSet/m-1"), "ada"},
		{"a forged owner reference", made("p", "bob", "", "Job/train"), "bob"},
		{"an owner that is not what it was created for", made("p", jobs, "another", "Job/train"), "-"},
		{"an owner that was created again", made("p", jobs, "again", "Job/again"), "-"},
		{"an owner that no policy saw", made("p", jobs, "old", "Job/old"), "-"},
		{"an owner that may not be read", made("p", "statefulset-controller", "nb", "StatefulSet/nb"), "-"},
		{"an owner reference that was removed", made("p", jobs, "train", ""), "-"},
		{"a pod that no policy saw", made("p", "", "", ""), "-"},
		{"nor one of a Job", made("p", "", "", "Job/train"), "-"},
	} {
		if got := request.UserOf(tt.pod, owners); got != tt.want {
			t.Errorf("%s: UserOf = %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestUserForPeople(t *testing.T) {
	for _, tt := range []struct {
		name  string
		notes map[string]string
		want  string
	}{
		{"nothing is known", nil, "-"},
		{"the stamp", map[string]string{api.AnnotationUser: "ada", api.AnnotationHubUser: "eve"}, "ada"},
		{"without one the user of the hub", map[string]string{api.AnnotationHubUser: "eve", api.AnnotationCreator: "ada"}, "eve"},
		{"or the creator of a notebook", map[string]string{api.AnnotationCreator: "ada"}, "ada"},
		{"of a controller's pod the pod alone does not say it", map[string]string{api.AnnotationUser: "c", api.AnnotationUserOf: "u", api.AnnotationHubUser: "eve"}, "-"},
	} {
		if got := request.User(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: tt.notes}}); got != tt.want {
			t.Errorf("%s: User = %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestSetStampWritesAndRemoves(t *testing.T) {
	o := made("p", "ada", "x", "")
	for _, s := range []struct{ user, of string }{{"bob", ""}, {"", ""}, {"c", "u"}} {
		want := request.StampOf(made("p", s.user, s.of, ""))
		request.SetStamp(o, want)
		if got := request.StampOf(o); got != want || s.user == "" && len(o.Annotations) > 0 {
			t.Errorf("SetStamp(%+v) leaves %v", want, o.Annotations)
		}
	}
	bare := &metav1.ObjectMeta{}
	if request.SetStamp(bare, request.StampOf(bare)); bare.Annotations != nil {
		t.Errorf("no stamp makes annotations %v", bare.Annotations)
	}
}
