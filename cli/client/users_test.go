package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"berth.dev/berth/core/user"
	"berth.dev/berth/kube/request"
)

// stamped is the metadata of an object whose UID is its name, stamped with a user or as created
// for the owner "apiVersion Kind name", if there is one.
func stamped(name, by, owner string) metav1.ObjectMeta {
	o := metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name)}
	s := user.Stamp{User: by}
	if f := strings.Fields(owner); len(f) == 3 {
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: f[0], Kind: f[1], Name: f[2], UID: types.UID(f[2]), Controller: new(true)}}
		s.Controller = f[2]
	}
	request.SetStamp(&o, s)
	return o
}

// ownersServer serves the metadata of objects by their path, and counts requests.
func ownersServer(t *testing.T, objects map[string]metav1.ObjectMeta) (*Cluster, *[]string) {
	t.Helper()
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		kind := metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
		if o, ok := objects[r.URL.Path]; ok {
			_ = json.NewEncoder(w).Encode(metav1.PartialObjectMetadata{TypeMeta: kind, ObjectMeta: o})
			return
		}
		list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
		for path, o := range objects {
			if strings.Replace(path, "/namespaces/n/", "/", 1) == r.URL.Path+"/"+o.Name {
				list.Items = append(list.Items, metav1.PartialObjectMetadata{TypeMeta: kind, ObjectMeta: o})
			}
		}
		if len(list.Items) == 0 {
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonForbidden, Code: 403})
			return
		}
		_ = json.NewEncoder(w).Encode(list)
	}))
	t.Cleanup(s.Close)
	return &Cluster{Config: &rest.Config{Host: s.URL}}, &asked
}

func TestUsersAreReadAbovePods(t *testing.T) {
	c, asked := ownersServer(t, map[string]metav1.ObjectMeta{
		"/apis/batch/v1/namespaces/n/jobs/train":               stamped("train", "ada", ""),
		"/apis/batch/v1/namespaces/n/jobs/nightly-1":           stamped("nightly-1", "cronjob-controller", "batch/v1 CronJob nightly"),
		"/apis/batch/v1/namespaces/n/cronjobs/nightly":         stamped("nightly", "grace", ""),
		"/apis/apps/v1/namespaces/n/statefulsets/lab":          stamped("lab", "berth:controller", "kubeflow.org/v1 Notebook nb"),
		"/apis/kubeflow.org/v1/namespaces/n/notebooks/nb":      stamped("nb", "eve", ""),
		"/apis/apps/v1/namespaces/n/replicasets/before-stamps": stamped("before-stamps", "", ""),
		"/apis/apps/v1/namespaces/n/replicasets/not-asked-for": stamped("not-asked-for", "x", ""),
		"/apis/batch/v1/namespaces/n/jobs/replaced-by-a-newer": stamped("newer", "mallory", ""),
	})
	want := map[string]string{}
	var pods []*v1.Pod
	for i, tt := range []struct{ by, owner, want string }{
		{"ada", "", "ada"},
		{"job-controller", "batch/v1 Job train", "ada"},
		{"job-controller", "batch/v1 Job train", "ada"},
		{"job-controller", "batch/v1 Job nightly-1", "grace"},
		{"statefulset-controller", "apps/v1 StatefulSet lab", "eve"},
		{"replicaset-controller", "apps/v1 ReplicaSet before-stamps", "-"},
		{"job-controller", "batch/v1 Job replaced-by-a-newer", "-"},
		{"job-controller", "batch/v1 Job gone", "-"},
		{"operator", "example.com/v1 Unknown x", "-"},
		{"", "", "-"},
	} {
		p := &v1.Pod{ObjectMeta: stamped(fmt.Sprint("p", i), tt.by, tt.owner)}
		pods, want[p.Name] = append(pods, p), tt.want
	}
	c.NameUsers(t.Context(), pods)
	for _, p := range pods {
		if got := request.User(p); got != want[p.Name] {
			t.Errorf("%s: user %q, want %q", p.Name, got, want[p.Name])
		}
	}
	if n := len(*asked); n != 8 {
		t.Errorf("%d requests, want one for each owner: %q", n, *asked)
	}
}

func TestManyOwnersAreListed(t *testing.T) {
	objects := map[string]metav1.ObjectMeta{}
	var pods []*v1.Pod
	for i := range 3 * fewOwners {
		name := fmt.Sprint("job-", i)
		objects["/apis/batch/v1/namespaces/n/jobs/"+name] = stamped(name, fmt.Sprint("user-", i), "")
		if i%2 == 0 {
			pods = append(pods, &v1.Pod{ObjectMeta: stamped(fmt.Sprint("p", i), "job-controller", "batch/v1 Job "+name)})
		}
	}
	c, asked := ownersServer(t, objects)
	c.NameUsers(t.Context(), pods)
	for i, p := range pods {
		if got, want := request.User(p), fmt.Sprint("user-", 2*i); got != want {
			t.Errorf("%s: user %q, want %q", p.Name, got, want)
		}
	}
	if len(*asked) != 1 {
		t.Errorf("requests %q, want one list", *asked)
	}
}

func TestNoOwnerIsReadForPodsThatSayTheirUser(t *testing.T) {
	c, asked := ownersServer(t, nil)
	pods := []*v1.Pod{{ObjectMeta: stamped("p", "ada", "")}, {}}
	c.NameUsers(t.Context(), pods)
	if request.User(pods[0]) != "ada" || request.User(pods[1]) != "-" || len(*asked) > 0 {
		t.Errorf("users %q, %q after requests %q", request.User(pods[0]), request.User(pods[1]), *asked)
	}
}
