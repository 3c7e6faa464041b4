package admission

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/core/user"
	"berth.dev/berth/kube/request"
)

// Users does in the process of an API server what the policies of KeepUsers and StampUsers do
// elsewhere.
type Users struct{ policy *user.Policy }

// NewUsers returns Users of user.NewPolicy.
func NewUsers(speakers, controllers []string) *Users {
	return &Users{user.NewPolicy(speakers, controllers)}
}

// ObjectWrite is one write of an object.
type ObjectWrite struct {
	By          string // the API server's user
	Resource    schema.GroupResource
	Subresource string        // "" is the object itself
	Now         metav1.Object // Stamp changes its annotations
	Before      metav1.Object // nil if Now is created
}

// Stamp writes on an object which user it was created for, if it is of a stamped resource.
func (u *Users) Stamp(o *ObjectWrite) {
	if w := u.read(o); w != nil && o.Subresource == "" {
		request.SetStamp(o.Now, u.policy.Stamp(w))
	}
}

// Refuses reports whether a write must not be done, because of what it says of a user: see
// UsersMessage.
func (u *Users) Refuses(o *ObjectWrite) bool {
	if o.Resource.Group == "" && (o.Resource.Resource == "bindings" || o.Resource.Resource == "pods" && o.Subresource == "binding") {
		return request.StampOf(o.Now) != user.Stamp{}
	}
	w := u.read(o)
	return w != nil && u.policy.Refuses(w)
}

// read is a write as user.Policy has it, nil if it is none of a stamped resource's metadata.
func (u *Users) read(o *ObjectWrite) *user.Write {
	stamped := slices.ContainsFunc(request.StampedResources, func(s request.Stamped) bool { return s.GroupResource == o.Resource })
	if !stamped || !slices.Contains([]string{"", "status", "resize", "ephemeralcontainers"}, o.Subresource) {
		return nil
	}
	w := &user.Write{
		By: o.By, Update: o.Before != nil, After: request.StampOf(o.Now), Said: request.SaidUser(o.Now),
		ReplicaSet: o.Resource.Group == "apps" && o.Resource.Resource == "replicasets",
	}
	if w.Update {
		w.Before = request.StampOf(o.Before)
	}
	if ref := metav1.GetControllerOfNoCopy(o.Now); ref != nil {
		w.Controller = string(ref.UID)
	}
	return w
}
