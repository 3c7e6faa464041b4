// Package spawn says what would happen if a user started a notebook of a profile
// now: it walks the chain from the namespace to the GPU and says of each link whether
// it holds, and what to do where it does not.
//
// It is pure: Judge turns what the caller has read of a cluster into findings. Nothing
// is made, so that what a controller or a kubelet will do is told from what they
// have said of others.
package spawn

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/profile"
)

// The links of the chain, in the order in which a start goes through them.
const (
	Namespace  = "namespace"
	Controller = "controller"
	Profile    = "profile"
	Rights     = "rights"
	Notebook   = "notebook"
	Volumes    = "volumes"
	Quota      = "quota"
	Admission  = "admission"
	Image      = "image"
	Nodes      = "nodes"
	GPUs       = "GPUs"
)

// Facts are what was read of a cluster about one start. What could not be read is
// named in Unread.
type Facts struct {
	User  string
	Space string        // the namespace's name
	Found *v1.Namespace // nil is that there is none

	Served    bool   // the API server knows Notebooks
	Mode, Why string // of Berth's controllers, see view.NotebookMode
	// Lease is that of Berth's controllers where they run as a process of their own.
	Lease *coordinationv1.Lease

	Profile  string // that was asked for; "" is the default
	Wrong    error  // why no notebook can be made of the profile; nil is that one can
	Object   *kubeflow.Notebook
	Pod      *v1.Pod // of Object, as it would be made
	Warnings []profile.Warning
	// Home is the claim that is made for the user where there is none of its name.
	Home *v1.PersistentVolumeClaim

	UserMay  bool   // make notebooks there
	AskerMay bool   // the user who asks
	Existing string // what the notebook of that name does, in a sentence; "" is that there is none
	Trouble  bool   // and that it is in trouble

	Claims  []*v1.PersistentVolumeClaim // of the namespace, those that the pod names
	Classes []storagev1.StorageClass
	Quotas  []v1.ResourceQuota
	Refusal string // the API server's answer to the pod when it was tried; "" is that it takes it

	Nodes   []*v1.Node
	Pods    []*v1.Pod // that have not ended
	Volumes []explain.VolumeTopology

	Unread map[string]string // by link: why it could not be looked at
	Now    time.Time
}

// Judge walks the chain. The findings are in the order of the links, each once; they
// end where nothing can be said beyond a link that is broken. Fail: it does not start
// as it is; Warn: it waits, or is not what the user may think.
func Judge(f *Facts) []finding.Finding {
	var out []finding.Finding
	for _, link := range []struct {
		name  string
		check func(*Facts) (finding.Status, string, string)
		ends  bool // beyond it nothing can be said if it fails
	}{
		{Namespace, namespace, true},
		{Controller, controller, false},
		{Profile, profiles, true},
		{Rights, rights, false},
		{Notebook, existing, false},
		{Volumes, volumes, false},
		{Quota, quota, false},
		{Admission, admission, false},
		{Image, image, false},
		{Nodes, nodes, false},
		{GPUs, gpus, false},
	} {
		one := finding.Finding{Name: link.name}
		if why := f.Unread[link.name]; why != "" {
			one.Status, one.Seen, one.Do = finding.Warn, "not looked at: "+why, "run it as a user who may"
		} else {
			one.Status, one.Seen, one.Do = link.check(f)
		}
		if one.Seen == "" {
			continue
		}
		out = append(out, one)
		if link.ends && one.Status == finding.Fail {
			break
		}
	}
	return out
}

// First is the first link that is broken, or "" where none is.
func First(list []finding.Finding) string {
	for _, one := range list {
		if one.Status == finding.Fail {
			return one.Name
		}
	}
	return ""
}
