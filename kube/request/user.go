package request

import (
	"cmp"
	"maps"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/user"
)

// Owners returns the object of a namespace that a reference names, nil if there is none, or if
// it cannot be read. Only its metadata is used.
type Owners func(namespace string, ref *metav1.OwnerReference) metav1.Object

// UserOf returns the user that an object exists for: the one who created it, or that a speaker
// named, or the user of the object that a known controller created it for. It is
// user.Unknown where admission policies did not see its creation, and where an owner that it is
// to be read from is not to be had. Annotations and labels of others say nothing here, and nor
// do owner references by themselves: those that users write lead nowhere.
//
// For limits, count under user.CountedAs of it.
func UserOf(o metav1.Object, owners Owners) string {
	at := o
	return user.Of(StampOf(o), func(uid string) (user.Stamp, bool) {
		refs := at.GetOwnerReferences()
		for i := range refs {
			if string(refs[i].UID) != uid {
				continue
			}
			owner := owners(o.GetNamespace(), &refs[i])
			if owner == nil || string(owner.GetUID()) != uid {
				return user.Stamp{}, false
			}
			at = owner
			return StampOf(owner), true
		}
		return user.Stamp{}, false
	})
}

// StampOf returns what an object says of its user.
func StampOf(o metav1.Object) user.Stamp {
	notes := o.GetAnnotations()
	return user.Stamp{User: notes[api.AnnotationUser], Controller: notes[api.AnnotationUserOf]}
}

// SetStamp writes a stamp on an object, and removes what it does not say. The map of annotations
// is replaced, not changed.
func SetStamp(o metav1.Object, s user.Stamp) {
	if StampOf(o) == s {
		return
	}
	notes := maps.Clone(o.GetAnnotations())
	for name, value := range map[string]string{api.AnnotationUser: s.User, api.AnnotationUserOf: s.Controller} {
		switch {
		case value == "":
			delete(notes, name)
		case notes == nil:
			notes = map[string]string{name: value}
		default:
			notes[name] = value
		}
	}
	o.SetAnnotations(notes)
}

// SaidUser is the user that programs which do not know Berth name in their own way: the user
// of a JupyterHub, or the creator of a Kubeflow notebook; "" is none. Every user may write it.
func SaidUser(o metav1.Object) string {
	notes := o.GetAnnotations()
	return cmp.Or(notes[api.AnnotationHubUser], notes[api.AnnotationCreator])
}

// User is who a pod works for, for people, as far as it says itself: see UserOf for pods of
// controllers. For pods that no policy has stamped it is what SaidUser says, or user.Unknown.
func User(pod *v1.Pod) string {
	if s := StampOf(pod); s != (user.Stamp{}) {
		return user.Of(s, func(string) (user.Stamp, bool) { return user.Stamp{}, false })
	}
	return cmp.Or(SaidUser(pod), user.Unknown)
}
